"""Shows a machine. Pure."""

from __future__ import annotations

from textwrap import indent

from bireme.cli.render import render_warm
from bireme.model.quantities import show_cpu, show_memory
from bireme.sdk.frameworks import Interpreter
from bireme.sdk.local.machine_checks import MachineView
from bireme.sdk.local.systemd_units import BootUnit


def shown(view: MachineView) -> list[str]:
    """What there is, then what is missing with its next step."""
    facts = [
        ("bireme", f"{view.bireme} on {view.host}"),
        ("cpu", show_cpu(view.cpu)),
        ("memory", show_memory(view.memory)),
        ("GPUs", f"{view.gpus}, {view.gpus_busy} of them busy" if view.gpus else "none found by nvidia-smi"),
        ("cgroups", f"{view.cgroups}, writable: limits are enforced" if view.cgroups else "not writable"),
        ("mounts", "ranks can be given the paths of an image" if view.mounts else "not allowed"),
        ("MPI", view.mpi or "not installed"),
        ("python", _interpreter(view.interpreter)),
        ("frameworks", _frameworks(view.interpreter)),
        ("reboots", _reboots(view.at_boot)),
        ("runs", f"{view.home} ({show_memory(view.home_free)} free)"),
    ]
    lines = [f"{name:<11} {value}" for name, value in facts]
    if view.warm:
        lines.append(f"{'warm':<11} {render_warm.line(view.warm)}")
    for problem in view.problems:
        lines += ["", f"! {problem.what}", *indent(f"next: {problem.next}", "  ").splitlines()]
    return lines


def installed(unit: BootUnit) -> list[str]:
    """What a new unit does, and what it still needs."""
    lines = [f"wrote {unit.unit}: jobs are resumed when your systemd starts"]
    if not unit.lingers:
        lines.append("that is when you log in; at boot, once you have run: loginctl enable-linger")
    return lines


def _reboots(unit: BootUnit) -> str:
    if not unit.systemd:
        return "the next bireme command resumes jobs"
    if not unit.unit:
        return "the next bireme command resumes jobs; at boot: bireme doctor --install-unit"
    if not unit.lingers:
        return "jobs are resumed when you log in; at boot: loginctl enable-linger"
    return "jobs are resumed at boot"


def _interpreter(found: Interpreter | None) -> str:
    if found is None:
        return "none"
    return f"{found.path} ({found.version or 'does not answer'})"


def _frameworks(found: Interpreter | None) -> str:
    if found is None or not found.frameworks:
        return "none"
    return ", ".join(f"{name} {version}" for name, version in found.frameworks.items())
