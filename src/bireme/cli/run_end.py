"""Ends `bireme run`: followed to the end, left by its user, or stopped."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from bireme import errors
from bireme.cli import follow
from bireme.cli.follow import Ending
from bireme.cli.invocation import say
from bireme.cli.main import BROKEN_PIPE
from bireme.cli.render import render_diagnosis, render_jobs, text
from bireme.cli.render.render_lines import Prefixes
from bireme.cli.screen import Screen
from bireme.cli.terminal import Terminal, columns
from bireme.model.status import Phase
from bireme.sdk.backends import Following
from bireme.sdk.client import JobHandle
from bireme.sdk.views import JobView


def conclude(handles: Sequence[JobHandle], here: Terminal, *, live: bool, typed: bool, quiet: bool) -> int:
    """Follows jobs that were just started, and returns the status to exit with.

    `typed` says that a rank may ask its user something: then unfinished lines are shown at once.
    """
    with follow.noted() as signals:
        watches = [job.watch() for job in handles]
        names = ", ".join(job.id for job in handles)
        say(f"started {names}")
        screen = Screen(
            _Nowhere() if quiet else sys.stdout,
            sys.stderr,
            live=live,
            shared=here.stdout,
            prompts=typed and here.stdout and not quiet,
            columns=columns,
        )
        prefixes = Prefixes([watch.job for watch in watches], colour=here.colour, terminal=here.stdout)
        ending = follow.follow(watches, screen, prefixes, signals)
        for watch in watches:
            watch.close()
        if ending is Ending.LEFT and not here.is_interactive:
            ending = Ending.SIGNALLED  # no user is there who could come back, or press it twice
        if ending is Ending.CLOSED and not here.is_interactive:
            ending = Ending.SIGNALLED
        match ending:
            case Ending.OVER:
                return _over(handles, watches, quiet)
            case Ending.LEFT:
                # Counted before it is asked for: a quick user presses it while the sentence is written.
                pressed = signals.interrupts
                _continues(handles)
                say(f"Ctrl-C again within {follow.SECOND_THOUGHTS:.0f} s stops it.")
                thinks_again = follow.thinks_again(signals, pressed)
                return _stop(handles) if thinks_again else errors.Interrupted.exit_status
            case Ending.CLOSED:
                _continues(handles)
                return BROKEN_PIPE
            case Ending.SIGNALLED:
                return _stop(handles)


def final_lines(view: JobView, *, named: bool) -> list[str]:
    """Says how a job ended."""
    name = f"{view.id}: " if named else ""
    lasted = text.duration((view.completed or view.created) - view.created if view.ran is None else view.ran)
    match view.phase:
        case Phase.SUCCEEDED:
            lines = [f"{name}Succeeded in {lasted}"]
            warned = view.diagnosis is not None and view.diagnosis.finding.is_warning
            return [*render_diagnosis.lines(view.diagnosis), *lines] if warned and view.diagnosis else lines
        case Phase.FAILED:
            left = render_jobs.kept(view, time.time())
            if view.diagnosis is None:
                return [f"{name}Failed: {view.why}", *left]
            return render_diagnosis.lines(view.diagnosis, left)
        case Phase.SUSPENDED:
            return [f"{view.id} was suspended; `bireme resume {view.id}` resumes it"]
        case _:
            return [f"{view.id} is {view.phase}"]


def status_of(views: Sequence[JobView]) -> int:
    """The exit status of several jobs: that of the first one that failed."""
    failed = [view for view in views if view.phase is Phase.FAILED]
    if failed:
        return errors.JobFailed.exit_status
    return 0 if all(view.phase is Phase.SUCCEEDED for view in views) else errors.Interrupted.exit_status


def _over(handles: Sequence[JobHandle], watches: Sequence[Following], quiet: bool) -> int:
    views, there = [], []
    for job, watch in zip(handles, watches, strict=True):
        try:
            view = None if watch.is_removed() else job.view()
        except errors.BadInput:
            if not watch.is_removed():  # it may be removed this very moment
                raise
            view = None
        if view is None:
            say(f"{watch.id} was removed")
        else:
            views.append(view)
            there.append(watch)
    # The failed ones last: the first error is what is read first.
    for view in sorted(views, key=lambda view: view.phase is Phase.FAILED):
        if not quiet:
            for line in final_lines(view, named=len(watches) > 1):
                say(line)
    asked_for = all(watch.job.policy.suspend for watch in there)
    if there and asked_for and all(view.phase is Phase.SUSPENDED for view in views):
        return 0
    return status_of(views) if len(there) == len(watches) else errors.Interrupted.exit_status


def _continues(handles: Sequence[JobHandle]) -> None:
    for job in handles:
        _say_quietly(f"{job.id} continues in the background. Follow it with `bireme logs -f {job.id}`.")


def _stop(handles: Sequence[JobHandle]) -> int:
    for job in handles:
        _say_quietly(f"stopping {job.id}")
        view = job.stop()
        if view.phase is Phase.SUSPENDED and not view.resuming:
            _say_quietly(f"stopped {job.id}; `bireme resume {job.id}` resumes it")
        elif view.is_over:
            _say_quietly(f"{job.id} had ended already: {view.phase}")
        else:
            _say_quietly(f"{job.id} is not stopped: it was resumed meanwhile")
    return errors.Interrupted.exit_status


def _say_quietly(words: str) -> None:
    """Says something that perhaps cannot be read: the terminal may be what went away."""
    with suppress(OSError):
        say(words)


class _Nowhere:
    """Takes the output of ranks when only JSON is wanted; it stays in the logs."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass
