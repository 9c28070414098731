"""Saves and restores objects of TensorFlow and Keras: variable by variable, by the way that leads to each.

That goes for tf.Module, tf.Variable, tf.train.Checkpoint and everything of Keras, whatever its backend is.
TensorFlow's own files are not used: they cannot be written without stopping the loop.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from ...script.complaints import Complaint
from . import comparison


def is_one(value: Any) -> bool:
    """Whether it is an object that holds variables of TensorFlow or Keras."""
    tensorflow: Any = sys.modules.get("tensorflow")
    if _is_keras(value, "Layer", "Optimizer", "Variable"):
        return True
    kinds = ("Module", "Variable")
    if tensorflow is None or not all(hasattr(tensorflow, kind) for kind in (*kinds, "train")):
        return False
    return isinstance(value, (tensorflow.Module, tensorflow.Variable, tensorflow.train.Checkpoint))


def values(part: Any) -> Dict[str, Any]:
    """The numbers of all variables."""
    found: Dict[str, Any] = {}
    for name, variable in variables(part).items():
        if _is_keras(variable, "Variable"):
            found[name] = sys.modules["keras"].ops.convert_to_numpy(variable.value)
        else:
            found[name] = sys.modules["numpy"].asarray(variable.read_value())
    return found


def variables(part: Any) -> Dict[str, Any]:
    """All variables by the way that leads to them; a compiled model's optimizer is part of it."""
    found: Dict[str, Any] = {}
    seen = {id(part)}
    todo: List[Tuple[str, Any]] = [("", part)]
    while todo:
        path, trackable = todo.pop(0)
        if _is_variable(trackable):
            found[path or "it"] = trackable
            continue
        for name, child in _children(trackable):
            if id(child) not in seen:
                seen.add(id(child))
                todo.append((f"{path}/{name}" if path else name, child))
    return found


def build(parts: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Lets Keras optimizers make the variables that they would make at their first step.

    They need the model's for it: that of their own model, or the only one there is.
    """
    models: Dict[int, Any] = {}
    unbuilt: List[Any] = []
    for part in parts.values():
        for trackable in _inside(part):
            if _is_keras(trackable, "Model"):
                models[id(trackable)] = trackable
            elif _is_keras(trackable, "Optimizer") and not trackable.built:
                unbuilt.append(trackable)
    # Something was saved that only an optimizer makes which has done a step.
    is_trained = any(
        name.rpartition("/")[2].startswith("slot-") for names in saved.values() for name in names
    )
    owners = {id(getattr(model, "optimizer", None)): model for model in models.values()}
    for optimizer in unbuilt:
        model = owners.get(id(optimizer)) or (next(iter(models.values())) if len(models) == 1 else None)
        if model is not None and model.trainable_variables and is_trained:
            try:
                optimizer.build(model.trainable_variables)
            except RuntimeError as error:  # only the script knows its strategy
                raise Complaint(
                    f"the variables of {type(optimizer).__name__} cannot be made here: {error}",
                    "before restore: with strategy.scope(): optimizer.build(model.trainable_variables)",
                ) from error


def refuse_differences(name: str, part: Any, saved: Any) -> None:
    try:
        comparison.refuse_differences(name, comparison.mapping(name, saved), variables(part))
    except Complaint as complaint:
        raise Complaint(
            complaint.what,
            complaint.hint + "; a layer that has seen no input has no variables: model.build(...)",
        ) from None


def assign(part: Any, saved: Mapping[str, Any]) -> None:
    for name, variable in variables(part).items():
        variable.assign(saved[name])


def _children(trackable: Any) -> Iterator[Tuple[str, Any]]:
    if _is_keras(trackable, "Optimizer"):
        for number, variable in enumerate(trackable.variables):
            # Their names have the names of layers in them, which are numbered through in each process.
            yield (f"slot-{number}" if number > 1 else str(number)), variable
    elif _is_keras(trackable, "Layer"):
        for number, variable in enumerate(trackable.variables):
            yield f"{number}-{variable.path.rpartition('/')[2]}", variable
        if getattr(trackable, "optimizer", None) is not None:
            yield "optimizer", trackable.optimizer
    else:
        tensorflow: Any = sys.modules["tensorflow"]
        yield from tensorflow.train.TrackableView(trackable).children(trackable).items()


def _inside(part: Any) -> Iterator[Any]:
    """The objects of Keras in a part."""
    if not is_one(part):
        return
    todo, seen = [part], {id(part)}
    while todo:
        trackable = todo.pop()
        yield trackable
        if not _is_variable(trackable):
            fresh = [child for _, child in _children(trackable) if id(child) not in seen]
            seen |= {id(child) for child in fresh}
            todo += fresh


def _is_variable(value: Any) -> bool:
    tensorflow: Any = sys.modules.get("tensorflow")
    return _is_keras(value, "Variable") or (tensorflow is not None and isinstance(value, tensorflow.Variable))


def _is_keras(value: Any, *kinds: str) -> bool:
    keras: Any = sys.modules.get("keras")
    return keras is not None and any(
        hasattr(keras, kind) and isinstance(value, getattr(keras, kind)) for kind in kinds
    )
