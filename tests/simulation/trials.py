"""Was a gang given up too early, or too late: what its crashes told, followed without the core's memory."""

from __future__ import annotations

from bireme import kinds
from bireme.core.restarts import backoff
from bireme.model.decisions import Decision
from bireme.model.job import Job, RestartScope
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import Status
from tests.simulation.rules import need

Errors = frozenset[tuple[str, str, str]]

UNCHANGING = "SyntaxError"
PASSING = "RuntimeError"
"""The errors of the simulation that every attempt meets, and that come from outside."""


class Trials:
    """Follows the crashes of one gang from attempt to attempt."""

    def __init__(self) -> None:
        self._step = self._saved = -1
        """The furthest that any attempt has told."""
        self._last: Errors = frozenset()
        """What the attempt told that ended by the last crash, unless somebody wished for another since."""
        self._last_at = 0.0
        self._first_at: float | None = None
        self.is_hopeless = False
        """Whether what was seen last allows to give the gang up."""

    def note(
        self, before: Status, decision: Decision, seen: Observation, job: Job, now: float, is_steady: bool
    ) -> None:
        """Looks at a decision that was recorded; a gang that must be given up now has to be."""
        after = decision.status
        self._first_at = now if self._first_at is None else self._first_at
        self.is_hopeless = False
        crashed, evicted = after.crashes > before.crashes, after.evictions > before.evictions
        if job.unit is not RestartScope.GANG:
            return
        if not crashed and not evicted:
            if after.attempt > before.attempt:
                self._last = frozenset()  # by its user's wish
            return
        current = [one for one in seen.replicas if one.attempt == before.attempt]
        fallen = [one for one in current if one.phase is ReplicaPhase.FAILED]
        had_begun = max(self._step, self._saved) >= 0 or any(_steps(one) for one in fallen)
        got_further = self._further(fallen)
        if not crashed:
            return  # what fell beside a place that was lost tells nothing
        errors = frozenset(_error(one) for one in fallen if one.told.type)
        is_silent = any(not one.told.type for one in fallen)
        recently = now - self._last_at
        unchanging = not had_begun and any(kind == UNCHANGING for kind, _, _ in errors)
        again = {error for error in errors & self._last if error[0] != PASSING}
        repeated = bool(again) and not got_further and not is_silent
        self.is_hopeless = unchanging or (repeated and recently < backoff.RESET + backoff.LONGEST)
        plain = is_steady and not is_silent and len(errors) == 1 and all(not one.restarts for one in current)
        # A server or scheduler that falls does not know how far the training got.
        knows = all(one.role not in kinds.of(job).helpers or _steps(one) for one in fallen)
        must = (unchanging and now - self._first_at < backoff.RESET) or (
            repeated and knows and len(self._last) == 1 and recently < backoff.RESET
        )
        self._last, self._last_at = errors, now
        need(not (plain and must) or after.phase.is_final, f"{sorted(errors)} is tried again in vain")

    def _further(self, fallen: list[Replica]) -> bool:
        step = max((one.told.step for one in fallen), default=-1)
        saved = max((one.told.saved for one in fallen), default=-1)
        further = step > self._step or saved > self._saved
        self._step, self._saved = max(step, self._step), max(saved, self._saved)
        return further


def _error(one: Replica) -> tuple[str, str, str]:
    return one.told.type, one.told.message, one.told.place


def _steps(one: Replica) -> bool:
    return one.told.step >= 0 or one.told.saved >= 0
