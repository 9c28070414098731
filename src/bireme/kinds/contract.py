"""What does a kind have to say: the shape of a kind's module, and the values it speaks in."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from bireme.model.decisions import File
from bireme.model.job import Job, Kind, Naming, ReplicaId, Restart, Role, member_name, replica_ids
from bireme.model.pods import EnvVar
from bireme.model.replicas import Addresses
from bireme.model.status import Counts


class RoleType(Struct, frozen=True):
    """A role that a kind knows, and its defaults."""

    key: str
    """As the manifest writes it: `Worker`. The role's name is this in lower case."""
    replicas: int = 1
    restart: Restart = Restart.NEVER
    naming: Naming = Naming.ROLE_AND_INDEX


class Injects(StrEnum):
    """Which containers of a replica get the kind's environment."""

    MAIN = "main"
    EVERY = "every"


class Problem(Struct, frozen=True):
    """A reason to refuse a job: where in the manifest, what, and how to mend it."""

    field: str
    text: str
    hint: str = ""


class ReplicaContext(Struct, frozen=True):
    """Where one replica of an attempt stands; all that its wiring depends on."""

    job: Job
    role: Role
    index: int
    attempt: int
    addresses: Addresses
    shared: dict[str, str] = {}
    """What all replicas that are wired together are told alike; made once, by the first of them."""

    def host(self, role: Role, index: int = 0) -> str:
        """The host of a replica of the same attempt, as its peers reach it."""
        return self.addresses.host(member_name(self.job, role, index))

    def port(self, role: Role, port: tuple[str, int], index: int = 0) -> int:
        """The number behind a replica's port, given the port's name and usual number."""
        name, usual = port
        declared = role.container.ports.get(name, usual)
        return self.addresses.port(member_name(self.job, role, index), name, declared)


class Tally(Struct, frozen=True):
    """What has become of a job's replicas in this attempt, by role name."""

    counts: dict[str, Counts]
    """`failed` counts only replicas that will not be replaced."""
    done: frozenset[str]
    """Names of the replicas that succeeded."""
    pending: frozenset[str] = frozenset()
    """Names of the replicas that exist and do not run yet; `active` does not count them."""

    def of(self, role: str) -> Counts:
        return self.counts.get(role, Counts())


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


class KindModule(Protocol):
    """A kind is a module with these names."""

    @property
    def KIND(self) -> Kind: ...
    @property
    def API_VERSIONS(self) -> tuple[str, ...]: ...
    @property
    def SPECS(self) -> str:
        """The field of `spec` that holds the roles: `pytorchReplicaSpecs`.

        An empty text means that `spec` itself is the only role: it holds the `template`.
        """

    @property
    def MAIN(self) -> str:
        """The usual name of the container that trains; an empty text means that the first one always does."""

    @property
    def PORT(self) -> tuple[str, int]:
        """Name and number of the port that is added where the main container lacks it; ("", 0) for none."""

    @property
    def INJECTS(self) -> Injects: ...
    @property
    def INDEPENDENT(self) -> bool:
        """Whether replicas work alone, so that one that is done stays done over every attempt."""

    @property
    def OPERATOR(self) -> str:
        """The value of the label `training.kubeflow.org/operator-name`."""

    @property
    def Options(self) -> type[Struct]:
        """The fields of `spec` that only this kind has."""

    def role_types(self, api_version: str) -> tuple[RoleType, ...]:
        """The roles that a version of the kind knows, with the defaults that hold in that version."""

    def defaults(self, job: Job) -> Job:
        """Fill what the manifest left open beyond the defaults that all kinds share."""

    def validate(self, job: Job) -> Iterable[Problem]:
        """Say everything that is wrong with a job of this kind."""

    def wire(self, place: ReplicaContext) -> tuple[EnvVar, ...]:
        """The environment that lets the replicas of an attempt find each other."""

    def outcome(self, job: Job, tally: Tally) -> Verdict:
        """Decide whether the job runs, has succeeded or has failed."""

    def wanted(self, job: Job, done: frozenset[str]) -> tuple[ReplicaId, ...]:
        """The replicas that should exist now, given those that already succeeded."""

    def files(self, job: Job, ready: frozenset[str], addresses: Addresses) -> tuple[File, ...]:
        """The files that the replicas share, given the replicas that are ready."""

    def start_after(self, job: Job, role: Role) -> tuple[str, ...]:
        """The names of the roles that must be ready before this role starts."""

    def rendezvous_replica(self, job: Job) -> str:
        """The name of the replica that all others look up when they begin; an empty text where nobody is.

        In a cluster a name that is asked for too early stays unknown for seconds, so the others start
        once this one has its address.
        """

    def is_leader(self, job: Job, role: Role, index: int) -> bool:
        """Whether the replica plays the master role."""

    def is_placeholder(self, job: Job, role: Role) -> bool:
        """Whether the role's program only waits for others to start commands beside it.

        A backend that starts such commands by its own means runs a placeholder instead of the program.
        """


# What most kinds answer.


def as_is(job: Job) -> Job:
    return job


def no_problems(job: Job) -> Iterable[Problem]:
    return ()


def every_member(job: Job, done: frozenset[str]) -> tuple[ReplicaId, ...]:
    return tuple(replica_ids(job))


def no_files(job: Job, ready: frozenset[str], addresses: Addresses) -> tuple[File, ...]:
    return ()


def at_once(job: Job, role: Role) -> tuple[str, ...]:
    return ()


def nowhere(job: Job) -> str:
    return ""


def at_first(job: Job, *roles: str) -> str:
    """The first replica of the first of these roles that the job has."""
    found = (job.role(name) for name in roles)
    return next((member_name(job, role, 0) for role in found if role is not None and role.replicas), "")


def never_idle(job: Job, role: Role) -> bool:
    return False


# The sentences of the contract. Which form a kind uses is part of the contract too.


def running_qualified(job: Job) -> Running:
    return Running(f"{job.kind} {job.namespace}/{job.name} is running.")


def running(job: Job) -> Running:
    return Running(f"{job.kind} {job.name} is running.")


def succeeded_qualified(job: Job) -> Succeeded:
    return Succeeded(f"{job.kind} {job.namespace}/{job.name} successfully completed.")


def succeeded(job: Job) -> Succeeded:
    return Succeeded(f"{job.kind} {job.name} is successfully completed.")


def first_failure(job: Job, tally: Tally) -> Failed | None:
    """The verdict of kinds in which one replica that stays failed fails the job."""
    for role in job.roles:
        failed = tally.of(role.name).failed
        if failed:
            return Failed(f"{job.kind} {job.name} is failed because {failed} {role.type} replica(s) failed.")
    return None


# Problems in the words of the Kubernetes API.


def unsupported(field: str, value: str, supported: Iterable[str], hint: str = "") -> Problem:
    listed = ", ".join(f'"{one}"' for one in supported)
    return Problem(field, f'Unsupported value: "{value}": supported values: {listed}', hint)


def too_small(field: str, value: int, least: int = 0) -> Problem:
    return Problem(field, f"Invalid value: {value}: must be greater than or equal to {least}")
