"""Tells what a rank has loaded: third-party modules, the user's own files, the library that trains.

Only modules that Python has loaded before any script are used here (see rank_report).
"""

from __future__ import annotations

import os
import sys

from .environment_reads import SITE

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from typing import FrozenSet, List, Optional, Set, Tuple

# Submodules that cost much and that importing the package alone does not load.
NOTABLE = (
    *("torch._dynamo", "torch._inductor", "torch.distributed", "torch.nn.parallel", "torch.utils.data"),
    *(
        "torch.utils.tensorboard",
        "torch.distributed.fsdp",
        "numpy.random",
        "lightning.pytorch",
        "scipy.stats",
    ),
    *("sklearn.datasets", "matplotlib.pyplot", "transformers.trainer", "tensorflow.python.keras"),
)
_TRAINERS = {"lightning": "lightning", "pytorch_lightning": "lightning"}
# The standard library, and this runtime.
_NOT_THE_USERS = (
    os.path.dirname(os.path.abspath(os.__file__)) + os.sep,
    "<frozen",
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)
_MOST = 200


def imported(started: FrozenSet[str], preloaded: FrozenSet[str]) -> Tuple[List[str], List[str]]:
    """Third-party modules worth importing before the next run, and the files of the user's own."""
    third: Set[str] = set()
    files: Set[str] = set()
    for name, module in list(sys.modules.items()):
        file = _file_of(module)
        if file is None or (name in started and name != "__main__"):
            continue
        if any(site in file for site in SITE):
            inside = file
            for site in SITE:
                inside = inside.rpartition(site)[2]
            # Some libraries register parts under a bare name too, which `import` would not find.
            if inside.partition("/")[0].partition(".")[0] == name.partition(".")[0]:
                third.add(name)
        elif not file.startswith(_NOT_THE_USERS):
            files.add(os.path.abspath(file))
    wanted = {name for name in third if "." not in name and not name.startswith("__")}
    wanted.update(name for name in NOTABLE if name in third)
    if preloaded:
        # What the zygote had missed, without what comes along with its package.
        missed = third - preloaded
        wanted.update(name for name in missed if name.rpartition(".")[0] not in missed)
    return sorted(wanted)[:_MOST], sorted(files)[: 10 * _MOST]


def trainer() -> str:
    """The library that runs the script's loop, if the script's own modules name one.

    That it is loaded says nothing: a warm interpreter may have loaded it for another script.
    """
    for module in list(sys.modules.values()):
        file = _file_of(module)
        if file is None or any(site in file for site in SITE) or file.startswith(_NOT_THE_USERS):
            continue
        for value in list(object.__getattribute__(module, "__dict__").values()):
            # Of a class or of an instance, the modules of its base classes count too.
            try:
                if type(value) is type(sys):
                    origins = [str(object.__getattribute__(value, "__dict__").get("__name__"))]
                else:
                    bases = (value if isinstance(value, type) else type(value)).__mro__
                    origins = [str(base.__module__) for base in bases]
            except Exception:
                continue
            for origin in origins:
                if origin.partition(".")[0] in _TRAINERS:
                    return _TRAINERS[origin.partition(".")[0]]
    return ""


def _file_of(module: object) -> Optional[str]:
    # Reading an attribute of a lazy module would import it, so its dictionary is read past its class.
    try:
        names = object.__getattribute__(module, "__dict__")
        file = names.get("__file__")
        if file is None and "__path__" in names:
            file = next(iter(names["__path__"]), None)
            file = file and os.path.join(file, "")
        return file if isinstance(file, str) else None
    except Exception:
        return None
