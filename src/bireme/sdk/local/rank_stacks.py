"""Says where the Python code of each rank of a run is now."""

from __future__ import annotations

from bireme import errors
from bireme.backends.local import processes, stack_dumps
from bireme.model.job import Job
from bireme.runs import replica_history
from bireme.runs.directory import RunDirectory
from bireme.runs.replica_history import ReplicaHistory
from bireme.sdk import rank_names, tracebacks
from bireme.sdk.local import run_history, run_views
from bireme.sdk.views import RankStack


def of(run: RunDirectory, rank: int | None = None) -> tuple[RankStack, ...]:
    """The stack of each rank that is alive, or of one."""
    job = run.desired().job
    # A process id may be another's by now: only the process that was started counts.
    alive = [
        (life, life.pid)
        for life in replica_history.newest(run_history.of(run)).values()
        if life.ended is None and life.pid and processes.start_time(life.pid) == life.start_time
    ]
    if not alive:
        id = run_views.id_of(run)
        raise errors.BadInput(
            f"no rank of {id} is alive ({run.status().phase})",
            hint=f"what they printed last: bireme logs {id}",
        )
    chosen = {life.uid: (life, pid) for life, pid in alive if rank is None or _rank(job, life) == rank}
    if not chosen:
        known = ", ".join(str(_rank(job, life)) for life, _ in alive)
        raise errors.BadInput(f"no rank {rank} is alive", hint=f"these are: {known}")
    # All at once, so that what is shown is one moment.
    asked = {uid: stack_dumps.ask(run.path, life.replica, pid) for uid, (life, pid) in chosen.items()}
    return tuple(_stack(run, job, life, pid, asked[uid]) for uid, (life, pid) in chosen.items())


def _rank(job: Job, life: ReplicaHistory) -> int | None:
    role = job.role(life.role)
    return rank_names.rank_of(job, role, life.index) if role is not None else None


def _stack(run: RunDirectory, job: Job, life: ReplicaHistory, pid: int, asked: int | None) -> RankStack:
    lines, problem = stack_dumps.answer(run.path, life.replica, pid, asked)
    found = tracebacks.threads(lines)
    # The main thread comes last in a dump. What is no dump of faulthandler's is shown as it is.
    shown = tuple(
        (thread.title, *(f'  File "{at.file}", line {at.line} in {at.function}' for at in thread.frames))
        for thread in reversed(found)
    )
    return RankStack(
        replica=life.replica,
        short=rank_names.short_name(job, life.replica),
        rank=_rank(job, life),
        title=rank_names.title(job, life.replica, _rank(job, life)),
        pid=pid,
        where=tracebacks.place(found[-1].frames) if found else "",
        threads=shown or ((tuple(lines),) if lines else ()),
        problem=problem,
    )
