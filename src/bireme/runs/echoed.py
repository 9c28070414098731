"""What did a rank report whose records are out of reach: it is in the lines that it printed."""

from __future__ import annotations

from bireme.runs.metrics import Reported, Source
from bireme.runtime.records import echoes


def reported(line: str) -> list[Reported]:
    """What is in a line, without its mark; nothing if it is not whole."""
    found = echoes.read(line)
    if found is None:
        return []
    who, records = found
    source = Source(f"{who.role}-{who.rank}") if who.role else Source(f"rank-{who.rank}", who.rank)
    return [Reported(source, (who.attempt, who.start), record) for record in records]
