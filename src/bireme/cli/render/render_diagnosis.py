"""Tells a person why a job failed: what, where to read on, and the first error last. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bireme.cli.render.text import indented
from bireme.sdk.views import Diagnosis, Finding

MOST_LINES = 40
"""Of a traceback: the ends of it, which say where and what; all of it is in the logs."""


def lines(diagnosis: Diagnosis, kept: Sequence[str] = ()) -> list[str]:
    """The whole story, to be printed last; `kept` says what is left to continue from."""
    story = [diagnosis.summary]
    if diagnosis.finding is Finding.INDEPENDENT:
        return story + indented(diagnosis.advice)
    if diagnosis.more:
        story.append(f"Everything it printed: {diagnosis.more}")
    story += [*kept, *indented(diagnosis.advice)]
    error = diagnosis.error
    if error is not None and error.traceback:
        traceback = error.traceback.rstrip("\n").splitlines()
        if len(traceback) > MOST_LINES:
            head = MOST_LINES // 4
            tail = MOST_LINES - head - 1
            left_out = f"  ... ({len(traceback) - head - tail} lines left out)"
            traceback = [*traceback[:head], left_out, *traceback[-tail:]]
        return [*story, "", *traceback]
    if error is not None and error.tail:
        return [*story, "", "Its last lines:", *indented(error.tail)]
    return story


def sentence(diagnosis: Diagnosis) -> str:
    """The same in a line."""
    return diagnosis.summary
