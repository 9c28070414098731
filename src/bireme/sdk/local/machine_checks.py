"""Looks up what this machine offers to jobs, and what is missing; changes nothing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

import bireme
from bireme.backends.local.cgroups import Cgroups
from bireme.backends.local.preflight import gpus
from bireme.backends.local.warm.zygote_pool import RUNTIME
from bireme.core.machine.admission import Capacity
from bireme.runs import machine
from bireme.sdk import frameworks
from bireme.sdk.frameworks import Interpreter
from bireme.sdk.local import systemd_units, warm_interpreters
from bireme.sdk.local.systemd_units import BootUnit
from bireme.sdk.views import VERSION, Problem, WarmView

LITTLE_DISK = 1024**3
"""Bytes below which a full disk is near."""


class MachineView(Struct, frozen=True, kw_only=True):
    """The output of `bireme doctor --json`."""

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
    # Tried out as a rank would, in a process of its own.
    program = "import sys; sys.path.insert(0, sys.argv[1]); import linux; print(linux.mounts_work())"
    mounts = [sys.executable, "-c", program, str(RUNTIME)]
    mpirun = shutil.which("mpirun", path=environ.get("PATH", os.defpath))
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
        mounts=frameworks.ask(mounts, environ).strip() == "True",
        mpi=frameworks.ask([mpirun, "--version"], environ).partition("\n")[0].strip() if mpirun else "",
        interpreter=frameworks.interpreter(environ, python),
        at_boot=systemd_units.examine(systemd_units.plan(home, environ)),
        warm=warm_interpreters.zygotes(home),
    )
    return msgspec.structs.replace(view, problems=tuple(problems(view, machine.is_shared(home))))


def problems(view: MachineView, home_is_shared: bool) -> list[Problem]:
    """The problems of a machine that a person should know about, each with a next step. Pure."""
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
    python = view.interpreter
    if python is None:
        found.append(Problem("there is no python3 on PATH", "activate an environment, or use --python"))
    elif not python.version:
        found.append(Problem(f"{python.path} does not answer", "choose another with --python"))
    elif not python.frameworks:
        what = f"{python.path} has none of the training frameworks"
        found.append(Problem(what, "activate the environment that has them, or: pip install torch"))
    return found


def _count(capacity: Capacity, *, busy: bool) -> int:
    return len((capacity.busy if busy else capacity.devices).get(gpus.NAME, ()))
