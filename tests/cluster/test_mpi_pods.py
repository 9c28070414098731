"""Do launcher and workers reach each other in a real cluster: through the agent, and through ssh."""

from __future__ import annotations

from random import SystemRandom

from msgspec.structs import replace

from bireme.backends.kubernetes.objects import mpi_objects, pod_builder
from bireme.kinds import mpi as kind
from bireme.model.replicas import Addresses
from tests.cluster.harness import OPEN_MPI, OPEN_MPI_SSH, Cluster, Kubectl
from tests.unit.kubernetes.making import V1, V1ALPHA2, V2BETA1, Made, Object, container, mpi, template

RANKS = """\
from mpi4py import MPI
world = MPI.COMM_WORLD
print("rank", world.rank, "of", world.size, MPI.Get_processor_name())
"""
MPIRUN = ["mpirun", "--allow-run-as-root", "-np", "2", "python3", "-c", RANKS]
AGENT = {"bireme.io/mpi-agent": "exec"}


def training(version: str, image: str, command: list[str], **more: object) -> Made:
    launcher = template({**container(command=command), "image": image})
    worker = template({**container(), "image": image})
    return mpi(version, launcher=launcher, worker=worker, **more)  # type: ignore[arg-type]


def begin(given: Made, kubectl: Kubectl) -> None:
    """Makes everything that the job needs, as an operator does: the launcher when its workers are ready."""
    job = replace(given.job, namespace=kubectl.namespace)
    here = Made(job, given.templates)
    workers = [f"{job.name}-worker-{index}" for index in range(2)]
    files = kind.KIND.files(job, frozenset(workers), Addresses())
    kubectl.apply(*map(_free, mpi_objects.supports(job, files, SystemRandom(), workers)))
    kubectl.apply(*(_free(here.pod("worker", index)) for index in range(2)))
    if shared := pod_builder.service(job, here.role("worker"), 0):
        kubectl.apply(_free(shared))
    kubectl.wait("--for=condition=Ready", *(f"pod/{name}" for name in workers))
    kubectl.apply(_free(here.pod("launcher")))


def _free(one: Object) -> Object:
    """Without its owner: there is no job, and what belongs to nobody would be removed."""
    kept = {name: value for name, value in one["metadata"].items() if name != "ownerReferences"}
    return {**one, "metadata": kept}


def ran(kubectl: Kubectl) -> list[str]:
    """What the ranks of the launcher's mpirun said."""
    kubectl.wait("--for=jsonpath={.status.phase}=Succeeded", "pod/mnist-launcher")
    return sorted(line for line in kubectl.logs("mnist-launcher").splitlines() if line.startswith("rank"))


EVERYWHERE = ["rank 0 of 2 mnist-worker-0", "rank 1 of 2 mnist-worker-1"]


def test_mpirun_of_v1_runs_in_images_without_ssh(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.load("openmpi")
    begin(training(V1, OPEN_MPI, MPIRUN), kubectl)

    assert ran(kubectl) == EVERYWHERE


def test_mpirun_of_v1alpha2_does_too(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.load("openmpi")
    begin(training(V1ALPHA2, OPEN_MPI, MPIRUN), kubectl)

    assert ran(kubectl) == EVERYWHERE


def test_mpirun_of_v2beta1_runs_through_ssh(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.load("openmpi-ssh")
    begin(training(V2BETA1, OPEN_MPI_SSH, MPIRUN), kubectl)

    assert ran(kubectl) == EVERYWHERE


def test_mpirun_of_v2beta1_runs_through_the_agent_where_that_is_chosen(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    cluster.load("openmpi")
    begin(training(V2BETA1, OPEN_MPI, MPIRUN, annotations=AGENT), kubectl)

    assert ran(kubectl) == EVERYWHERE


def test_the_agent_stands_in_for_ssh(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.load("openmpi")
    begin(training(V1, OPEN_MPI, ["sleep", "600"]), kubectl)
    kubectl.wait("--for=condition=Ready", "pod/mnist-launcher")

    def call(*words: str, stdin: str = "") -> tuple[int, str, str]:
        inside = ["exec", "-i", "mnist-launcher", "--", "/etc/mpi/kubexec.sh", *words]
        done = kubectl.run(*inside, stdin=stdin)
        told = [line for line in done.stderr.splitlines() if not line.startswith("command terminated")]
        return done.returncode, done.stdout, "\n".join(told)

    # Words for a shell, an exit code, and both outputs.
    assert call("-o", "A=B", "mnist-worker-1.x", "hostname;", "echo", "no", ">&2;", "exit", "7") == (
        7,
        "mnist-worker-1\n",
        "no",
    )
    # Input, and its end.
    assert call("mnist-worker-0", "wc", "-c", stdin="x" * 100_000) == (0, "100000\n", "")
    # A pod that is not of this job.
    code, _, told = call("mnist-launcher", "true")
    assert code == 255
    assert "the launcher may not start commands in mnist-launcher" in told
    # Told to stop, it takes along what it started.
    stopped = "timeout -s TERM 3 /etc/mpi/kubexec.sh mnist-worker-0 'sleep 1234'; echo ended $?"
    assert kubectl("exec", "mnist-launcher", "--", "sh", "-c", stopped) == "ended 124\n"
    assert "1234" not in kubectl("exec", "mnist-worker-0", "--", "ps", "-ef")
