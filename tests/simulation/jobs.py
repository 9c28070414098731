"""Which jobs are simulated: valid ones of every kind, at random."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from bireme import kinds
from bireme.kinds import batch, mpi_spec
from bireme.model.job import CleanPods, Job, Naming, Restart, RestartScope, Role, RunPolicy
from bireme.model.pods import Container, PodSpec, Resources

NAME = "mnist"
LONGEST_DEADLINE = 900

_ANY = (Restart.ALWAYS, Restart.ON_FAILURE, Restart.NEVER, Restart.EXIT_CODE)
_RESTARTS = {
    "Job": (Restart.RECREATE, Restart.ON_FAILURE),
    mpi_spec.V2BETA1: (Restart.NEVER, Restart.ON_FAILURE),
}


def draw(rng: Random) -> Job:
    """A job at random, complete and valid."""
    kind = rng.choice(tuple(kinds.BY_NAME))
    module = kinds.named(kind)
    version = rng.choice(module.api_versions)
    job = kinds.typed(
        Job(
            kind=kind,
            api_version=version,
            name=NAME,
            uid="job",
            roles=tuple(_role(rng, kind, version, *one) for one in _roles(rng, kind)),
            policy=_policy(rng),
            unit=rng.choice((RestartScope.REPLICA, RestartScope.REPLICA, RestartScope.GANG)),
            options=_options(rng, kind),
            torchrun_environment=kind == "PyTorchJob" and rng.random() < 0.3,
        )
    )
    job = module.defaults(job)
    problems = list(module.validate(job))
    assert not problems, problems
    return _that_ends(rng, job)


def scaled(rng: Random, job: Job) -> Job:
    """The same job with another number of workers, as a user edits it."""
    if job.kind == "Job":
        options = replace(batch.options(job), parallelism=rng.randint(1, 4))
        return kinds.of(job).defaults(replace(job, options=options))
    count = rng.randint(1, 5)
    roles = tuple(replace(one, replicas=count) if one.name == "worker" else one for one in job.roles)
    return replace(job, roles=roles)


def serves(job: Job, role: str) -> bool:
    """Whether programs of a role never end by themselves: parameter servers, and workers of MPI."""
    return role in ("ps", "server") or (job.kind == "MPIJob" and role == "worker")


def _roles(rng: Random, kind: str) -> list[tuple[str, int]]:
    many = rng.randint(1, 4)
    match kind:
        case "Job":
            return [("Pod", 1)]
        case "JAXJob":
            return [("Worker", many)]
        case "MPIJob":
            return [("Launcher", 1), ("Worker", many)]
        case "XGBoostJob":
            return [("Master", 1), ("Worker", many)] if rng.random() < 0.8 else [("Master", 1)]
        case "PyTorchJob" | "PaddleJob":
            return [("Master", 1), ("Worker", many)] if rng.random() < 0.5 else [("Worker", many)]
        case "MXJob":
            return [("Scheduler", 1), ("Server", 1), ("Worker", many)]
        case "TFJob":
            chief = rng.choice(([], [("Chief", 1)], [("Master", 1)]))
            more = [one for one in (("PS", rng.randint(1, 2)), ("Evaluator", 1)) if rng.random() < 0.4]
            return [*chief, *more, ("Worker", many)]
    raise AssertionError(f"no roles are known for {kind}")


def _role(rng: Random, kind: str, version: str, type: str, replicas: int) -> Role:
    module = kinds.named(kind)
    port, number = module.port
    main = Container(
        name=module.container or "main",
        command=("train",),
        args=(f"--master={NAME}-master-0:{number}",),
        ports={port: number} if port else {},
        requests=Resources(cpu=1000),
    )
    others = (Container("helper"),) if rng.random() < 0.1 else ()
    inits = tuple(
        one for one in (Container("prepare"), Container("proxy", sidecar=True)) if rng.random() < 0.08
    )
    naming = {"Launcher": Naming.ROLE, "Pod": Naming.INDEX}
    return Role(
        name=type.lower(),
        type=type,
        replicas=replicas,
        restart=rng.choice(_RESTARTS.get(kind, _RESTARTS.get(version, _ANY))),
        pod=PodSpec((main, *others), inits, grace=rng.choice((0.0, 2.0, 30.0))),
        main=main.name,
        naming=naming.get(type, Naming.ROLE_AND_INDEX),
    )


def _policy(rng: Random) -> RunPolicy:
    return RunPolicy(
        clean_pods=rng.choice(tuple(CleanPods)),
        ttl=rng.choice((None, 0, 60)),
        deadline=rng.choice((None, None, None, rng.randint(1, LONGEST_DEADLINE))),
        backoff_limit=rng.choice((None, None, None, 0, 1, 4, 12)),
        eviction_limit=rng.choice((20, 20, 20, 20, 0, 3)),
        linger=rng.choice((None, 0.0, 30.0)),
        suspend=rng.random() < 0.05,
    )


def _options(rng: Random, kind: str) -> dict[str, object]:
    match kind:
        case "Job":
            completions = rng.choice((None, rng.randint(1, 6)))
            indexed = completions is not None and rng.random() < 0.5
            mode = {"completionMode": "Indexed"} if indexed else {}
            return {"parallelism": rng.randint(1, 4), "completions": completions, **mode}
        case "MXJob":
            return {"jobMode": "MXTrain"}
        case "TFJob":
            success = rng.choice(("", "AllWorkers"))
            return {"successPolicy": success, "enableDynamicWorker": rng.random() < 0.3}
        case "PyTorchJob":
            return {"elasticPolicy": {"maxReplicas": 4}} if rng.random() < 0.2 else {}
        case _:
            return {}


def _that_ends(rng: Random, job: Job) -> Job:
    """A program that is always started again never ends; then only a deadline ends its job."""
    endless = any(one.restart is Restart.ALWAYS for one in job.roles) and job.unit is RestartScope.REPLICA
    if not endless or job.policy.deadline is not None:
        return job
    return replace(job, policy=replace(job.policy, deadline=rng.randint(1, LONGEST_DEADLINE)))
