"""Runs batch Jobs: pods that work alone, some at a time, until enough have succeeded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct, structs

from bireme.kinds import contract
from bireme.kinds.contract import Kind, ManifestProblem, Raw, ReplicaContext, RoleType, Tally, Verdict
from bireme.model.job import Job, Naming, ReplicaId, Restart, Role, replica_ids
from bireme.model.pods import EnvVar

_USUAL_BACKOFF = 6


class CompletionMode(StrEnum):
    NON_INDEXED = "NonIndexed"
    INDEXED = "Indexed"


class BatchOptions(Struct, frozen=True, rename="camel", omit_defaults=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: CompletionMode = CompletionMode.NON_INDEXED


def options(job: Job) -> BatchOptions:
    return contract.options_of(job, BatchOptions)


class BatchJob(Kind):
    name = "Job"
    api_versions = ("batch/v1",)
    specs = ""
    Options = BatchOptions
    independent = True
    native = True
    subdomain_names = True
    most_replicas = 1_000_000
    cluster_only = ("backoffLimitPerIndex", "maxFailedIndexes", "podFailurePolicy", "successPolicy")
    job_label = "batch.kubernetes.io/job-name"

    def role_types(self, api_version: str) -> tuple[RoleType, ...]:
        return (RoleType("Pod", restart=Restart.RECREATE, naming=Naming.INDEX),)

    def script_options(self, workers: int) -> Raw:
        return {"completionMode": "Indexed", "parallelism": workers, "completions": workers}

    def defaults(self, job: Job) -> Job:
        chosen = options(job)
        unsaid = chosen.parallelism is None and chosen.completions is None
        parallelism = 1 if chosen.parallelism is None else chosen.parallelism
        completions = 1 if unsaid else chosen.completions
        replicas = parallelism if completions is None else completions
        backoff = _USUAL_BACKOFF if job.policy.backoff_limit is None else job.policy.backoff_limit
        roles = []
        for role in job.roles:
            # To a Job, Never says that a pod is not restarted in place; another pod replaces it.
            restart = Restart.RECREATE if role.restart is Restart.NEVER else role.restart
            roles.append(structs.replace(role, replicas=replicas, restart=restart))
        return structs.replace(
            job,
            roles=tuple(roles),
            policy=structs.replace(job.policy, backoff_limit=backoff),
            options=structs.replace(chosen, parallelism=parallelism, completions=completions),
        )

    def validate(self, job: Job) -> Iterator[ManifestProblem]:
        chosen = options(job)
        for name, number in (("parallelism", chosen.parallelism), ("completions", chosen.completions)):
            if number is not None and number < 0:
                yield contract.too_small(f"spec.{name}", number)
        if chosen.completion_mode is CompletionMode.INDEXED and chosen.completions is None:
            yield ManifestProblem(
                "spec.completions",
                "Required value: when completion mode is Indexed",
                "write how many indexes there are, such as `completions: 4`",
            )
        for role in job.roles:
            if role.restart not in (Restart.RECREATE, Restart.ON_FAILURE):
                yield contract.unsupported(
                    "spec.template.spec.restartPolicy", role.restart, (Restart.ON_FAILURE, Restart.NEVER)
                )

    def wire(self, place: ReplicaContext) -> tuple[EnvVar, ...]:
        rank = self.rank(place.job, place.role, place.index)
        return () if rank is None else (EnvVar("JOB_COMPLETION_INDEX", str(rank)),)

    def rank(self, job: Job, role: Role, index: int) -> int | None:
        return index if options(job).completion_mode is CompletionMode.INDEXED else None

    def outcome(self, job: Job, tally: Tally) -> Verdict:
        pods = tally.of("pod")
        completions = options(job).completions
        if completions is None:
            # Pods that share a queue: the first that finds it empty ends the job once the others are through.
            complete = bool(pods.succeeded) and not pods.active and not tally.pending
        else:
            complete = pods.succeeded >= completions
        return contract.decided(job, tally, complete=complete, active=bool(pods.active), qualified=True)

    def wanted(self, job: Job, done: frozenset[str]) -> tuple[ReplicaId, ...]:
        """Those that succeeded, and the first ones that did not yet, as many as may run at a time."""
        finished: list[ReplicaId] = []
        due: list[ReplicaId] = []
        room = options(job).parallelism or 0
        for replica in replica_ids(job):
            if replica.name in done:
                finished.append(replica)
            elif len(due) < room:
                due.append(replica)
            elif len(finished) == len(done):
                # A job of a million completions is not walked to its end for the few that run now.
                break
        return (*finished, *due)

    def is_leader(self, job: Job, role: Role, index: int) -> bool:
        return index == 0

    def scaled(self, spec: Raw, replicas: Mapping[str, int], gone: Collection[str]) -> Raw:
        (count,) = replicas.values()
        # Of an indexed Job both numbers may be changed, together; of another one only how many run at a time.
        indexed = spec.get("completionMode") == CompletionMode.INDEXED
        return {"parallelism": count, "completions": count} if indexed else {"parallelism": count}


KIND = BatchJob()
