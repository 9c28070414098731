"""Declares what an MPIJob may say in each of its three versions, and what that means."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from bireme.kinds import contract
from bireme.model.job import CleanPods, Job

V1ALPHA2 = f"{contract.GROUP}/v1alpha2"
V1 = contract.V1
V2BETA1 = f"{contract.GROUP}/v2beta1"

AGENT_ANNOTATION = "bireme.io/mpi-agent"
"""Chooses in v2beta1 how the launcher starts commands in workers of a cluster."""


class Agent(StrEnum):
    SSH = "ssh"
    EXEC = "exec"
    """Our own, as in the older versions: the images need no ssh."""


class Implementation(StrEnum):
    OPEN_MPI = "OpenMPI"
    INTEL = "Intel"
    MPICH = "MPICH"


class Distribution(StrEnum):
    """The names that `v1alpha2` has for the implementations."""

    OPEN_MPI = "OpenMPI"
    INTEL_MPI = "IntelMPI"
    MPICH = "MPICH"


class MPIOptions(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The fields of all three versions together."""

    slots_per_worker: int | None = None
    main_container: str = ""
    mpi_implementation: Implementation | None = None
    mpi_distribution: Distribution | None = None
    run_launcher_as_worker: bool = False
    # Of no effect: our launcher always waits for its workers.
    launcher_creation_policy: str = ""
    ssh_auth_mount_path: str = ""
    """Of no effect where the agent serves."""
    # Older versions write these outside `runPolicy`; completing a job moves them there.
    clean_pod_policy: CleanPods | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None

    @property
    def slots(self) -> int:
        return 1 if self.slots_per_worker is None else self.slots_per_worker

    @property
    def implementation(self) -> Implementation:
        if self.mpi_implementation is not None:
            return self.mpi_implementation
        intel = self.mpi_distribution is Distribution.INTEL_MPI
        return Implementation.INTEL if intel else Implementation(self.mpi_distribution or "OpenMPI")


def options(job: Job) -> MPIOptions:
    return contract.options_of(job, MPIOptions)


def workers(job: Job) -> int:
    worker = job.role("worker")
    return worker.replicas if worker else 0


def uses_agent(job: Job) -> bool:
    """Whether the launcher starts commands in workers of a cluster through our agent, and not through ssh."""
    return job.api_version != V2BETA1 or job.annotations.get(AGENT_ANNOTATION) == Agent.EXEC


def launcher_trains(job: Job) -> bool:
    """Whether ranks run beside the launcher too, so that it stands among the hosts."""
    if job.api_version == V2BETA1:
        return options(job).run_launcher_as_worker
    launcher = job.role("launcher")
    if job.api_version != V1 or launcher is None:
        return False
    return any(
        "gpu" in device for container in launcher.pod.containers for device in container.limits.devices
    )
