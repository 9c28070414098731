"""Makes what MPI in the launcher needs to reach the workers: variables, a hostfile, a discovery script.

`v1alpha2` and `v1` start commands in workers through an agent, `v2beta1` through ssh unless it chooses the
agent too. On one machine the agent serves all three.
"""

from __future__ import annotations

from typing import assert_never

from bireme.kinds.contract import ReplicaContext
from bireme.kinds.mpi_spec import (
    V1,
    V1ALPHA2,
    V2BETA1,
    Implementation,
    launcher_trains,
    options,
    uses_agent,
    workers,
)
from bireme.model.decisions import SharedFile
from bireme.model.job import Job, replica_name
from bireme.model.pods import EnvVar
from bireme.model.replicas import Addresses

AGENT = "/etc/mpi/kubexec.sh"
"""What MPI calls to start a command in a worker. horovodrun looks for this very path."""
HOSTFILE = "/etc/mpi/hostfile"
DISCOVERY = "/etc/mpi/discover_hosts.sh"
ONE_HOST = "/etc/mpi/one_host"
"""The hostfile for Open MPI 5 on one machine.

Its ranks hang in their first exchange when several of its daemons, each a host by name, share one address; so
there it is told of one host with all slots, and its ranks run beside the launcher instead of in the workers.
"""

_SSH_ARGUMENTS = "-o ConnectionAttempts=10"
_STARTED_DIRECTLY = 60
"""Open MPI starts about this many workers itself; of more it lets the first ones start the others."""
_NO_TREE = {"OMPI_MCA_plm_rsh_no_tree_spawn": "1"}
"""Only the launcher has the agent, and the right to use it."""
_NO_GPU = {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}

# Open MPI 5 leaves starting to PRRTE, which does not look at the variables that Open MPI 4 reads.
_OPEN_MPI_5 = {
    "OMPI_MCA_plm_rsh_agent": "PRTE_MCA_plm_ssh_agent",
    "OMPI_MCA_plm_rsh_args": "PRTE_MCA_plm_ssh_args",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "PRTE_MCA_plm_ssh_no_tree_spawn",
    "OMPI_MCA_orte_default_hostfile": "PRTE_MCA_prte_default_hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "PRTE_MCA_prte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots": "PRTE_MCA_prte_set_default_slots",
}
_THROUGH_AGENT: dict[Implementation, dict[str, str]] = {
    Implementation.OPEN_MPI: {
        "OMPI_MCA_plm_rsh_agent": AGENT,
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
    },
    Implementation.INTEL: {"I_MPI_HYDRA_BOOTSTRAP_EXEC": AGENT, "I_MPI_HYDRA_HOST_FILE": HOSTFILE},
    Implementation.MPICH: {"HYDRA_LAUNCHER_EXEC": AGENT, "HYDRA_HOST_FILE": HOSTFILE},
}


def wire(place: ReplicaContext) -> tuple[EnvVar, ...]:
    is_launcher = place.role.name == "launcher"
    values = {"K_MPI_JOB_ROLE": place.role.name} if place.job.api_version == V2BETA1 else {}
    values |= _launcher(place) if is_launcher else {}
    wired = tuple(EnvVar(name, value) for name, value in values.items())
    if not is_launcher or place.job.api_version != V1:
        return wired
    # This version does not say which MPI there is, so Intel's is prepared for as well.
    return (
        *wired,
        EnvVar("I_MPI_HYDRA_BOOTSTRAP", "rsh", weak=True),
        EnvVar("I_MPI_HYDRA_BOOTSTRAP_EXEC", AGENT, weak=True),
    )


def files(job: Job, ready: frozenset[str], addresses: Addresses) -> tuple[SharedFile, ...]:
    """The hostfile names every worker; the discovery script only those that are ready."""
    launcher, worker = job.role("launcher"), job.role("worker")
    own = [replica_name(job, launcher, 0)] if launcher and launcher_trains(job) else []
    names = [replica_name(job, worker, index) for index in range(worker.replicas)] if worker else []
    slots = options(job).slots
    # Open MPI's form is the only one that horovodrun reads, the other is the only one that Hydra reads.
    form = " slots={}" if options(job).implementation is Implementation.OPEN_MPI else ":{}"
    listed = [_host(job, name, addresses) + form.format(slots) for name in own + names]
    found = own + sorted(ready.intersection(names))
    echoes = [f"echo {_host(job, name, addresses)}:{slots}" for name in found]
    shared = (
        SharedFile(HOSTFILE, _lines(listed)),
        SharedFile(DISCOVERY, _lines(["#!/bin/sh", *echoes]), mode=0o555),
    )
    if not addresses.book or options(job).implementation is not Implementation.OPEN_MPI:
        return shared
    return (*shared, SharedFile(ONE_HOST, _lines([f"localhost slots={slots * len(listed)}"])))


def _host(job: Job, name: str, addresses: Addresses) -> str:
    """The name by which MPI knows a replica; the same on one machine, where the agent understands it."""
    if job.api_version == V2BETA1:
        return f"{name}.{addresses.qualified(job.name, job.namespace)}"
    return name


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _launcher(place: ReplicaContext) -> dict[str, str]:
    job = place.job
    chosen = options(job)
    is_local = bool(place.addresses.book)
    values: dict[str, str] = {}
    if job.api_version == V2BETA1:
        values |= _through_ssh(chosen.implementation, chosen.slots)
    if uses_agent(job) or is_local:
        values |= _THROUGH_AGENT[chosen.implementation]
    if uses_agent(job) and not is_local and workers(job) > _STARTED_DIRECTLY:
        values |= _NO_TREE
    if job.api_version == V1ALPHA2 or not launcher_trains(job):
        values |= _NO_GPU
    twins = {twin: values[name] for name, twin in _OPEN_MPI_5.items() if name in values}
    if is_local and "PRTE_MCA_prte_default_hostfile" in twins:
        twins["PRTE_MCA_prte_default_hostfile"] = ONE_HOST
    return values | twins


def _through_ssh(implementation: Implementation, slots: int) -> dict[str, str]:
    match implementation:
        case Implementation.OPEN_MPI:
            return {
                "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                "OMPI_MCA_orte_default_hostfile": HOSTFILE,
                "OMPI_MCA_plm_rsh_args": _SSH_ARGUMENTS,
                "OMPI_MCA_orte_set_default_slots": str(slots),
            }
        case Implementation.INTEL:
            return {
                "I_MPI_HYDRA_HOST_FILE": HOSTFILE,
                "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _SSH_ARGUMENTS,
                "I_MPI_PERHOST": str(slots),
            }
        case Implementation.MPICH:
            return {"HYDRA_HOST_FILE": HOSTFILE, "HYDRA_LAUNCH_EXTRA_ARGS": _SSH_ARGUMENTS}
        case _:
            assert_never(implementation)
