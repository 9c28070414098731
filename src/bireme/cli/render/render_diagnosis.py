"""Tells a person why a job failed: what, where to read on, and the first error last. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bireme.cli.render.text import indented
from bireme.sdk.views import Diagnosis, Finding

MOST_LINES = 40
"""Of a traceback: the ends of it, which say where and what; all of it is in the logs."""


def lines(diagnosis: Diagnosis, kept: Sequence[str] = ()) -> list[str]:
    """The whole story, to be printed last; `kept` says what is left to continue from."""
    told = [diagnosis.summary]
    if diagnosis.finding is Finding.INDEPENDENT:
        return told + indented(diagnosis.advice)
    if diagnosis.more:
        told.append(f"Everything it printed: {diagnosis.more}")
    told += [*kept, *indented(diagnosis.advice)]
    error = diagnosis.error
    if error is not None and error.traceback:
        return [*told, "", *_shortened(error.traceback.rstrip("\n").splitlines())]
    if error is not None and error.tail:
        return [*told, "", "Its last lines:", *indented(error.tail)]
    return told


def sentence(diagnosis: Diagnosis) -> str:
    """The same in a line."""
    return diagnosis.summary


def _shortened(traceback: list[str]) -> list[str]:
    if len(traceback) <= MOST_LINES:
        return traceback
    head = MOST_LINES // 4
    tail = MOST_LINES - head - 1
    left_out = len(traceback) - head - tail
    return [*traceback[:head], f"  ... ({left_out} lines left out)", *traceback[-tail:]]
