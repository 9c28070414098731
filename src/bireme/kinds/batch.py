"""How many pods does a batch Job run at a time, and when has it succeeded."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec
from msgspec import Struct

from bireme.kinds import contract
from bireme.kinds.contract import Injects, Problem, ReplicaContext, RoleType, Tally, Undecided, Verdict
from bireme.model.job import Job, Kind, Naming, ReplicaId, Restart, Role, replica_ids
from bireme.model.pods import EnvVar

KIND = Kind.BATCH
API_VERSIONS = ("batch/v1",)
SPECS = ""
MAIN = ""
PORT = ("", 0)
INJECTS = Injects.EVERY
INDEPENDENT = True
OPERATOR = "job-controller"

files = contract.no_files
start_after = contract.at_once
rendezvous_replica = contract.nowhere
is_placeholder = contract.never_idle

_USUAL_BACKOFF = 6


class CompletionMode(StrEnum):
    NON_INDEXED = "NonIndexed"
    INDEXED = "Indexed"


class Options(Struct, frozen=True, rename="camel", omit_defaults=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: CompletionMode = CompletionMode.NON_INDEXED


def options(job: Job) -> Options:
    return msgspec.convert(job.options, Options)


def role_types(api_version: str) -> tuple[RoleType, ...]:
    return (RoleType("Pod", restart=Restart.RECREATE, naming=Naming.INDEX),)


def defaults(job: Job) -> Job:
    chosen = options(job)
    unsaid = chosen.parallelism is None and chosen.completions is None
    parallelism = 1 if chosen.parallelism is None else chosen.parallelism
    completions = 1 if unsaid else chosen.completions
    replicas = parallelism if completions is None else completions
    filled = msgspec.structs.replace(chosen, parallelism=parallelism, completions=completions)
    backoff = _USUAL_BACKOFF if job.policy.backoff_limit is None else job.policy.backoff_limit
    return msgspec.structs.replace(
        job,
        roles=tuple(_complete(role, replicas) for role in job.roles),
        policy=msgspec.structs.replace(job.policy, backoff_limit=backoff),
        options=msgspec.to_builtins(filled),
    )


def validate(job: Job) -> Iterator[Problem]:
    chosen = options(job)
    for name, number in (("parallelism", chosen.parallelism), ("completions", chosen.completions)):
        if number is not None and number < 0:
            yield contract.too_small(f"spec.{name}", number)
    if chosen.completion_mode is CompletionMode.INDEXED and chosen.completions is None:
        yield Problem(
            "spec.completions",
            "Required value: when completion mode is Indexed",
            "write how many indexes there are, such as `completions: 4`",
        )
    for role in job.roles:
        if role.restart not in (Restart.RECREATE, Restart.ON_FAILURE):
            yield contract.unsupported(
                "spec.template.spec.restartPolicy", role.restart, (Restart.ON_FAILURE, Restart.NEVER)
            )


def wire(place: ReplicaContext) -> tuple[EnvVar, ...]:
    if options(place.job).completion_mode is not CompletionMode.INDEXED:
        return ()
    return (EnvVar("JOB_COMPLETION_INDEX", str(place.index)),)


def outcome(job: Job, tally: Tally) -> Verdict:
    pods = tally.of("pod")
    completions = options(job).completions
    if completions is None:
        # Pods that share a queue: the first that finds it empty ends the job once the others are through.
        complete = bool(pods.succeeded) and not pods.active and not tally.pending
    else:
        complete = pods.succeeded >= completions
    if complete:
        return contract.succeeded_qualified(job)
    failure = contract.first_failure(job, tally)
    if failure:
        return failure
    return contract.running_qualified(job) if pods.active else Undecided()


def wanted(job: Job, done: frozenset[str]) -> tuple[ReplicaId, ...]:
    """Those that succeeded, and the first ones that did not yet, as many as may run at a time."""
    finished: list[ReplicaId] = []
    due: list[ReplicaId] = []
    room = options(job).parallelism or 0
    for one in replica_ids(job):
        if one.name in done:
            finished.append(one)
        elif len(due) < room:
            due.append(one)
        elif len(finished) == len(done):
            # A job of a million completions is not walked to its end for the few that run now.
            break
    return (*finished, *due)


def is_leader(job: Job, role: Role, index: int) -> bool:
    return index == 0


def _complete(role: Role, replicas: int) -> Role:
    restart = Restart.RECREATE if role.restart is Restart.NEVER else role.restart
    return msgspec.structs.replace(role, replicas=replicas, restart=restart)
