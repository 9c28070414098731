"""Defines a job: a parsed, defaulted and validated manifest."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from bireme.model.pods import Container, PodSpec

RESTART_ANNOTATION = "bireme.io/restart"
ENVIRONMENT_ANNOTATION = "bireme.io/environment"
EVICTION_LIMIT_ANNOTATION = "bireme.io/eviction-limit"
METRICS_ANNOTATION = "bireme.io/metrics"
RESUMES_ANNOTATION = "bireme.io/resumes"


class Restart(StrEnum):
    """The restart policy of a role: what happens when one of its replicas fails."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"
    RECREATE = "Recreate"
    """A batch Job's `Never`: the program is not restarted in its pod, the pod is replaced."""

    @property
    def in_place(self) -> bool:
        """Whether a failed program is started again within the same replica."""
        return self in (Restart.ALWAYS, Restart.ON_FAILURE)

    def retries(self, exit_code: int | None) -> bool:
        """Whether a replica that failed for good with this exit code is replaced by a new one."""
        if self is Restart.EXIT_CODE:
            return exit_code is None or exit_code >= 128
        return self is not Restart.NEVER


class RestartScope(StrEnum):
    """The scope of a restart after a loss: the replica alone, or the whole gang as a new attempt."""

    REPLICA = "replica"
    GANG = "gang"


class CleanPods(StrEnum):
    """The replicas that are removed when the job has ended."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class Naming(StrEnum):
    """The form of the names of a role's replicas."""

    ROLE_AND_INDEX = "role-index"
    ROLE = "role"
    INDEX = "index"


class Role(Struct, frozen=True):
    """A replica type of a job."""

    name: str
    """In lower case, as in names and labels: `worker`."""
    type: str
    """As the manifest's key: `Worker`."""
    replicas: int
    restart: Restart
    pod: PodSpec
    main: str
    """The name of the container that trains."""
    naming: Naming = Naming.ROLE_AND_INDEX

    @property
    def container(self) -> Container:
        return next(container for container in self.pod.containers if container.name == self.main)


class Scheduling(Struct, frozen=True):
    """The requests of a job to its gang scheduler (runPolicy.schedulingPolicy)."""

    min_available: int | None = None
    queue: str = ""
    priority_class: str = ""
    min_resources: dict[str, str] = {}
    timeout: int | None = None


class RunPolicy(Struct, frozen=True):
    """Limits and clean-up of a job."""

    clean_pods: CleanPods = CleanPods.NONE
    ttl: int | None = None
    """Seconds after the end until the job is hidden here, or deleted in a cluster."""
    deadline: int | None = None
    """Seconds that the job may be active."""
    backoff_limit: int | None = None
    """Crashes that are tolerated; None means any number."""
    eviction_limit: int = 20
    linger: float | None = None
    """Seconds that replicas may outlive a success; None leaves that to `clean_pods` alone."""
    suspend: bool = False
    resumes: int = 0
    """How often its user has resumed it; a job that has failed continues when this grows."""
    managed_by: str = ""
    scheduling: Scheduling = Scheduling()


class Job(Struct, frozen=True):
    """A job as its user wants it, complete: nothing is left to be defaulted."""

    kind: str
    """The name of one of `kinds`."""
    api_version: str
    name: str
    roles: tuple[Role, ...]
    namespace: str = "default"
    uid: str = ""
    policy: RunPolicy = RunPolicy()
    unit: RestartScope = RestartScope.REPLICA
    torchrun_environment: bool = False
    """Each replica is one rank and has the whole environment that torchrun would give it."""
    options: object = None
    """The fields that only this kind has, as its `Options`; see `kinds.typed` for what was stored."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    def role(self, name: str) -> Role | None:
        return next((role for role in self.roles if role.name == name), None)

    @property
    def total(self) -> int:
        return sum(role.replicas for role in self.roles)


class ReplicaId(Struct, frozen=True):
    """One replica that a job declares, whether it exists yet or not."""

    name: str
    role: str
    index: int


def replica_name(job: Job, role: Role, index: int) -> str:
    match role.naming:
        case Naming.ROLE:
            return f"{job.name}-{role.name}"
        case Naming.INDEX:
            return f"{job.name}-{index}"
        case Naming.ROLE_AND_INDEX:
            return f"{job.name}-{role.name}-{index}"


def replica_ids(job: Job) -> Iterator[ReplicaId]:
    """Every replica that the job declares, role by role."""
    for role in job.roles:
        for index in range(role.replicas):
            yield ReplicaId(replica_name(job, role, index), role.name, index)
