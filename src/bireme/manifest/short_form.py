"""Compiles the short form, a script and a number of workers, to a full manifest.

    script: train.py --epochs 10
    workers: 4

compiles to a PyTorchJob whose replicas are ranks. Every other field has a default.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from msgspec import Struct, structs

from bireme import kinds
from bireme.core.scripts.interpreters import Launch
from bireme.errors import BadInput
from bireme.kinds.contract import MOST_REPLICAS, ScriptRole
from bireme.manifest import name_rules, run_policy
from bireme.manifest.diagnostics import Diagnostic, Fields
from bireme.manifest.text.nodes import Node, describe, quoted
from bireme.model import quantities
from bireme.model.job import (
    ENVIRONMENT_ANNOTATION,
    METRICS_ANNOTATION,
    RESTART_ANNOTATION,
    RestartScope,
)

Manifest = dict[str, Any]  # Any: JSON has no better type

RETRIES = 3
FIELDS = (
    "script",
    "name",
    "workers",
    "gpu",
    "cpu",
    "memory",
    "data",
    "checkpoints",
    "retries",
    "metrics",
    "env",
    "kind",
    "image",
    "python",
)

CLAIM = "pvc://"
"""How a place for checkpoints begins that is in a persistent volume claim: `pvc://claim/folder`."""
MOUNT = "/bireme/checkpoints"
"""Where that claim is mounted."""

_RANGE = re.compile(r"\s*([0-9]{1,9})\s*\.\.\s*([0-9]{1,9})\s*")
_DEVICE = "nvidia.com/gpu"

# Which field of the short form a part of the compiled manifest comes from.
_ORIGINS = tuple(
    (re.compile(pattern), field)
    for pattern, field in (
        (r"^metadata\.(name|generateName)", "name"),
        (r"\.(replicas|parallelism|completions)$", "workers"),
        (r"\[nvidia\.com/gpu\]$", "gpu"),
        (r"\.(limits|requests)\.cpu$", "cpu"),
        (r"\.(limits|requests)\.memory$", "memory"),
        (r"\.containers\[0\]\.env\b", "env"),
        (r"\.containers\[0\]\.image$", "image"),
        (r"\.backoffLimit$", "retries"),
    )
)


_BY_PYTHON = Launch()


class ShortForm(Struct, frozen=True):
    """The fields of the short form, checked."""

    script: tuple[str, ...]
    """The script and its arguments."""
    name: str = ""
    workers: int = 1
    least: int | None = None
    """The lower end, where `workers` was given as a range."""
    gpu: int = 0
    cpu: str = ""
    memory: str = ""
    data: str = ""
    checkpoints: str = ""
    retries: int = RETRIES
    metrics: tuple[str, ...] = ()
    """Names or expressions of numbers that the script prints."""
    env: dict[str, str] = {}
    kind: str = kinds.OF_SCRIPTS.name
    image: str = ""
    python: str = ""
    launcher: tuple[str, ...] | None = None
    """What stands before the script instead of the interpreter."""

    @property
    def path(self) -> str | None:
        """The script's file; none where it is a module (`-m package.train`)."""
        return None if self.script[0].startswith("-") else self.script[0]

    @property
    def module(self) -> str | None:
        """What `python -m` takes, where the script is a module."""
        return self.script[1] if self.script[0] == "-m" and len(self.script) > 1 else None


def read(fields: Fields) -> ShortForm | None:
    """Reads a document of the short form, or reports what is wrong with it."""
    script = _script(fields)
    least, workers = _workers(fields)
    name = fields.text("name", "")
    if name and (wrong := name_rules.wrong_job_name(name)):
        fields.error("name", wrong)
        name = ""
    checkpoints = fields.text("checkpoints", "")
    if checkpoints.startswith(CLAIM) and not _claim(checkpoints)[0]:
        text = f"{quoted(checkpoints)} names no claim"
        fields.error("checkpoints", text, f"write {CLAIM}my-claim/some/folder")
        checkpoints = ""
    short = ShortForm(
        script=script,
        name=name,
        workers=workers,
        least=least,
        gpu=fields.integer("gpu", 0, minimum=0),
        cpu=fields.quantity("cpu") or "",
        memory=fields.quantity("memory") or "",
        data=fields.text("data", ""),
        checkpoints=checkpoints,
        retries=fields.integer("retries", RETRIES, minimum=0),
        metrics=fields.good_texts("metrics", run_policy.wrong_pattern),
        env=fields.text_map("env"),
        kind=fields.choice("kind", list(kinds.BY_NAME), kinds.OF_SCRIPTS.name),
        image=fields.text("image", ""),
        python=fields.text("python", ""),
    )
    fields.done(FIELDS)
    return short if script else None


def from_script(
    script: str,
    args: tuple[str, ...] = (),
    *,
    name: str = "",
    workers: int = 1,
    gpu: int = 0,
    cpu: str = "",
    memory: str = "",
    env: Mapping[str, str] | None = None,
    retries: int = RETRIES,
    launch: Launch = _BY_PYTHON,
) -> Manifest:
    """Makes the manifest of `bireme run train.py --workers 4`; what is wrong names its option."""
    if not script:
        raise BadInput("the script has no name", hint="bireme run train.py --workers 2")
    short = ShortForm(
        script=(script, *args),
        name=name,
        workers=_in_range(1, "--workers", workers),
        gpu=_in_range(0, "--gpu", gpu),
        cpu=_quantity("--cpu", cpu),
        memory=_quantity("--memory", memory),
        env=dict(env or {}),
        retries=_in_range(0, "--retries", retries),
    )
    if short.memory and (wrong := quantities.too_little_memory(short.memory)):
        sentence, _, guess = wrong.partition("; ")
        raise BadInput(f"--memory {sentence}", hint=guess)
    short = launched(short, launch)
    if name and (wrong := name_rules.wrong_job_name(name)):
        raise BadInput(f"--name {name}: {wrong}")
    for variable in short.env:
        if wrong := name_rules.wrong_variable(variable):
            raise BadInput(f"--env {quoted(variable)}: {wrong}")
    return compile(short)


def launched(short: ShortForm, launch: Launch) -> ShortForm:
    """The same, run by what its script needs; an interpreter that the user names is kept."""
    if launch.words is None or short.python:
        return short
    script = (called(short.script[0], launch), *short.script[1:])
    return structs.replace(short, launcher=launch.words, script=script)


def called(path: str, launch: Launch) -> str:
    """How a script is named where it is run: a program is looked for on PATH unless it has a slash."""
    return f"./{path}" if launch.words == () and "/" not in path else path


def compile(short: ShortForm) -> Manifest:
    """Makes the full manifest, as `bireme render` prints it."""
    metadata: Manifest = {"name": short.name}
    if not short.name:
        words = [word for word in short.script if not word.startswith("-")]
        stem = name_rules.label_of(PurePath(words[0]).stem if words else "")[:40].strip("-") or "job"
        metadata = {"generateName": f"{stem}-"}
    kind = kinds.named(short.kind)
    annotations: dict[str, str] = {}
    if not kind.independent:
        annotations[RESTART_ANNOTATION] = str(RestartScope.GANG)
    if kind.torchrun:
        annotations[ENVIRONMENT_ANNOTATION] = "torchrun"
    if short.least is not None and short.least < short.workers:
        annotations[run_policy.ELASTIC_MIN_ANNOTATION] = str(short.least)
    if short.metrics:
        annotations[METRICS_ANNOTATION] = "\n".join(short.metrics)
    if annotations:
        metadata["annotations"] = annotations
    spec = kind.script_options(short.workers)
    if kind.specs:
        policy = {"backoffLimit": short.retries, "cleanPodPolicy": "Running"}
        roles = {role.key: _role(short, role) for role in kind.script_roles(short.workers)}
        spec = {**spec, "runPolicy": policy, kind.specs: roles}
    else:
        template = _template(short, _container(short))
        template["spec"]["restartPolicy"] = "Never"
        spec = {**spec, "backoffLimit": short.retries, "template": template}
    return {"apiVersion": kind.script_version(), "kind": kind.name, "metadata": metadata, "spec": spec}


def is_placeholder(image: str) -> bool:
    """Whether an image stands in a compiled manifest only because it must have one."""
    return any(kind.image == image for kind in kinds.KINDS)


def placed(diagnostic: Diagnostic, root: Node) -> Diagnostic:
    """Moves a diagnostic about the compiled manifest to the field of the short form that caused it."""
    entries = root.value if isinstance(root.value, dict) else {}
    field = next((field for pattern, field in _ORIGINS if pattern.search(diagnostic.field)), "script")
    # What is not written was made from the script.
    node = entries.get(field) or entries.get("script") or root
    named = field if field in entries else "script"
    return structs.replace(diagnostic, line=node.mark.line, column=node.mark.column, field=named)


def _in_range(least: int, option: str, value: int) -> int:
    if not least <= value <= MOST_REPLICAS:
        raise BadInput(f"{option} must be from {least} to {MOST_REPLICAS}, got {value}")
    return value


def _quantity(option: str, written: str) -> str:
    if not written:
        return ""
    try:
        value = quantities.parse(written)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from error
    if value < 0:
        raise BadInput(f"{option} must not be negative, got {written}")
    return written


def _script(fields: Fields) -> tuple[str, ...]:
    text = fields.text("script")
    if text is None:
        if fields.node("script") is None:
            fields.error("script", "is missing", "write `script: train.py`")
        return ()
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        fields.error(
            "script", f"it cannot be split into words: {str(error).lower()}", "close the quotation mark"
        )
        return ()
    if not words or not words[0]:
        fields.error("script", "is missing", "write `script: train.py`")
        return ()
    return words


def _claim(checkpoints: str) -> tuple[str, str]:
    """The persistent volume claim in which checkpoints are kept, and the folder in it; empty if in none."""
    if not checkpoints.startswith(CLAIM):
        return "", ""
    name, _, folder = checkpoints.removeprefix(CLAIM).partition("/")
    return ("", "") if name_rules.wrong_subdomain(name) else (name, folder.strip("/"))


def _workers(fields: Fields) -> tuple[int | None, int]:
    """Returns the lower end of a range, if it is one, and the number of workers to start."""
    node = fields.node("workers")
    if node is None or not isinstance(node.value, str):
        return None, fields.integer("workers", 1, minimum=1, maximum=MOST_REPLICAS)
    bounds = _RANGE.fullmatch(node.value)
    if bounds is None:
        text = f"wanted a whole number or a range such as 2..8, found {describe(node)}"
        fields.error(
            "workers", text, "put no quotes around a number" if node.value.strip().isdecimal() else ""
        )
        return None, 1
    least, most = int(bounds[1]), int(bounds[2])
    if not 1 <= least <= most <= MOST_REPLICAS:
        fields.error(
            "workers", f"a range begins with at least 1 and does not fall, found {quoted(node.value)}"
        )
        return None, 1
    if least < most:
        text = f"the job starts with {most} workers and keeps them: changing their number comes later"
        fields.warn("workers", text)
    return least, most


def _role(short: ShortForm, role: ScriptRole) -> Manifest:
    asked = short if role.computes else structs.replace(short, gpu=0, cpu="", memory="")
    container = _container(structs.replace(asked, env={**role.env, **short.env}))
    if role.runs:
        container["command"] = [*role.before, *container["command"]]
    else:
        del container["command"]
    return {"replicas": role.replicas, "restartPolicy": "Never", "template": _template(short, container)}


def _template(short: ShortForm, container: Manifest) -> Manifest:
    claim, folder = _claim(short.checkpoints)
    if not claim:
        return {"spec": {"containers": [container]}}
    mount = {"name": "checkpoints", "mountPath": MOUNT} | ({"subPath": folder} if folder else {})
    volume = {"name": "checkpoints", "persistentVolumeClaim": {"claimName": claim}}
    return {"spec": {"containers": [{**container, "volumeMounts": [mount]}], "volumes": [volume]}}


def _container(short: ShortForm) -> Manifest:
    before = (short.python or "python",) if short.launcher is None else short.launcher
    container: Manifest = {
        "name": kinds.named(short.kind).container or "main",
        "image": short.image or kinds.named(short.kind).image,
        "command": [*before, *short.script],
    }
    kept = MOUNT if _claim(short.checkpoints)[0] else short.checkpoints
    env = {"BIREME_DATA": short.data, "BIREME_CHECKPOINTS": kept}
    variables = {name: value for name, value in env.items() if value} | short.env
    if variables:
        container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    limits: Manifest = {key: value for key, value in (("cpu", short.cpu), ("memory", short.memory)) if value}
    if short.gpu:
        limits[_DEVICE] = short.gpu
    if limits:
        container["resources"] = {"limits": limits}
    return container
