"""A script and a number of workers become a full manifest."""

from __future__ import annotations

import pytest

from bireme.errors import BadInput
from bireme.manifest import short_form
from bireme.manifest.read import from_manifest
from bireme.model.job import CleanPods, Job, Restart, RestartScope
from bireme.model.pods import EnvVar, Resources
from tests.unit.manifest.samples import job_of, reading, refusal, warnings


def test_the_shortest_form() -> None:
    (found,) = reading("script: train.py\n").jobs
    job = found.job

    assert found.script == "train.py"
    assert (job.kind, job.name, job.total) == ("PyTorchJob", "train", 1)
    assert [role.type for role in job.roles] == ["Master"]
    assert job.unit is RestartScope.GANG
    assert job.torchrun_environment
    assert job.policy.backoff_limit == 3
    assert job.policy.clean_pods is CleanPods.RUNNING
    assert job.roles[0].restart is Restart.NEVER
    assert job.roles[0].container.command == ("python", "train.py")
    assert job.roles[0].container.claims == Resources()
    assert found.manifest["metadata"]["generateName"] == "train-"


def test_every_field() -> None:
    (found,) = reading("""\
script: src/train.py --epochs 10 --note 'two words'
name: digits
workers: 4
gpu: 1
cpu: 500m
memory: 4Gi
data: s3://bucket/set
checkpoints: ./ck
retries: 5
env: {LR: "0.1"}
image: me/train
python: python3.12
""").jobs
    job = found.job
    master, worker = job.roles

    assert (job.name, found.script) == ("digits", "src/train.py")
    assert (master.replicas, worker.replicas) == (1, 3)
    assert master.pod == worker.pod
    assert worker.container.image == "me/train"
    assert worker.container.command == (
        "python3.12",
        "src/train.py",
        "--epochs",
        "10",
        "--note",
        "two words",
    )
    assert worker.container.claims == Resources(500, 4 * 2**30, {"nvidia.com/gpu": 1})
    assert worker.container.env == (
        EnvVar("BIREME_DATA", "s3://bucket/set"),
        EnvVar("BIREME_CHECKPOINTS", "./ck"),
        EnvVar("LR", "0.1"),
    )
    assert job.policy.backoff_limit == 5


@pytest.mark.parametrize(
    ("kind", "roles"),
    [
        ("PyTorchJob", {"master": 1, "worker": 2}),
        ("XGBoostJob", {"master": 1, "worker": 2}),
        ("TFJob", {"worker": 3}),
        ("JAXJob", {"worker": 3}),
        ("PaddleJob", {"worker": 3}),
        ("MPIJob", {"launcher": 1, "worker": 3}),
        ("Job", {"pod": 3}),
    ],
)
def test_every_kind_can_be_chosen(kind: str, roles: dict[str, int]) -> None:
    text = f"script: train.py\nworkers: 3\nkind: {kind}\ncpu: 1\n"
    job = job_of(text)

    assert job.kind is kind
    assert {role.name: role.replicas for role in job.roles} == roles
    assert job.unit is (RestartScope.REPLICA if kind == "Job" else RestartScope.GANG)
    assert job.torchrun_environment == (kind == "PyTorchJob")
    assert job.policy.backoff_limit == 3
    assert warnings(text) == []


def test_mpi_ranks_are_started_by_a_launcher_that_needs_nothing() -> None:
    launcher, worker = job_of("script: train.py\nworkers: 3\nkind: MPIJob\ncpu: 1\ndata: /d\n").roles

    assert launcher.container.command == ("mpirun", "-np", "3", "python", "train.py")
    assert launcher.container.claims == Resources()
    assert worker.container.command == ()
    assert worker.container.claims == Resources(cpu=1000)
    assert EnvVar("BIREME_DATA", "/d") in worker.container.env


def test_a_range_of_workers_starts_with_the_most_and_says_so() -> None:
    text = "script: train.py\nworkers: 2..8\n"
    job = job_of(text)

    assert job.total == 8
    assert job.annotations["bireme.io/elastic-min"] == "2"
    assert warnings(text) == [
        "job.yaml:2:1 workers: the job starts with 8 workers and keeps them: "
        "changing their number comes later"
    ]
    assert "bireme.io/elastic-min" not in job_of("script: train.py\nworkers: 3..3\n").annotations


def test_a_module_has_no_script_file() -> None:
    (found,) = reading("script: -m package.train --lr 1\n").jobs

    assert found.script is None
    assert found.job.name == "package"
    assert found.job.roles[0].container.command == ("python", "-m", "package.train", "--lr", "1")


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("Train_v2.py", "train-v2"),
        ("2nd.py", "nd"),
        ("../日本.py", "job"),
        ("a" * 80 + ".py", "a" * 40),
        ("---.py", "job"),
    ],
)
def test_a_job_is_named_after_its_script(script: str, name: str) -> None:
    assert job_of(f"script: '{script}'\n").name == name


@pytest.mark.parametrize(
    ("text", "diagnostic"),
    [
        ("script:\n", "job.yaml:1:8 script: is missing (write `script: train.py`)"),
        ("script: ''\n", "job.yaml:1:9 script: is missing (write `script: train.py`)"),
        ("script: 3\n", "job.yaml:1:9 script: wanted a text, found the number 3 (put it in quotes)"),
        (
            "script: train.py 'a\n",
            "job.yaml:1:9 script: it cannot be split into words: no closing quotation "
            "(close the quotation mark)",
        ),
        ("workers: 0\n", "job.yaml:2:10 workers: must be at least 1, found 0"),
        (
            "workers: '4'\n",
            "job.yaml:2:10 workers: wanted a whole number or a range such as 2..8, "
            'found the text "4" (put no quotes around a number)',
        ),
        (
            "workers: 8..2\n",
            'job.yaml:2:10 workers: a range begins with at least 1 and does not fall, found "8..2"',
        ),
        ("gpu: -1\n", "job.yaml:2:6 gpu: must be at least 0, found -1"),
        ("retries: 1.5\n", "job.yaml:2:10 retries: wanted a whole number, found the number 1.5"),
        (
            "kind: TFjob\n",
            "job.yaml:2:7 kind: must be one of PyTorchJob, TFJob, MPIJob, JAXJob, XGBoostJob, ",
        ),
        ("env: {A: 1}\n", "job.yaml:2:10 env[A]: wanted a text, found the number 1 (put it in quotes)"),
        ("env: {A=B: x}\n", 'job.yaml:2:6 env: Invalid value: "A=B": a valid environment variable name'),
        (
            "memory: 4GB\n",
            "job.yaml:2:9 memory: '4GB' has the unknown suffix 'GB'; write Gi for powers of 1024",
        ),
        ("name: My Job\n", "job.yaml:2:7 name: names have a-z, 0-9 and -; try my-job"),
        (f"name: {'a' * 60}\n", f'job.yaml:2:7 name: Invalid value: "{"a" * 57}'),
    ],
)
def test_what_is_refused_has_its_place_in_the_short_file(text: str, diagnostic: str) -> None:
    (found,) = refusal(text if text.startswith("script") else f"script: train.py\n{text}")

    assert found.startswith(diagnostic)


def test_unknown_fields_are_warned_about() -> None:
    assert warnings("script: train.py\nworker: 2\n") == [
        'job.yaml:2:1 worker: unknown field "worker", did you mean "workers"?'
    ]


# --- From the command line --------------------------------------------------------------------------------


def script_job(script: str, *args: str, workers: int = 1, name: str = "", memory: str = "") -> Job:
    manifest = short_form.from_script(script, args, workers=workers, name=name, memory=memory)
    (found,) = from_manifest(manifest, script=script).jobs
    return found.job


def test_a_script_with_options_equals_the_short_form() -> None:
    assert script_job("train.py", "--epochs", "10", workers=4, name="digits", memory="1Gi") == job_of(
        "script: train.py --epochs 10\nworkers: 4\nname: digits\nmemory: 1Gi\n"
    )


def test_arguments_of_a_script_are_kept_as_they_are() -> None:
    job = script_job("my train.py", "a b", "$HOME", "--x=")

    assert job.roles[0].container.command == ("python", "my train.py", "a b", "$HOME", "--x=")


def test_every_option_of_a_script() -> None:
    manifest = short_form.from_script(
        "train.py", (), name="x", workers=2, gpu=1, cpu="2", memory="1Gi", env={"A": "b"}, retries=0
    )

    job = from_manifest(manifest).jobs[0].job
    assert job.policy.backoff_limit == 0
    assert job.roles[1].container.claims == Resources(2000, 2**30, {"nvidia.com/gpu": 1})
    assert job.roles[1].container.env == (EnvVar("A", "b"),)


def test_a_bad_option_is_named() -> None:
    with pytest.raises(BadInput, match="--workers must be from 1 to 5000, got 0"):
        short_form.from_script("train.py", workers=0)
    with pytest.raises(BadInput, match="--memory: '4GB' has the unknown suffix 'GB'"):
        short_form.from_script("train.py", memory="4GB")
    with pytest.raises(BadInput, match="--cpu must not be negative, got -1"):
        short_form.from_script("train.py", cpu="-1")
    with pytest.raises(BadInput, match="--name A: names have a-z, 0-9 and -; try a"):
        short_form.from_script("train.py", name="A")
    with pytest.raises(BadInput, match='--env "": a valid environment variable name'):
        short_form.from_script("train.py", env={"": "x"})
    with pytest.raises(BadInput, match="the script has no name"):
        short_form.from_script("")


def test_checkpoints_in_a_claim_are_mounted_into_every_replica() -> None:
    (found,) = reading("script: train.py\nworkers: 2\ncheckpoints: pvc://work/runs/a\n").jobs
    made = found.manifest

    for role in made["spec"]["pytorchReplicaSpecs"].values():
        spec = role["template"]["spec"]
        (container,) = spec["containers"]
        assert spec["volumes"] == [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": "work"}}]
        assert container["volumeMounts"] == [
            {"name": "checkpoints", "mountPath": "/bireme/checkpoints", "subPath": "runs/a"}
        ]
        assert container["env"] == [{"name": "BIREME_CHECKPOINTS", "value": "/bireme/checkpoints"}]


@pytest.mark.parametrize("given", ["pvc://", "pvc:///runs", "pvc://Work"])
def test_a_claim_without_a_name_is_refused(given: str) -> None:
    (diagnostic,) = refusal(f"script: train.py\ncheckpoints: {given}\n")

    assert ":2:14 checkpoints: " in diagnostic
    assert "pvc://my-claim/some/folder" in diagnostic
