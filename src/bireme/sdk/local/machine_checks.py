"""What does this machine offer to jobs, and what is missing: looked up, nothing changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

import bireme
from bireme import errors
from bireme.backends.local.cgroups import Cgroups
from bireme.backends.local.preflight import gpus, python_finder
from bireme.backends.local.warm.zygote_pool import RUNTIME
from bireme.core.machine.admission import Capacity
from bireme.model.decode_errors import DAMAGED
from bireme.runs import machine
from bireme.sdk.local import systemd_units, warm_interpreters
from bireme.sdk.local.systemd_units import BootUnit
from bireme.sdk.views import VERSION, WarmView

LITTLE_DISK = 1024**3
"""Bytes below which a full disk is near."""

_PATIENCE = 10.0
_FRAMEWORKS = (
    "torch",
    "lightning",
    "tensorflow",
    "tensorflow-cpu",
    "jax",
    "xgboost",
    "xgboost-cpu",
    "paddlepaddle",
    "mpi4py",
    "horovod",
)

# Runs in the user's interpreter, whatever that is; the frameworks themselves are not imported.
_ASK = """
import json, platform, sys
try:
    from importlib.metadata import version, PackageNotFoundError
except ImportError:
    print(json.dumps([platform.python_version(), {}])); sys.exit()
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps([platform.python_version(), found]))
"""


class Interpreter(Struct, frozen=True, kw_only=True):
    """The Python that scripts run with, and the frameworks that are installed for it."""

    path: str
    version: str = ""
    """Empty if it does not answer."""
    frameworks: dict[str, str] = {}


class Problem(Struct, frozen=True):
    """Something that is missing or odd, and what to do next."""

    what: str
    next: str


class MachineView(Struct, frozen=True, kw_only=True):
    """What `bireme doctor --json` prints."""

    version: int = VERSION
    bireme: str
    host: str
    home: str
    home_free: int
    """Bytes."""
    cpu: int
    """Millicores."""
    memory: int
    """Bytes."""
    gpus: int
    gpus_busy: int
    cgroups: str
    """`v1`, `v2`, or an empty text where none can be written."""
    mounts: bool
    """Whether a rank can be given the paths of its image."""
    mpi: str
    """What `mpirun --version` says, in a line."""
    interpreter: Interpreter | None
    at_boot: BootUnit = BootUnit(systemd=False)
    """What resumes jobs after a reboot."""
    warm: tuple[WarmView, ...]
    problems: tuple[Problem, ...] = ()


def examine(home: Path, environ: Mapping[str, str], python: str = "") -> MachineView:
    """Looks at everything that a job may need."""
    capacity = gpus.capacity()
    groups = Cgroups.find()
    view = MachineView(
        bireme=bireme.__version__,
        host=machine.this_machine().host,
        home=str(home),
        home_free=shutil.disk_usage(home).free,
        cpu=capacity.cpu,
        memory=capacity.memory,
        gpus=_count(capacity, busy=False),
        gpus_busy=_count(capacity, busy=True),
        cgroups="" if groups is None else ("v2" if groups.unified else "v1"),
        mounts=_mounts(environ),
        mpi=_mpi(environ),
        interpreter=interpreter(environ, python),
        at_boot=systemd_units.examine(systemd_units.plan(home, environ)),
        warm=warm_interpreters.zygotes(home),
    )
    return msgspec.structs.replace(view, problems=tuple(problems(view, machine.is_shared(home))))


def problems(view: MachineView, home_is_shared: bool) -> list[Problem]:
    """What a person should know about a machine, each with a next step. Pure."""
    found = []
    if not view.cgroups:
        what = "no control group can be written: limits of cpu and memory are counted, not enforced"
        step = "start the shell in a delegated scope: systemd-run --user --scope -p Delegate=yes bash"
        found.append(Problem(what, step))
    if not view.mounts:
        what = "ranks cannot have mounts of their own: --map and volumes work through command lines only"
        step = "allow user namespaces (sysctl user.max_user_namespaces), or make the image's paths real"
        found.append(Problem(what, step))
    if not view.mpi:
        what = "mpirun is not installed: an MPIJob cannot run"
        found.append(Problem(what, "sudo apt-get install openmpi-bin"))
    if view.home_free < LITTLE_DISK:
        what = f"the disk of {view.home} is nearly full"
        found.append(Problem(what, "bireme ps --all, then bireme rm what is old"))
    if home_is_shared:
        what = f"{view.home} is on a file system that other machines share"
        found.append(Problem(what, "set BIREME_HOME to a folder on a local disk"))
    return found + _interpreter_problems(view.interpreter)


def _interpreter_problems(found: Interpreter | None) -> list[Problem]:
    if found is None:
        return [Problem("there is no python3 on PATH", "activate an environment, or use --python")]
    if not found.version:
        return [Problem(f"{found.path} does not answer", "choose another with --python")]
    if not found.frameworks:
        what = f"{found.path} has none of the training frameworks"
        return [Problem(what, "activate the environment that has them, or: pip install torch")]
    return []


def _count(capacity: Capacity, *, busy: bool) -> int:
    return len((capacity.busy if busy else capacity.devices).get(gpus.NAME, ()))


def interpreter(environ: Mapping[str, str], chosen: str) -> Interpreter | None:
    """The Python that scripts run with; None if there is none."""
    try:
        path = python_finder.find(environ, chosen)
    except errors.BadInput:
        if chosen:
            raise
        return None
    answer = _ask([path, "-c", _ASK, *_FRAMEWORKS], environ)
    try:
        version, found = msgspec.json.decode(answer, type=tuple[str, dict[str, str]])
    except DAMAGED:
        return Interpreter(path=path)
    return Interpreter(path=path, version=version, frameworks=found)


def _mounts(environ: Mapping[str, str]) -> bool:
    """Tries it out as a rank would, in a process of its own."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import linux; print(linux.mounts_work())"
    return _ask([sys.executable, "-c", program, str(RUNTIME)], environ).strip() == "True"


def _mpi(environ: Mapping[str, str]) -> str:
    program = shutil.which("mpirun", path=environ.get("PATH", os.defpath))
    return _ask([program, "--version"], environ).partition("\n")[0].strip() if program else ""


def _ask(words: list[str], environ: Mapping[str, str]) -> str:
    try:
        answer = subprocess.run(
            words,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.decode(errors="replace") if answer.returncode == 0 else ""
