"""Shows checkpoints. Pure."""

from __future__ import annotations

from bireme.cli.render import text
from bireme.model.quantities import show_memory
from bireme.sdk.checkpoint_names import CheckpointList, Exported

HEADER = ("STEP", "AGE", "SIZE", "RANKS", "METRICS", "STATE")


def listed(found: CheckpointList, now: float, columns: int | None) -> list[str]:
    if not found.checkpoints:
        return []
    rows = []
    for checkpoint in found.checkpoints:
        metrics = " ".join(f"{name}={value:.4g}" for name, value in checkpoint.metrics.items())
        age = text.age(max(0.0, now - checkpoint.saved)) if checkpoint.saved else ""
        state = "good" if checkpoint.is_good else checkpoint.why_not
        ranks = str(checkpoint.world_size) if checkpoint.world_size else ""
        rows.append((str(checkpoint.step), age, show_memory(checkpoint.size), ranks, metrics, state))
    return text.sheet(HEADER, rows, columns, ("RANKS", "AGE", "SIZE"))


def exported(done: Exported) -> list[str]:
    """Says which parts were written, and which were not."""
    lines = [f"wrote {done.part} of {done.source} to {done.file} ({show_memory(done.size)})"]
    if done.is_sharded:
        lines.append(f"its tensors were put together from the pieces of {done.ranks} ranks")
    if done.others:
        lines.append(f"left out: {', '.join(done.others)} (--part NAME)")
    return lines
