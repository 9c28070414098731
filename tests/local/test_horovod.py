"""Does horovodrun reach the workers of an MPIJob: Horovod's own launcher, through MPI and through Gloo.

Only the way to a running rank is under test. The compiled part of Horovod, which tests/soak has, is not built
here, so the ranks add nothing up with it: through MPI they exchange data with mpi4py, through Gloo with the
server of the launcher. The last two tests have the manifest of docs/script.md, and scripts that ask Bireme
for their place and work.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from bireme.model.status import Phase
from tests.local.harness import Bireme, kill, until
from tests.local.horovod_manifests import GLOO, MPI, MPIRUN, documented

HOROVOD = Path(sys.prefix) / "horovod"
V1, V2BETA1 = "v1", "v2beta1"
HOSTS = ("--hostfile", "/etc/mpi/hostfile")
ELASTIC = ("--min-np", "2", "--host-discovery-script", "/etc/mpi/discover_hosts.sh")

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(
        not HOROVOD.is_dir(), reason="horovodrun is not installed; `make frameworks` installs it"
    ),
    pytest.mark.skipif(
        shutil.which("mpirun") is None, reason="mpirun is not installed; `make frameworks` installs it"
    ),
]

# The script of that name in Horovod's package, but for one line: it answers what the compiled part would be
# asked, whether MPI and Gloo were built in.
HOROVODRUN = """#!/usr/bin/env python
from horovod.runner import launch
if __name__ == "__main__":
    launch.mpi_built = launch.gloo_built = lambda verbose=False: True
    launch.run_commandline()
"""

# The variable is the worker's own. Horovod gives a rank all variables of the launcher on top of the worker's.
MANIFEST = """
apiVersion: kubeflow.org/{version}
kind: MPIJob
metadata: {{name: hvd}}
spec:
  slotsPerWorker: 1
  runPolicy: {{backoffLimit: 0}}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
            - {{name: mpi, image: horovod/horovod, command: [horovodrun, -np, "2", {words}, python, rank.py]}}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: mpi
              image: horovod/horovod
              env: [{{name: WITHIN, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}]
"""

# One write, because the lines of several ranks share one pipe.
MPI_RANK = """
import os
from mpi4py import MPI
world, within = MPI.COMM_WORLD, os.environ["WITHIN"]
heard = " ".join(world.allgather(within))
os.write(1, f"rank {world.rank} of {world.size} within {within} heard {heard}.\\n".encode())
"""
GLOO_RANK = """
import os, time
from horovod.runner.http.http_client import put_data_into_kvstore as put, read_data_from_kvstore as read
rank, size, host = (os.environ["HOROVOD_" + name] for name in ("RANK", "SIZE", "HOSTNAME"))
server = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]
within, end = os.environ["WITHIN"], time.monotonic() + 60

def hear(other):
    while True:
        try:
            return read(*server, "within", other)
        except RuntimeError:
            assert time.monotonic() < end, f"rank {rank} hears nothing of rank {other}"
            time.sleep(0.05)

assert host.partition(".")[0] == within, host
put(*server, "within", rank, within)
heard = " ".join(hear(str(other)) for other in range(int(size)))
os.write(1, f"rank {rank} of {size} within {within} heard {heard}.\\n".encode())
"""
FAILING_RANK = """
import os, pathlib, sys, time
rank = os.environ.get("HOROVOD_RANK") or os.environ["OMPI_COMM_WORLD_RANK"]
pathlib.Path("rank-" + rank).touch()
end = time.monotonic() + 600
while time.monotonic() < end:
    if rank == "1" and os.path.exists("rank-0"):
        os.write(1, b"rank 1 gives up.\\n")
        sys.exit(3)
    time.sleep(0.05)
"""
PLACED = """
import os
import bireme
with bireme.init() as run:
    os.write(1, f"rank {run.rank} of {run.world_size}, here {run.local_rank}.\\n".encode())
"""
RESUMING = """
import os, pathlib, time
import bireme
with bireme.init(every=10) as run:
    start = run.restore(sum=0)
    total = start.values.get("sum", 0)
    pathlib.Path(f"pid-{run.rank}").write_text(str(os.getpid()))
    for step, number in run.steps(range(200), start=start):
        total += number // 2
        run.save(step, sum=total)
        time.sleep(0.03)
    os.write(1, f"rank {run.rank} of {run.world_size} in attempt {run.attempt}: {total}.\\n".encode())
"""


@pytest.fixture
def horovodrun(bireme: Bireme) -> Bireme:
    """The command beside a horovodrun that keeps its cache in a home of its own."""
    program = bireme.write("bin/horovodrun", HOROVODRUN)
    program.chmod(0o755)
    found = {"PATH": program.parent, "PYTHONPATH": HOROVOD}
    for name, first in found.items():
        bireme.environ[name] = os.pathsep.join([str(first), *filter(None, [bireme.environ.get(name)])])
    bireme.environ["HOME"] = str(bireme.folder)
    return bireme


@pytest.mark.parametrize("version", [V1, V2BETA1])
@pytest.mark.parametrize(
    ("words", "rank"),
    [
        pytest.param(("--mpi", *HOSTS), MPI_RANK, id="mpi"),
        pytest.param(("--gloo", *HOSTS), GLOO_RANK, id="gloo"),
        pytest.param(("--gloo", *ELASTIC), GLOO_RANK, id="elastic"),
    ],
)
def test_horovodrun_starts_each_rank_in_its_own_worker(
    horovodrun: Bireme, words: tuple[str, ...], rank: str, version: str
) -> None:
    horovodrun.write("rank.py", rank)
    horovodrun.write("job.yaml", _manifest(version, words))

    done = horovodrun("run", "-f", "job.yaml")

    assert done.returncode == 0, done.stdout + done.stderr
    said = sorted(re.findall(r"rank (\d of \d) within (\S+) heard ([^.]*)\.", done.stdout))
    # In the order of ranks. An elastic horovodrun may give the first one to any worker.
    workers = [worker for _, worker, _ in said]
    assert sorted(workers) == ["hvd-worker-0", "hvd-worker-1"]
    assert said == [(f"{rank} of 2", worker, " ".join(workers)) for rank, worker in enumerate(workers)]
    assert horovodrun.leftovers() == []


@pytest.mark.parametrize("controller", ["--mpi", "--gloo"])
def test_a_rank_that_fails_under_horovodrun_fails_the_job_and_ends_the_others(
    horovodrun: Bireme, controller: str
) -> None:
    horovodrun.write("rank.py", FAILING_RANK)
    horovodrun.write("job.yaml", _manifest(V2BETA1, (controller, *HOSTS)))

    done = horovodrun("run", "-f", "job.yaml")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "rank 1 gives up." in done.stdout
    assert horovodrun.status("hvd").phase is Phase.FAILED
    assert horovodrun.leftovers() == []


@pytest.mark.parametrize("command", [GLOO, MPI, MPIRUN], ids=["gloo", "mpi", "mpirun"])
def test_a_script_finds_its_rank_under_either_launcher(horovodrun: Bireme, command: str) -> None:
    horovodrun.write("train.py", PLACED)
    manifest = documented(command.replace('"2"', '"4"')).replace("slotsPerWorker: 1", "slotsPerWorker: 2")
    horovodrun.write("job.yaml", manifest)

    done = horovodrun("run", "-f", "job.yaml")

    assert done.returncode == 0, done.stdout + done.stderr
    said = sorted(re.findall(r"rank (\d of \d), here (\d)\.", done.stdout))
    assert said == [("0 of 4", "0"), ("1 of 4", "1"), ("2 of 4", "0"), ("3 of 4", "1")]


@pytest.mark.parametrize("command", [GLOO, MPIRUN], ids=["gloo", "mpirun"])
def test_a_script_goes_on_after_a_lost_rank_under_either_launcher(horovodrun: Bireme, command: str) -> None:
    horovodrun.write("train.py", RESUMING)
    horovodrun.write("job.yaml", documented(command))

    begun = horovodrun("run", "-f", "job.yaml", "--detach")
    checkpoints = horovodrun.run("horovod").path / "checkpoints"
    until(lambda: any(checkpoints.glob("step-*")), "the first checkpoint is there")
    kill(int((horovodrun.folder / "pid-1").read_text()))
    until(lambda: horovodrun.status("horovod").phase.is_final, "the job ends")

    logs = horovodrun("logs", "horovod").stdout
    assert begun.returncode == 0, begun.stderr
    assert horovodrun.status("horovod").phase is Phase.SUCCEEDED, logs
    assert re.search(r"continues after step \d*9, from step-", logs), logs
    said = sorted(re.findall(r"rank (\d of \d in attempt \d: \d+)\.", logs))
    assert said == ["0 of 2 in attempt 1: 4950", "1 of 2 in attempt 1: 4950"]


def _manifest(version: str, words: tuple[str, ...]) -> str:
    return MANIFEST.format(version=version, words=", ".join(f'"{word}"' for word in words))
