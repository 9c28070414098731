"""Does a script whose pods are lost go on where it was, with the numbers that it would have had?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.runtime.records.log_echo import MARK
from tests.cli.commands import Cli
from tests.cli.conftest import cli as cli
from tests.cluster import operator_fixtures
from tests.cluster.harness import PYTHON, Cluster, Json
from tests.cluster.operator_fixtures import CRDS, until
from tests.cluster.verbs import Verbs, verbs
from tests.tensorboards import events

TRAIN = """
    import random, sys, time
    import bireme

    random.seed(1)
    with bireme.init(every=5) as run:
        assert run.attempt == 0 or sys.argv[1] != "undisturbed"
        weight = {"value": 0.0}
        start = run.restore(weight=weight)
        if start:
            weight = start.values["weight"]
        for step, number in run.steps(run.shard(range(100)), start=start):
            # The first two attempts come this far, and wait there to be lost.
            while sys.argv[1] == "disturbed" and run.attempt < (step > 11) + (step > 26):
                time.sleep(0.05)
            weight = {"value": weight["value"] * 0.9 + random.random()}
            run.report(step, weight=weight["value"])
            run.save(step, weight=weight)
            print("step", run.rank, step, number, weight["value"].hex(), flush=True)
"""
ON = ("--on", "kubernetes", "--image", PYTHON)
JOB = """
script: train.py {name}
workers: 2
name: {name}
checkpoints: pvc://work/{name}
"""


@pytest.fixture
def bireme(cluster: Cluster, cli: Cli, tmp_path: Path) -> Iterator[Verbs]:
    for file in CRDS:
        cluster.kubectl("apply", "-f", str(file))
    with verbs(cluster, cli, tmp_path) as one:
        options = ("--no-leader-elect", "--namespace", one.namespace)
        with operator_fixtures.operator(cluster.kubeconfig, tmp_path / "operator.log", *options):
            yield one


def claim(namespace: str, folder: Path) -> tuple[Json, Json]:
    """A claim whose files every node of the test cluster sees: they all are on this machine."""
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"work-{namespace}"},
        "spec": {
            **common,
            "capacity": size,
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": namespace, "name": "work"},
        },
    }
    wish = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "work", "namespace": namespace},
        "spec": {**common, "resources": {"requests": size}, "volumeName": f"work-{namespace}"},
    }
    return volume, wish


def steps(output: str) -> dict[tuple[str, str], set[str]]:
    """Every number that was printed for each rank and step."""
    found: dict[tuple[str, str], set[str]] = {}
    for line in output.splitlines():
        words = line.partition("step ")[2].split()
        if len(words) == 4:
            found.setdefault((words[0], words[1]), set()).add(" ".join(words[2:]))
    return found


def test_a_gang_whose_pods_are_lost_twice_computes_the_same_numbers(bireme: Verbs, tmp_path: Path) -> None:
    (tmp_path / "claim").mkdir()
    for one in claim(bireme.namespace, tmp_path / "claim"):
        bireme.kubectl("create", "-f", "-", stdin=json.dumps(one))
    bireme.cli.write("train.py", TRAIN)
    for name in ("undisturbed", "disturbed"):
        bireme.cli.write(f"{name}.yaml", JOB.format(name=name))
    kept = tmp_path / "claim" / "disturbed"

    expected = bireme("run", "-f", "undisturbed.yaml", *ON)
    begun = bireme("run", "-f", "disturbed.yaml", *ON, "--detach")
    printed = ""
    for pod, after in (("disturbed-worker-0", 9), ("disturbed-master-0", 24)):
        until(lambda after=after: (kept / f"step-{after:09}").exists(), f"step {after} is saved")  # type: ignore[misc]
        printed += bireme("logs", "disturbed").out
        bireme.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
    ended = bireme("wait", "disturbed")
    printed += bireme("logs", "disturbed").out

    assert (expected.status, begun.status, ended.status) == (0, 0, 0), expected.err + begun.err + ended.err
    assert len(steps(expected.out)) == 100
    assert steps(printed).items() <= steps(expected.out).items()
    assert "continues after step" in printed
    last = {key: value for key, value in steps(printed).items() if key[1] == "49"}
    assert len(last) == 2
    assert MARK not in printed
    shown = curve(bireme, "disturbed")
    assert {rank for rank, _ in shown} == {"0", "1"}
    assert {step for _, step in shown} >= {"0", "49"}
    for key, value in shown.items():
        (line,) = steps(expected.out)[key]
        assert value == pytest.approx(float.fromhex(line.split()[1]))
    assert MARK in bireme.kubectl("logs", "disturbed-master-0")
    assert "progress   50 of 50 steps (100 %)" in bireme("show", "disturbed").out


def curve(bireme: Verbs, name: str) -> dict[tuple[str, str], float]:
    """What TensorBoard shows, by rank and step."""
    folder = Path(bireme.done("tensorboard", name, "--logdir-only").out.strip())
    found = {}
    for rank in folder.iterdir():
        if rank.is_dir():
            for one in events(rank).Scalars("weight"):
                found[rank.name.removeprefix("rank-"), str(one.step)] = one.value
    return found


def test_numbers_that_pods_only_print_are_shown_too(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "for step in range(3): print(f'Accuracy at step {step}: {step / 4}')")
    bireme.cli.write("job.yaml", "script: train.py\nname: printing\nmetrics: [accuracy]\n")
    bireme.done("run", "-f", "job.yaml", *ON)

    folder = Path(bireme.done("tensorboard", "printing", "--logdir-only").out.strip())

    (events,) = folder.glob("master-0/*tfevents*")
    assert b"accuracy" in events.read_bytes()
    assert "progress   step 2" in bireme("show", "printing").out
    assert "metric     accuracy 0.5" in bireme("show").out
    assert bireme("show", "print").out.startswith("printing  ")
    assert bireme("show", "print", "--on", "kubernetes").out.startswith("printing  ")
    bireme.done("rm", "printing")
    assert not folder.exists()
