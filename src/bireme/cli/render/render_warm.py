"""Shows warm interpreters: all of them in a line, or each in one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bireme.cli.render import text
from bireme.model.quantities import show_memory
from bireme.sdk.views import WarmState, WarmView


def line(found: Sequence[WarmView]) -> str:
    """All of them: `3 warm interpreters, 870 MiB: torch, torch+lightning, tensorflow`."""
    count = f"{len(found)} warm interpreter{'' if len(found) == 1 else 's'}"
    labels = Counter(_label(one) for one in found)
    named = ", ".join(label if number == 1 else f"{label} (x{number})" for label, number in labels.items())
    return f"{count}, {show_memory(sum(one.memory for one in found))}: {named}"


def listed(found: Sequence[WarmView], now: float, columns: int | None) -> list[str]:
    """A table with a line for each, the most recently used first."""
    rows = [
        (
            str(one.pid),
            show_memory(one.memory),
            str(one.state),
            text.age(max(0.0, now - one.used)),
            "+".join(one.packages) or "-",
        )
        for one in sorted(found, key=lambda one: -one.used)
    ]
    return text.table(("PID", "MEMORY", "STATE", "UNUSED", "PACKAGES"), rows, columns)


def _label(one: WarmView) -> str:
    label = "+".join(one.packages) or "nothing"
    return label if one.state is WarmState.READY else f"{label} ({one.state})"
