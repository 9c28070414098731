"""Who are the replicas of an MPIJob, and when has it succeeded."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from bireme.kinds import contract, mpi_launch, mpi_spec
from bireme.kinds.contract import Injects, Problem, RoleType, Tally, Undecided, Verdict
from bireme.kinds.mpi_spec import V1, V1ALPHA2, V2BETA1, options
from bireme.model.job import CleanPods, Job, Kind, Naming, Restart, Role, RunPolicy
from bireme.model.pods import Container

KIND = Kind.MPI
API_VERSIONS = (V2BETA1, V1, V1ALPHA2)
SPECS = "mpiReplicaSpecs"
MAIN = ""
PORT = ("", 0)
INJECTS = Injects.MAIN
INDEPENDENT = False
OPERATOR = "mpijob-controller"

Options = mpi_spec.Options
wire = mpi_launch.wire
files = mpi_launch.files
rendezvous_replica = contract.nowhere
wanted = contract.every_member

# Launcher and worker.
_RESTARTS = {
    V1ALPHA2: (Restart.ON_FAILURE, Restart.ALWAYS),
    V1: (Restart.NEVER, Restart.NEVER),
    V2BETA1: (Restart.ON_FAILURE, Restart.NEVER),
}
# In these versions the launcher behaves as a batch Job does: what is set here is how often it is tried again.
_USUAL_BACKOFF = {V1ALPHA2: 6, V2BETA1: 6}


def role_types(api_version: str) -> tuple[RoleType, ...]:
    launcher, worker = _RESTARTS[api_version]
    return (
        RoleType("Launcher", restart=launcher, naming=Naming.ROLE),
        RoleType("Worker", replicas=0, restart=worker),
    )


def defaults(job: Job) -> Job:
    chosen = options(job)
    filled = msgspec.structs.replace(
        chosen,
        slots_per_worker=chosen.slots,
        # The older versions do not have this field.
        mpi_implementation=chosen.implementation if job.api_version == V2BETA1 else chosen.mpi_implementation,
        clean_pod_policy=None,
        backoff_limit=None,
        active_deadline_seconds=None,
    )
    return msgspec.structs.replace(
        job,
        roles=tuple(_complete(job, chosen, role) for role in job.roles),
        policy=_policy(job, chosen),
        options=msgspec.to_builtins(filled),
    )


def validate(job: Job) -> Iterator[Problem]:
    yield from _wrong_launcher(job)
    yield from _wrong_worker(job)
    yield from _wrong_restarts(job)
    yield from _wrong_options(job)


def outcome(job: Job, tally: Tally) -> Verdict:
    launcher, worker = tally.of("launcher"), tally.of("worker")
    is_v1 = job.api_version == V1
    if launcher.succeeded:
        return contract.succeeded(job) if is_v1 else contract.succeeded_qualified(job)
    # A launcher that runs may get along without a lost worker; one that does not would wait for it for ever.
    if is_v1 or not launcher.active:
        failure = contract.first_failure(job, tally)
        if failure:
            return failure
    if not launcher.active:
        return Undecided()
    if is_v1:
        return contract.running(job)
    through = worker.active + worker.succeeded >= mpi_spec.workers(job)
    return contract.running_qualified(job) if through else Undecided()


def start_after(job: Job, role: Role) -> tuple[str, ...]:
    return ("worker",) if role.name == "launcher" and mpi_spec.workers(job) else ()


def is_leader(job: Job, role: Role, index: int) -> bool:
    return role.name == "launcher"


def is_placeholder(job: Job, role: Role) -> bool:
    """Whether the role is a worker that is given nothing to run, or an ssh server."""
    if role.name != "worker":
        return False
    main = role.container
    # Only v2beta1 looks at arguments without a command; the others replace both.
    said = [*main.command, *main.args] if main.command or job.api_version == V2BETA1 else []
    return not said or any(re.search(r"\bsshd\b", word) for word in said)


def _complete(job: Job, chosen: Options, role: Role) -> Role:
    if role.name == "launcher":
        return msgspec.structs.replace(role, restart=_launcher_restart(job, role.restart))
    named = any(one.name == chosen.main_container for one in role.pod.containers)
    programs = tuple(_without_empty_command(one) for one in role.pod.containers)
    return msgspec.structs.replace(
        role,
        restart=Restart.ALWAYS if job.api_version == V1ALPHA2 else role.restart,
        pod=msgspec.structs.replace(role.pod, containers=programs),
        main=chosen.main_container if named else role.main,
    )


def _launcher_restart(job: Job, written: Restart) -> Restart:
    if job.api_version in _USUAL_BACKOFF and written is Restart.NEVER:
        return Restart.RECREATE
    if job.api_version == V1ALPHA2 and written is not Restart.RECREATE:
        return Restart.ON_FAILURE
    return written


def _without_empty_command(one: Container) -> Container:
    return msgspec.structs.replace(one, command=()) if one.command == ("",) else one


def _policy(job: Job, chosen: Options) -> RunPolicy:
    """The run policy with what older versions write outside it; what is written within it wins."""
    policy = job.policy
    # Not to clean up is also what an absent word means, so it cannot win.
    clean = chosen.clean_pod_policy if policy.clean_pods is CleanPods.NONE else None
    limits = (policy.backoff_limit, chosen.backoff_limit, _USUAL_BACKOFF.get(job.api_version))
    return msgspec.structs.replace(
        policy,
        clean_pods=clean or policy.clean_pods,
        backoff_limit=next((limit for limit in limits if limit is not None), None),
        deadline=chosen.active_deadline_seconds if policy.deadline is None else policy.deadline,
    )


def _wrong_launcher(job: Job) -> Iterator[Problem]:
    launcher = job.role("launcher")
    is_v1 = job.api_version == V1
    if launcher is None:
        hint = "add a Launcher: its command is the one that calls mpirun"
        yield (
            Problem(f"spec.{SPECS}", "MPIReplicaSpecs is not valid: Master ReplicaSpec must be present", hint)
            if is_v1
            else Problem(f"spec.{SPECS}[Launcher]", "Required value: must have Launcher replica spec", hint)
        )
    elif launcher.replicas != 1:
        text = (
            "MPIReplicaSpecs is not valid: There must be only 1 launcher replica"
            if is_v1
            else f"Invalid value: {launcher.replicas}: must be 1"
        )
        yield Problem(f"spec.{SPECS}[Launcher].replicas", text, "write `replicas: 1`")


def _wrong_worker(job: Job) -> Iterator[Problem]:
    worker = job.role("worker")
    if worker is None:
        return
    if worker.replicas < 1 and job.api_version != V1:
        yield contract.too_small(f"spec.{SPECS}[Worker].replicas", worker.replicas, 1)
    main = options(job).main_container
    if main and all(one.name != main for one in worker.pod.containers):
        yield contract.unsupported("spec.mainContainer", main, [one.name for one in worker.pod.containers])


def _wrong_restarts(job: Job) -> Iterator[Problem]:
    if job.api_version != V2BETA1:
        return
    allowed = (Restart.NEVER, Restart.ON_FAILURE)
    for role in job.roles:
        if role.restart not in (*allowed, Restart.RECREATE):
            yield contract.unsupported(f"spec.{SPECS}[{role.type}].restartPolicy", role.restart, allowed)


def _wrong_options(job: Job) -> Iterator[Problem]:
    chosen = options(job)
    agent = job.annotations.get(mpi_spec.AGENT_ANNOTATION)
    if agent is not None and agent not in list(mpi_spec.Agent):
        yield contract.unsupported(
            f"metadata.annotations[{mpi_spec.AGENT_ANNOTATION}]", agent, list(mpi_spec.Agent)
        )
    least = 1 if job.api_version == V1ALPHA2 else 0
    if chosen.slots < least:
        yield contract.too_small("spec.slotsPerWorker", chosen.slots, least)
    # What stands in `runPolicy` is checked where it is read. What was moved there is checked here.
    for name, limit in (
        ("backoffLimit", job.policy.backoff_limit),
        ("activeDeadlineSeconds", job.policy.deadline),
    ):
        if limit is not None and limit < 0:
            yield contract.too_small(f"spec.{name}", limit)
