"""Defines what a kind is: the class that each kind's module extends, and the values that it speaks in.

A kind is one module with one subclass of `Kind`, and one line in `kinds`. Nothing outside of that module asks
which kind a job is of: it asks the kind. What most kinds have in common is the base class's answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from msgspec import Struct

from bireme.kinds import kubeflow_labels
from bireme.kinds.kubeflow_labels import JOB_ROLE, LEADER, REPLICA_INDEX, REPLICA_TYPE
from bireme.model.decisions import SharedFile
from bireme.model.job import Job, Naming, ReplicaId, Restart, Role, replica_ids, replica_name
from bireme.model.pods import EnvVar
from bireme.model.replicas import Addresses
from bireme.model.status import Counts

GROUP = "kubeflow.org"
V1 = f"{GROUP}/v1"
MOST_REPLICAS = 5_000
"""Of a whole job: so many were tried. With twice as many, and names as long as they may be, the status of a
job that has succeeded is larger than the 1.5 MiB that etcd takes."""

TRAINING_OPERATOR = f"{GROUP}/training-operator"
WORKER = "worker"
"""The role whose number is meant where a user names none."""
MULTIKUEUE = "kueue.x-k8s.io/multikueue"

Raw = dict[str, Any]  # Any: JSON has no better type
Chosen = TypeVar("Chosen", bound=Struct)


# --- Values that a kind is asked with ---------------------------------------------------------------------


class ReplicaContext(Struct, frozen=True):
    """The position of one replica in its attempt: all that its wiring depends on."""

    job: Job
    role: Role
    index: int
    attempt: int
    addresses: Addresses
    shared: dict[str, str] = {}
    """What all replicas that are wired together are told alike; made once, by the first of them."""

    def host(self, role: Role, index: int = 0) -> str:
        """The host of a replica of the same attempt, as its peers reach it."""
        return self.addresses.host(replica_name(self.job, role, index))

    def port(self, role: Role, port: tuple[str, int], index: int = 0) -> int:
        """The number behind a replica's port, given the port's name and usual number."""
        name, usual = port
        declared = role.container.ports.get(name, usual)
        return self.addresses.port(replica_name(self.job, role, index), name, declared)


class Tally(Struct, frozen=True):
    """The counts of a job's replicas in this attempt, by role name."""

    counts: dict[str, Counts]
    """`failed` counts only replicas that will not be replaced."""
    done: frozenset[str]
    """Names of the replicas that succeeded."""
    pending: frozenset[str] = frozenset()
    """Names of the replicas that exist and do not run yet; `active` does not count them."""

    def of(self, role: str) -> Counts:
        return self.counts.get(role, Counts())


# --- Values that a kind answers with ----------------------------------------------------------------------


class NoOptions(Struct, frozen=True):
    """The fields of a kind that has none of its own."""


class RoleType(Struct, frozen=True):
    """A role that a kind knows, and its defaults."""

    key: str
    """As the manifest writes it: `Worker`. The role's name is this in lower case."""
    replicas: int = 1
    restart: Restart = Restart.NEVER
    naming: Naming = Naming.ROLE_AND_INDEX


class Injects(StrEnum):
    """The containers of a replica that get the kind's environment."""

    MAIN = "main"
    EVERY = "every"


class ManifestProblem(Struct, frozen=True):
    """A reason to refuse a job: where in the manifest, what, and how to mend it."""

    field: str
    text: str
    hint: str = ""


class Sentences(Struct, frozen=True):
    """The words in which a kind's validation says that something is missing."""

    specs: str = "is missing"
    containers: str = "is missing"
    image: str = "is missing"


class ScriptRole(Struct, frozen=True):
    """A role of the manifest that a script and a number of workers compile to."""

    key: str
    replicas: int
    before: tuple[str, ...] = ()
    """Words before the script's command."""
    runs: bool = True
    """Whether the role runs the script; else its containers have no command."""
    computes: bool = True
    """Whether it is given the resources that the script asks for."""
    env: dict[str, str] = {}


class CelRule(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A rule by which an API server refuses a job: one entry of `x-kubernetes-validations`, in CEL."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""


class Right(Struct, frozen=True):
    """A right that the operator needs for a kind, beyond what it does for every kind."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


class Gang(Struct, frozen=True):
    """The details that a kind adds to the pod group of a job."""

    queue_annotation: str = ""
    """The annotation that names the queue where the run policy does not."""
    decides_scheduler: bool = False
    """Whether the gang scheduler also wins over the scheduler that a template names."""
    priority_roles: tuple[str, ...] = ()
    """The roles whose priority class counts where the run policy names none."""
    timeout: int | None = None


class Autoscaling(Struct, frozen=True):
    """Between which numbers of workers a cluster may scale a job by itself, and by which metrics."""

    least: int
    most: int
    metrics: tuple[Raw, ...]


class RemoteStart(Struct, frozen=True):
    """The way in which one replica of a job starts commands in the others, as mpirun does."""

    launcher: str
    """The role that starts them."""
    workers: str
    """The role in which they are started."""
    agent: str = ""
    """The path of the program that starts a command in a worker of a cluster; empty where ssh does."""
    key_path: str = ""
    """Where the keys for ssh are mounted, if not at their usual place."""
    has_host_names: bool = False
    """Whether pods are known by their host names, under one service that the whole job shares."""
    idles: bool = False
    """Whether the workers have nothing to run, and wait: in `sleep` for the agent, else in an ssh server."""


class Undecided(Struct, frozen=True, tag="undecided"):
    """Nothing to say yet."""


class Running(Struct, frozen=True, tag="running"):
    """The job counts as running."""

    message: str


class Succeeded(Struct, frozen=True, tag="succeeded"):
    message: str


class Failed(Struct, frozen=True, tag="failed"):
    message: str


Verdict = Undecided | Running | Succeeded | Failed


# --- The kind ---------------------------------------------------------------------------------------------


class Kind:
    """A kind of job. What has no default here is what a new kind must say."""

    name: ClassVar[str]
    """As the manifest writes it: `PyTorchJob`."""
    api_versions: ClassVar[tuple[str, ...]] = (V1,)
    specs: ClassVar[str]
    """The field of `spec` that holds the roles: `pytorchReplicaSpecs`.

    An empty text means that `spec` itself is the only role: it holds the `template`.
    """
    container: ClassVar[str] = ""
    """The usual name of the container that trains; an empty text means that the first one always does."""
    port: ClassVar[tuple[str, int]] = ("", 0)
    """Name and number of the port that is added where the main container lacks it; ("", 0) for none."""
    injects: ClassVar[Injects] = Injects.EVERY
    Options: ClassVar[type[Struct]] = NoOptions
    """The fields of `spec` that only this kind has; `Job.options` is one of these."""

    independent: ClassVar[bool] = False
    """Whether replicas work alone, so that one that is done stays done over every attempt."""
    native: ClassVar[bool] = False
    """Whether Kubernetes itself runs such jobs in a cluster, so that our operator leaves them alone."""
    scalable: ClassVar[bool] = False
    """Whether `kubectl scale` and autoscalers may change the number of workers."""
    helpers: ClassVar[frozenset[str]] = frozenset()
    """The roles that do not go through the training steps, and know nothing of them."""
    torchrun: ClassVar[bool] = False
    """Whether the replicas can be given the whole environment that torchrun gives its ranks."""

    image: ClassVar[str] = "python:3"
    """What a script's manifest names as its image. It only matters in a cluster, where one is required."""
    subdomain_names: ClassVar[bool] = False
    """Whether a job's name may begin with a digit or hold dots, because nothing finds its pods by name."""
    most_replicas: ClassVar[int] = MOST_REPLICAS
    annotations: ClassVar[tuple[str, ...]] = ()
    """Annotations that begin with `bireme.io/` and concern this kind alone."""
    cluster_only: ClassVar[tuple[str, ...]] = ()
    """Legal fields of `spec` that change how a job ends, and that only a cluster acts on."""
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """The texts that a field of the options may have, where its type does not tell."""
    role_rules: ClassVar[tuple[CelRule, ...]] = ()
    """What an API server checks of the mapping of roles (`self`), whatever the case of its keys."""
    spec_rules: ClassVar[tuple[CelRule, ...]] = ()
    """What an API server checks of several fields of a spec (`self`)."""
    rights: ClassVar[tuple[Right, ...]] = ()
    job_label: ClassVar[str] = kubeflow_labels.JOB_NAME
    """The label of a pod that names its job."""

    @property
    def plural(self) -> str:
        """The resource in the path of an API server."""
        return f"{self.name.lower()}s"

    @property
    def framework(self) -> str:
        """The name of the kind in the metrics of the Kubeflow operator."""
        return self.container or self.name.removesuffix("Job").lower()

    @property
    def operator(self) -> str:
        """The value of the label `training.kubeflow.org/operator-name`, and the source of events."""
        return f"{self.name.lower()}-controller"

    # What a manifest means.

    def role_types(self, api_version: str) -> tuple[RoleType, ...]:
        """The roles that a version of the kind knows, with the defaults that hold in that version."""
        raise NotImplementedError

    def defaults(self, job: Job) -> Job:
        """Fill what the manifest left open beyond the defaults that all kinds share."""
        return job

    def validate(self, job: Job) -> Iterable[ManifestProblem]:
        """Say everything that is wrong with a job of this kind."""
        return ()

    def sentences(self, api_version: str, role: str) -> Sentences:
        return Sentences()

    def managers(self, api_version: str) -> tuple[str, ...]:
        """The values that `runPolicy.managedBy` may have."""
        return TRAINING_OPERATOR, MULTIKUEUE

    def script_version(self) -> str:
        """The version in which a script's manifest is written."""
        return self.api_versions[0]

    def script_roles(self, workers: int) -> tuple[ScriptRole, ...]:
        """The roles of a script's manifest."""
        return (ScriptRole("Worker", workers),)

    def script_options(self, workers: int) -> Raw:
        """The other fields in the spec of a script's manifest."""
        return {}

    # Control.

    def wire(self, place: ReplicaContext) -> tuple[EnvVar, ...]:
        """The environment that lets the replicas of an attempt find each other."""
        raise NotImplementedError

    def outcome(self, job: Job, tally: Tally) -> Verdict:
        """Decide whether the job runs, has succeeded or has failed."""
        raise NotImplementedError

    def wanted(self, job: Job, done: frozenset[str]) -> tuple[ReplicaId, ...]:
        """The replicas that should exist now, given those that already succeeded."""
        return tuple(replica_ids(job))

    def files(self, job: Job, ready: frozenset[str], addresses: Addresses) -> tuple[SharedFile, ...]:
        """The files that the replicas share, given the replicas that are ready."""
        return ()

    def start_after(self, job: Job, role: Role) -> tuple[str, ...]:
        """The names of the roles that must be ready before this role starts."""
        return ()

    def rendezvous_replica(self, job: Job) -> str:
        """The name of the replica that all others look up when they begin; an empty text where none is.

        In a cluster a name that is asked for too early stays unknown for seconds, so the others start
        once this one has its address.
        """
        return ""

    def is_leader(self, job: Job, role: Role, index: int) -> bool:
        """Whether the replica plays the master role."""
        raise NotImplementedError

    def is_placeholder(self, job: Job, role: Role) -> bool:
        """Whether the role's program only waits for others to start commands beside it.

        A backend that starts such commands by its own means runs a placeholder instead of the program.
        """
        return False

    def rank(self, job: Job, role: Role, index: int) -> int | None:
        """The rank that a replica is given; None where ranks are numbered by something else."""
        return None

    # Scaling.

    def fixed_size(self, job: Job) -> str:
        """A clause on why the number of a job's replicas cannot change while it runs; empty where it can."""
        return ""

    def counts_ranks(self, job: Job) -> bool:
        """Whether the job's replicas are the ranks of a script, which are counted together."""
        return False

    def with_ranks(self, job: Job, count: int) -> Job:
        """The job with this number of ranks; only asked of one whose replicas are ranks."""
        raise NotImplementedError

    def scaled(self, spec: Raw, replicas: Mapping[str, int], gone: Collection[str]) -> Raw:
        """The change of a spec for other numbers of replicas, by role; roles that are gone are removed."""
        roles: Raw = spec.get(self.specs) or {}
        written = {key.lower(): key for key in roles}
        changed = {
            written[role]: {"replicas": count}
            for role, count in replicas.items()
            if role in written and roles[written[role]].get("replicas") != count
        }
        # Only what a script's ranks do without: a template that a user wrote stays, with no replicas.
        left_out = {written[role]: None for role in gone if role in written}
        return {self.specs: changed | left_out}

    # In a cluster.

    def pod_labels(self, job: Job, role: Role, index: int) -> dict[str, str]:
        """The labels of one replica's pod, apart from its attempt."""
        leads = {JOB_ROLE: LEADER} if self.is_leader(job, role, index) else {}
        return self.replica_labels(job, role, index) | leads

    def replica_labels(self, job: Job, role: Role, index: int) -> dict[str, str]:
        """The labels that select the pod behind the service of one replica, whatever its attempt."""
        number = {} if role.naming is Naming.ROLE else {REPLICA_INDEX: str(index)}
        return {**self.job_labels(job), REPLICA_TYPE: role.name, **number}

    def job_labels(self, job: Job) -> dict[str, str]:
        """The labels that all pods and services of a job have, and those of no other job."""
        return {kubeflow_labels.OPERATOR_NAME: self.operator, kubeflow_labels.JOB_NAME: job.name}

    def shares_service(self, job: Job) -> bool:
        """Whether all replicas share one service, called like the job, instead of having one each."""
        return False

    def gang(self, job: Job) -> Gang:
        return Gang()

    def autoscaling(self, job: Job) -> Autoscaling | None:
        """The bounds within which a cluster may scale the job by itself; None where it must not."""
        return None

    def remote_start(self, job: Job) -> RemoteStart | None:
        """The way in which a replica starts commands in the others; None where each runs its own program."""
        return None


def options_of(job: Job, declared: type[Chosen]) -> Chosen:
    """The job's own fields; the defaults for one of which nothing but its name is known."""
    if job.options is None:
        return declared()
    assert isinstance(job.options, declared), f"{job.name} has the options of another kind"
    return job.options


def master_and_workers(workers: int) -> tuple[ScriptRole, ...]:
    """The roles of a script whose first rank is a Master."""
    master = ScriptRole("Master", 1)
    return (master, ScriptRole("Worker", workers - 1)) if workers > 1 else (master,)


def first_of(job: Job, *roles: str) -> str:
    """The first replica of the first of these roles that the job has; an empty text where it has none."""
    found = (job.role(name) for name in roles)
    return next((replica_name(job, role, 0) for role in found if role is not None and role.replicas), "")


# --- The sentences of the contract. Which form a kind uses is part of the contract too. -------------------


def running(job: Job, *, qualified: bool = False) -> Running:
    return Running(f"{job.kind} {_called(job, qualified)} is running.")


def succeeded(job: Job, *, qualified: bool = False) -> Succeeded:
    form = "successfully completed" if qualified else "is successfully completed"
    return Succeeded(f"{job.kind} {_called(job, qualified)} {form}.")


def _called(job: Job, qualified: bool) -> str:
    return f"{job.namespace}/{job.name}" if qualified else job.name


def first_failure(job: Job, tally: Tally) -> Failed | None:
    """The verdict of kinds in which one replica that stays failed fails the job."""
    for role in job.roles:
        failed = tally.of(role.name).failed
        if failed:
            return Failed(f"{job.kind} {job.name} is failed because {failed} {role.type} replica(s) failed.")
    return None


def decided(job: Job, tally: Tally, *, complete: bool, active: bool, qualified: bool = False) -> Verdict:
    """The verdict of most kinds, given whether the replicas that decide the job have succeeded or run.

    Success comes first: what fails after it is no failure of the job.
    """
    if complete:
        return succeeded(job, qualified=qualified)
    if failure := first_failure(job, tally):
        return failure
    return running(job, qualified=qualified) if active else Undecided()


def unsupported(field: str, value: str, supported: Iterable[str], hint: str = "") -> ManifestProblem:
    listed = ", ".join(f'"{word}"' for word in supported)
    return ManifestProblem(field, f'Unsupported value: "{value}": supported values: {listed}', hint)


def too_small(field: str, value: int, least: int = 0) -> ManifestProblem:
    return ManifestProblem(field, f"Invalid value: {value}: must be greater than or equal to {least}")


# --- CEL ------------------------------------------------------------------------------------------------

FORBIDDEN = "FieldValueForbidden"
REQUIRED = "FieldValueRequired"
CEL_IS_WORKER = "type.lowerAscii() == 'worker'"


def cel_list(texts: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{text}'" for text in texts) + "]"


def only_one(*types: str) -> CelRule:
    """These roles have one replica each."""
    named = cel_list([type_.lower() for type_ in types])
    shown = " and ".join(f"{type_}.replicas" for type_ in types)
    return CelRule(
        f"self.all(type, !(type.lowerAscii() in {named}) || !has(self[type].replicas) "
        "|| self[type].replicas == 1)",
        f"{shown} must be 1",
        reason=FORBIDDEN,
    )


def must_exist(type_: str, why: str) -> CelRule:
    """The role is there."""
    return CelRule(
        f"self.exists(type, type.lowerAscii() == '{type_.lower()}')",
        f"{type_} must be present: {why}",
        reason=REQUIRED,
    )
