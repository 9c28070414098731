"""Runs MPIJobs of three versions: a launcher calls mpirun, which starts ranks in the workers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import structs

from bireme.kinds import contract, kubeflow_labels, mpi_launch, mpi_spec
from bireme.kinds.contract import (
    CelRule,
    Gang,
    Injects,
    Kind,
    ManifestProblem,
    RemoteStart,
    ReplicaContext,
    Right,
    RoleType,
    ScriptRole,
    Sentences,
    Tally,
    Undecided,
    Verdict,
)
from bireme.kinds.mpi_spec import V1, V1ALPHA2, V2BETA1, options
from bireme.model.decisions import SharedFile
from bireme.model.job import CleanPods, Job, Naming, Restart, RestartScope, Role, RunPolicy
from bireme.model.pods import EnvVar
from bireme.model.replicas import Addresses

OPERATOR_V2BETA1 = "mpi-operator"
"""What the operator of v2beta1 calls itself, and what Kueue looks for."""

# Launcher and worker.
_RESTARTS = {
    V1ALPHA2: (Restart.ON_FAILURE, Restart.ALWAYS),
    V1: (Restart.NEVER, Restart.NEVER),
    V2BETA1: (Restart.ON_FAILURE, Restart.NEVER),
}
# In these versions the launcher behaves as a batch Job does: what is set here is how often it is tried again.
_USUAL_BACKOFF = {V1ALPHA2: 6, V2BETA1: 6}

_MANAGER = "kubeflow.org/mpi-operator"
_RBAC = "rbac.authorization.k8s.io"
_INVALID = "MPIReplicaSpecs is not valid"


class MPIJob(Kind):
    name = "MPIJob"
    api_versions = (V2BETA1, V1, V1ALPHA2)
    specs = "mpiReplicaSpecs"
    injects = Injects.MAIN
    Options = mpi_spec.MPIOptions
    annotations = (mpi_spec.AGENT_ANNOTATION,)
    role_rules = (
        contract.must_exist("Launcher", "its command is the one that calls mpirun"),
        contract.only_one("Launcher"),
    )
    spec_rules = (
        CelRule(
            f"self.servedVersion == 'v1' || self.mpiReplicaSpecs.all(type, !({contract.CEL_IS_WORKER}) "
            "|| (has(self.mpiReplicaSpecs[type].replicas) && self.mpiReplicaSpecs[type].replicas >= 1))",
            "Worker.replicas must be greater than or equal to 1",
            field_path=".mpiReplicaSpecs",
        ),
        CelRule(
            "self.servedVersion != 'v2beta1' || self.mpiReplicaSpecs.all(type, "
            "!has(self.mpiReplicaSpecs[type].restartPolicy) "
            "|| self.mpiReplicaSpecs[type].restartPolicy in ['Never', 'OnFailure'])",
            'restartPolicy is "Never" or "OnFailure" in kubeflow.org/v2beta1',
            field_path=".mpiReplicaSpecs",
        ),
        CelRule(
            "self.servedVersion != 'v1alpha2' || !has(self.slotsPerWorker) || self.slotsPerWorker >= 1",
            "must be greater than or equal to 1",
            field_path=".slotsPerWorker",
        ),
        CelRule(
            f"!has(self.mainContainer) || size(self.mainContainer) == 0 || self.mpiReplicaSpecs.all(type, "
            f"!({contract.CEL_IS_WORKER}) || self.mpiReplicaSpecs[type].template.spec.containers.exists(one, "
            "one.name == self.mainContainer))",
            "no container of the Worker has this name",
            field_path=".mainContainer",
        ),
        CelRule(
            "!has(self.runPolicy) || !has(self.runPolicy.managedBy) || self.runPolicy.managedBy != "
            "(self.servedVersion == 'v2beta1' "
            f"? '{contract.TRAINING_OPERATOR}' : '{_MANAGER}')",
            'the operator is "kubeflow.org/mpi-operator" in v2beta1, else "kubeflow.org/training-operator"',
            field_path=".runPolicy.managedBy",
        ),
    )
    # Without MPIJobs no right over secrets or into pods is asked for.
    rights = (
        Right("", ("configmaps",), ("create", "get", "patch")),
        # Keys for the ssh of an MPIJob. Others are none of its business, so it never lists them.
        Right("", ("secrets", "serviceaccounts"), ("create", "get")),
        # The launcher starts commands in its workers. No one can grant a right without having it.
        Right(_RBAC, ("roles",), ("create", "get", "patch")),
        Right(_RBAC, ("rolebindings",), ("create", "get")),
        Right("", ("pods/exec",), ("create", "get")),
        # Whether Kubeflow's MPI operator left one that starts a launcher.
        Right("batch", ("jobs",), ("get",)),
    )

    def role_types(self, api_version: str) -> tuple[RoleType, ...]:
        launcher, worker = _RESTARTS[api_version]
        return (
            RoleType("Launcher", restart=launcher, naming=Naming.ROLE),
            RoleType("Worker", replicas=0, restart=worker),
        )

    def sentences(self, api_version: str, role: str) -> Sentences:
        if api_version == V2BETA1:
            return Sentences(
                specs="Required value: must have replica specs",
                containers="Required value: must define at least one container",
            )
        return Sentences(
            specs=f"Required value: {_INVALID}",
            containers=f"Required value: {_INVALID}: containers definition expected in {role}",
            image=f"Required value: {_INVALID}: Image is undefined in the container of {role}",
        )

    def managers(self, api_version: str) -> tuple[str, ...]:
        return (_MANAGER if api_version == V2BETA1 else contract.TRAINING_OPERATOR, contract.MULTIKUEUE)

    def script_version(self) -> str:
        return V1

    def script_roles(self, workers: int) -> tuple[ScriptRole, ...]:
        """The launcher starts one rank in every worker, and needs no resources of its own."""
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        mpirun = ("mpirun", "-np", str(workers))
        return (
            ScriptRole("Launcher", 1, before=mpirun, computes=False, env=as_root),
            ScriptRole("Worker", workers, runs=False),
        )

    def defaults(self, job: Job) -> Job:
        chosen = options(job)
        filled = structs.replace(
            chosen,
            slots_per_worker=chosen.slots,
            # The older versions do not have this field.
            mpi_implementation=(
                chosen.implementation if job.api_version == V2BETA1 else chosen.mpi_implementation
            ),
            clean_pod_policy=None,
            backoff_limit=None,
            active_deadline_seconds=None,
        )
        return structs.replace(
            job,
            roles=tuple(_complete(job, chosen, role) for role in job.roles),
            policy=_policy(job, chosen),
            options=filled,
        )

    def validate(self, job: Job) -> Iterator[ManifestProblem]:
        yield from _wrong_roles(job)
        allowed = (Restart.NEVER, Restart.ON_FAILURE)
        for role in job.roles if job.api_version == V2BETA1 else ():
            if role.restart not in (*allowed, Restart.RECREATE):
                field = f"spec.{self.specs}[{role.type}].restartPolicy"
                yield contract.unsupported(field, role.restart, allowed)
        agent = job.annotations.get(mpi_spec.AGENT_ANNOTATION)
        if agent is not None and agent not in list(mpi_spec.Agent):
            field = f"metadata.annotations[{mpi_spec.AGENT_ANNOTATION}]"
            yield contract.unsupported(field, agent, list(mpi_spec.Agent))
        slots, least = options(job).slots, 1 if job.api_version == V1ALPHA2 else 0
        if slots < least:
            yield contract.too_small("spec.slotsPerWorker", slots, least)
        # What stands in `runPolicy` is checked where it is read. What was moved there is checked here.
        limits = {"backoffLimit": job.policy.backoff_limit, "activeDeadlineSeconds": job.policy.deadline}
        for name, limit in limits.items():
            if limit is not None and limit < 0:
                yield contract.too_small(f"spec.{name}", limit)

    def wire(self, place: ReplicaContext) -> tuple[EnvVar, ...]:
        return mpi_launch.wire(place)

    def files(self, job: Job, ready: frozenset[str], addresses: Addresses) -> tuple[SharedFile, ...]:
        return mpi_launch.files(job, ready, addresses)

    def outcome(self, job: Job, tally: Tally) -> Verdict:
        launcher, worker = tally.of("launcher"), tally.of("worker")
        is_v1 = job.api_version == V1
        if launcher.succeeded:
            return contract.succeeded(job, qualified=not is_v1)
        # A launcher that runs may get along without a lost worker; one that does not would wait for ever.
        if is_v1 or not launcher.active:
            failure = contract.first_failure(job, tally)
            if failure:
                return failure
        if not launcher.active:
            return Undecided()
        through = is_v1 or worker.active + worker.succeeded >= mpi_spec.workers(job)
        return contract.running(job, qualified=not is_v1) if through else Undecided()

    def start_after(self, job: Job, role: Role) -> tuple[str, ...]:
        return ("worker",) if role.name == "launcher" and mpi_spec.workers(job) else ()

    def is_leader(self, job: Job, role: Role, index: int) -> bool:
        return role.name == "launcher"

    def is_placeholder(self, job: Job, role: Role) -> bool:
        """Whether the role is a worker that is given nothing to run, or an ssh server."""
        if role.name != "worker":
            return False
        main = role.container
        # Only v2beta1 looks at arguments without a command; the others replace both.
        said = [*main.command, *main.args] if main.command or job.api_version == V2BETA1 else []
        return not said or any(re.search(r"\bsshd\b", word) for word in said)

    def fixed_size(self, job: Job) -> str:
        return "starts a fixed number of ranks with mpirun -np" if job.unit is RestartScope.GANG else ""

    def job_labels(self, job: Job) -> dict[str, str]:
        operator = OPERATOR_V2BETA1 if job.api_version == V2BETA1 else self.operator
        return {kubeflow_labels.OPERATOR_NAME: operator, kubeflow_labels.JOB_NAME: job.name}

    def pod_labels(self, job: Job, role: Role, index: int) -> dict[str, str]:
        match job.api_version:
            case mpi_spec.V2BETA1:
                # The index counts all pods in which ranks run, so a launcher that trains is the first.
                trains = mpi_spec.launcher_trains(job)
                own = {kubeflow_labels.JOB_ROLE: role.name}
                if role.name == "launcher":
                    return (
                        self.job_labels(job) | own | ({kubeflow_labels.REPLICA_INDEX: "0"} if trains else {})
                    )
                return self.job_labels(job) | own | {kubeflow_labels.REPLICA_INDEX: str(index + trains)}
            case mpi_spec.V1ALPHA2:
                old = {kubeflow_labels.GROUP_NAME: contract.GROUP, kubeflow_labels.MPI_JOB_NAME: job.name}
                return old | {kubeflow_labels.MPI_ROLE_TYPE: role.name} | self.job_labels(job)
            case _:
                return super().pod_labels(job, role, index)

    def shares_service(self, job: Job) -> bool:
        return job.api_version == V2BETA1

    def gang(self, job: Job) -> Gang:
        if job.api_version != V2BETA1:
            return Gang()
        return Gang("scheduling.volcano.sh/queue-name", True, ("launcher", "worker"), 0)

    def remote_start(self, job: Job) -> RemoteStart:
        agent = mpi_spec.uses_agent(job)
        return RemoteStart(
            launcher="launcher",
            workers="worker",
            agent=mpi_launch.AGENT if agent else "",
            key_path=options(job).ssh_auth_mount_path,
            has_host_names=job.api_version == V2BETA1,
            idles=self._idles(job),
        )

    def _idles(self, job: Job) -> bool:
        """Whether the workers of a cluster have nothing to run, and wait for the launcher."""
        worker = job.role("worker")
        if worker is None:
            return False
        main = worker.container
        if not mpi_spec.uses_agent(job):
            return not main.command and not main.args
        return self.is_placeholder(job, worker) if job.api_version == V2BETA1 else not main.command


def _complete(job: Job, chosen: mpi_spec.MPIOptions, role: Role) -> Role:
    if role.name == "launcher":
        restart = role.restart
        if job.api_version in _USUAL_BACKOFF and restart is Restart.NEVER:
            restart = Restart.RECREATE
        elif job.api_version == V1ALPHA2 and restart is not Restart.RECREATE:
            restart = Restart.ON_FAILURE
        return structs.replace(role, restart=restart)
    named = any(container.name == chosen.main_container for container in role.pod.containers)
    programs = tuple(
        structs.replace(container, command=()) if container.command == ("",) else container
        for container in role.pod.containers
    )
    return structs.replace(
        role,
        restart=Restart.ALWAYS if job.api_version == V1ALPHA2 else role.restart,
        pod=structs.replace(role.pod, containers=programs),
        main=chosen.main_container if named else role.main,
    )


def _policy(job: Job, chosen: mpi_spec.MPIOptions) -> RunPolicy:
    """The run policy with what older versions write outside it; what is written within it wins."""
    policy = job.policy
    # Not to clean up is also what an absent word means, so it cannot win.
    clean = chosen.clean_pod_policy if policy.clean_pods is CleanPods.NONE else None
    limits = (policy.backoff_limit, chosen.backoff_limit, _USUAL_BACKOFF.get(job.api_version))
    return structs.replace(
        policy,
        clean_pods=clean or policy.clean_pods,
        backoff_limit=next((limit for limit in limits if limit is not None), None),
        deadline=chosen.active_deadline_seconds if policy.deadline is None else policy.deadline,
    )


def _wrong_roles(job: Job) -> Iterator[ManifestProblem]:
    launcher, worker = job.role("launcher"), job.role("worker")
    is_v1 = job.api_version == V1
    if launcher is None:
        field = f"spec.{MPIJob.specs}" if is_v1 else f"spec.{MPIJob.specs}[Launcher]"
        text = (
            f"{_INVALID}: Master ReplicaSpec must be present"
            if is_v1
            else "Required value: must have Launcher replica spec"
        )
        yield ManifestProblem(field, text, "add a Launcher: its command is the one that calls mpirun")
    elif launcher.replicas != 1:
        text = (
            f"{_INVALID}: There must be only 1 launcher replica"
            if is_v1
            else f"Invalid value: {launcher.replicas}: must be 1"
        )
        yield ManifestProblem(f"spec.{MPIJob.specs}[Launcher].replicas", text, "write `replicas: 1`")
    if worker is None:
        return
    if worker.replicas < 1 and job.api_version != V1:
        yield contract.too_small(f"spec.{MPIJob.specs}[Worker].replicas", worker.replicas, 1)
    main = options(job).main_container
    names = [container.name for container in worker.pod.containers]
    if main and main not in names:
        yield contract.unsupported("spec.mainContainer", main, names)


KIND = MPIJob()
