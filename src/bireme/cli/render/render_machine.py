"""Shows a machine and its warm interpreters. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import indent
from typing import TYPE_CHECKING

from bireme.cli.render import text
from bireme.model.quantities import show_cpu, show_memory
from bireme.sdk.views import WarmState, WarmView

if TYPE_CHECKING:  # a list of jobs does without
    from bireme.sdk.local.machine_checks import MachineView
    from bireme.sdk.local.systemd_units import BootUnit


def shown(view: MachineView) -> list[str]:
    """Shows the facts, then each problem with its next step."""
    python, frameworks = "none", "none"
    if view.interpreter is not None:
        python = f"{view.interpreter.path} ({view.interpreter.version or 'does not answer'})"
        versions = view.interpreter.frameworks.items()
        frameworks = ", ".join(f"{name} {version}" for name, version in versions) or "none"
    reboots = "jobs are resumed at boot"
    if not view.at_boot.systemd:
        reboots = "the next bireme command resumes jobs"
    elif not view.at_boot.unit:
        reboots = "the next bireme command resumes jobs; at boot: bireme doctor --install-unit"
    elif not view.at_boot.lingers:
        reboots = "jobs are resumed when you log in; at boot: loginctl enable-linger"
    facts = [
        ("bireme", f"{view.bireme} on {view.host}"),
        ("cpu", show_cpu(view.cpu)),
        ("memory", show_memory(view.memory)),
        ("GPUs", f"{view.gpus}, {view.gpus_busy} of them busy" if view.gpus else "none found by nvidia-smi"),
        ("cgroups", f"{view.cgroups}, writable: limits are enforced" if view.cgroups else "not writable"),
        ("mounts", "ranks can be given the paths of an image" if view.mounts else "not allowed"),
        ("MPI", view.mpi or "not installed"),
        ("python", python),
        ("frameworks", frameworks),
        ("reboots", reboots),
        ("runs", f"{view.home} ({show_memory(view.home_free)} free)"),
    ]
    lines = [f"{name:<11} {value}" for name, value in facts]
    if view.warm:
        lines.append(f"{'warm':<11} {warm_line(view.warm)}")
    for problem in view.problems:
        lines += ["", f"! {problem.what}", *indent(f"next: {problem.next}", "  ").splitlines()]
    return lines


def installed(unit: BootUnit) -> list[str]:
    """Says what a new unit does, and what it still needs."""
    lines = [f"wrote {unit.unit}: jobs are resumed when your systemd starts"]
    if not unit.lingers:
        lines.append("that is when you log in; at boot, once you have run: loginctl enable-linger")
    return lines


def warm_line(found: Sequence[WarmView]) -> str:
    """All of them: `3 warm interpreters, 870 MiB: torch, torch+lightning, tensorflow`."""
    count = f"{len(found)} warm interpreter{'' if len(found) == 1 else 's'}"
    labels: Counter[str] = Counter()
    for warm in found:
        state = "" if warm.state is WarmState.READY else f" ({warm.state})"
        labels[("+".join(warm.packages) or "nothing") + state] += 1
    named = ", ".join(label if number == 1 else f"{label} (x{number})" for label, number in labels.items())
    return f"{count}, {show_memory(sum(warm.memory for warm in found))}: {named}"


def warm_table(found: Sequence[WarmView], now: float, columns: int | None) -> list[str]:
    """A table with a line for each, the most recently used first."""
    rows = [
        (
            str(warm.pid),
            show_memory(warm.memory),
            str(warm.state),
            text.age(max(0.0, now - warm.used)),
            "+".join(warm.packages) or "-",
        )
        for warm in sorted(found, key=lambda warm: -warm.used)
    ]
    return text.table(("PID", "MEMORY", "STATE", "UNUSED", "PACKAGES"), rows, columns)
