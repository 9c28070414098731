"""Decides the next step of a job from what is wanted, remembered and seen.

The order is the one in which a person would ask: is it over, is it suspended, was anything lost, is it
decided, and only then which replicas are missing. Time is an argument and the status is the whole memory, so
that any process may continue from the last recorded decision.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from bireme import kinds
from bireme.core import cleanup, clock, conditions, outcome, suspend, trouble, upkeep
from bireme.core.replicas import removal, scaling, sync
from bireme.core.restarts import attempts, limits, losses, restart, retry_policy
from bireme.kinds.contract import Failed, Running, Succeeded, Tally, Undecided, Verdict
from bireme.model.decisions import Decision, Event, EventType
from bireme.model.job import Job
from bireme.model.replicas import Observation
from bireme.model.status import ConditionType, Status

LOOK_AGAIN = 1.0
"""Seconds until a backend that could not look is retried."""


def reconcile(job: Job, status: Status, observation: Observation, now: float) -> Decision:
    """Decide the next status, actions, events and wake-up time of a job."""
    if not observation.complete:
        return Decision(status, wake_at=now + LOOK_AGAIN)
    observation = removal.judged(attempts.resolved(status, observation), now)
    decision = _decide(job, status, observation, now)
    chores, due = upkeep.decide(job, decision.status, observation, now)
    if not decision.status.phase.is_final:
        # The status of this very decision is recorded before any action of it, so an end that is noted in
        # it is not lost with the pod that is struck off.
        chores = (*removal.leftovers(decision.status, observation), *chores)
    decision = replace(decision, actions=(*chores, *decision.actions)) if chores else decision
    return _wake_by(_wake_by(decision, due), removal.next_judgement(observation, now))


def _decide(job: Job, status: Status, observation: Observation, now: float) -> Decision:
    """Decide about the job itself; the other objects that it has in a cluster are `upkeep`'s."""
    status = conditions.add(status, job, ConditionType.CREATED, f"{job.kind} {job.name} is created.", now)
    called_back: tuple[Event, ...] = ()
    # Before the end is looked at: what is called back has ended, and is no longer over from here on.
    if suspend.is_called_back(job, status):
        status, event = suspend.call_back(job, status, now)
        called_back = (event,)
    if status.phase.is_final:
        return cleanup.after_end(job, status, observation, now)
    status = replace(clock.settled(status, now), resumes=job.policy.resumes)
    if job.policy.suspend:
        return _with_events(suspend.hold(job, status, observation, now), called_back)
    if status.holds(ConditionType.SUSPENDED):
        status, event = suspend.lift(job, status, now)
        return _with_events(_advance(job, status, observation, now), (event,))
    return _with_events(_advance(job, status, observation, now), called_back)


def _advance(job: Job, status: Status, observation: Observation, now: float) -> Decision:
    """Decide the next step of a job that should be running."""
    kind = kinds.of(job)
    observation = attempts.with_present_faults(status, observation)
    status = replace(status, started=now if status.started is None else status.started)
    # Successes are noted first: a replica that is done is neither lost nor wanted in what follows.
    status = outcome.note_done(job, status, observation)
    scaled: tuple[Event, ...] = ()
    if scaling.is_changed(job, status):
        status, event = scaling.begin_anew(job, status, now)
        scaled = (event,)
    wanted = kind.wanted(job, frozenset(status.done))
    names = frozenset(replica.name for replica in wanted)
    before = status
    status, new = losses.count(job, status, observation, names)
    status = retry_policy.note(job, before, status, observation, new, now)
    view = restart.View(job, status, observation, wanted, new, retry_policy.is_new(before, status))
    lost = restart.lost_for_good(view)
    tally = outcome.tally(job, status, observation, lost)
    status = replace(status, replicas=outcome.by_type(job, tally))

    verdict = kind.outcome(job, tally)
    in_vain = retry_policy.in_vain(job, before, status, observation, now)
    if in_vain is not None and not isinstance(verdict, Succeeded):
        verdict = Failed(in_vain)
    end = _end(job, status, observation, verdict, now)
    if end is not None:
        if limits.is_out_of_time(job, status, now) or status.crashes == before.crashes:
            status = replace(status, blame=None)  # It was not a crash that ended it.
        return _finish(job, status, tally, end, observation, now)

    # Losses are charged before replicas are replaced: a restart of the gang begins the attempt to which
    # the replicas that are started below belong.
    status, restarts = restart.apply(replace(view, status=status), now)
    decision = scaling.note(job, sync.sync_replicas(job, status, observation, now, lost))
    if isinstance(verdict, Running) and sync.is_complete(job, decision.status, observation, lost):
        status = conditions.add(decision.status, job, ConditionType.RUNNING, verdict.message, now)
        decision = replace(decision, status=status)
    status, stuck = trouble.note(decision.status, observation, known=view.status.trouble)
    decision = replace(decision, status=status, events=(*decision.events, *stuck))
    decision = _wake_by(decision, limits.deadline(job, decision.status))
    return _with_events(decision, (*scaled, *restarts))


def _end(
    job: Job, status: Status, observation: Observation, verdict: Verdict, now: float
) -> Succeeded | Failed | None:
    """The verdict that ends the job now; a success counts even if a limit is passed with it."""
    match verdict:
        case Succeeded():
            return verdict
        case Failed() | Running() | Undecided():
            over = limits.exceeded(job, status, now)
            fault = next((fault for fault in observation.faults if fault.final), None)
            if over is not None:
                return Failed(over)
            if fault is not None:
                return Failed(f"{fault.replica} cannot start: {fault.text}")
            return verdict if isinstance(verdict, Failed) else None
        case _:
            assert_never(verdict)


def _finish(
    job: Job, status: Status, tally: Tally, end: Succeeded | Failed, observation: Observation, now: float
) -> Decision:
    won = isinstance(end, Succeeded)
    result = ConditionType.SUCCEEDED if won else ConditionType.FAILED
    status = conditions.add(status, job, result, end.message, now)
    counts = outcome.by_type(job, tally)
    if won:
        # What still runs when the deciding replicas have succeeded has done its part: it counts as succeeded.
        counts = {
            type: replace(count, active=0, succeeded=count.succeeded + count.active)
            for type, count in counts.items()
        }
    status = replace(status, completed=now, replicas=counts, trouble="")
    decision = cleanup.after_end(job, status, observation, now)
    told = (Event(EventType.NORMAL, f"{job.kind}{result}", end.message),)
    return _with_events(decision, (*(outcome.lost(job, status, observation) if won else ()), *told))


def _wake_by(decision: Decision, due: float | None) -> Decision:
    """The decision that wakes the job by a time, unless it wakes it earlier anyway."""
    if due is None or (decision.wake_at is not None and decision.wake_at <= due):
        return decision
    return replace(decision, wake_at=due)


def _with_events(decision: Decision, earlier: tuple[Event, ...]) -> Decision:
    return replace(decision, events=(*earlier, *decision.events)) if earlier else decision
