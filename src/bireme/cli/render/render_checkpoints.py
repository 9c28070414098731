"""Shows checkpoints. Pure."""

from __future__ import annotations

from bireme.cli.render import text
from bireme.model.quantities import show_memory
from bireme.runs.run_checkpoints import Checkpoint
from bireme.sdk.checkpoint_names import CheckpointList, Exported

HEADER = ("STEP", "AGE", "SIZE", "RANKS", "METRICS", "STATE")


def listed(found: CheckpointList, now: float, columns: int | None) -> list[str]:
    if not found.checkpoints:
        return []
    return text.sheet(
        HEADER, [_row(one, now) for one in found.checkpoints], columns, ("RANKS", "AGE", "SIZE")
    )


def exported(done: Exported) -> list[str]:
    """What was written, and what was not."""
    lines = [f"wrote {done.part} of {done.source} to {done.file} ({show_memory(done.size)})"]
    if done.is_sharded:
        lines.append(f"its tensors were put together from the pieces of {done.ranks} ranks")
    if done.others:
        lines.append(f"left out: {', '.join(done.others)} (--part NAME)")
    return lines


def _row(one: Checkpoint, now: float) -> tuple[str, ...]:
    metrics = " ".join(f"{name}={value:.4g}" for name, value in one.metrics.items())
    age = text.age(max(0.0, now - one.saved)) if one.saved else ""
    state = "good" if one.is_good else one.why_not
    ranks = str(one.world_size) if one.world_size else ""
    return (str(one.step), age, show_memory(one.size), ranks, metrics, state)
