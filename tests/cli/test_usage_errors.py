"""What a person mistypes is answered with what to type instead."""

from __future__ import annotations

import pytest

from tests.cli.commands import Cli

PLACEHOLDER = """
apiVersion: batch/v1
kind: Job
metadata: {name: x}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: a
        image: {your_image}:{tag}
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "ddp.py", "--name", "my_exp"], "names have a-z, 0-9 and -; try my-exp"),
        (["run", "-f", "good.yaml", "--name", "my_exp"], "names have a-z, 0-9 and -; try my-exp"),
        (["run", "-f", "named.yaml"], "named.yaml:2:7 name: names have a-z, 0-9 and -; try my-exp"),
        (["run", "ddp.py", "--name", "1st"], "names begin with a letter; try st"),
        (["run", "ddp.py", "--name", "exp-"], "names end with a letter or a digit; try exp"),
        (["run", "ddp.py", "--worker", "2"], "did you mean --workers? bireme run ddp.py --workers 2"),
        (["run", "--worker=2", "ddp.py"], "did you mean --workers? bireme run --workers=2 ddp.py"),
        (["run", "ddp.py", "-workers", "2"], "did you mean --workers? bireme run ddp.py --workers 2"),
        (
            ["run", "ddp.py", "--worker", "2", "--lr", "1"],
            "did you mean --workers? bireme run ddp.py --workers 2 -- --lr 1",
        ),
        (["run", "-f", "good.yaml", "--detatch"], "did you mean --detach? bireme run -f good.yaml --detach"),
        (["run", "python", "ddp.py"], "leave out python: bireme run ddp.py"),
        (
            ["run", "--workers", "2", "python3", "-u", "ddp.py", "--", "--lr", "1"],
            "leave out python3: bireme run --workers 2 ddp.py -- --lr 1",
        ),
        (["run", "python", "-m", "pkg.train"], "leave out python: bireme run -m pkg.train"),
        (
            ["run", "torchrun", "--nproc_per_node=2", "ddp.py"],
            "leave out torchrun: bireme run ddp.py --workers 2",
        ),
        (["run", "-f", "holder.yaml"], "{your_image} is a placeholder: fill it in, or quote it"),
        (["run", "-f", "holder2.yaml"], "{your_image} is a placeholder: fill it in, or quote it"),
    ],
)
def test_what_is_mistyped_is_answered_with_what_to_type(cli: Cli, words: list[str], told: str) -> None:
    cli.write("ddp.py", "")
    cli.write("good.yaml", "script: ddp.py\nname: good\n")
    cli.write("named.yaml", "script: ddp.py\nname: my_exp\n")
    cli.write("holder.yaml", PLACEHOLDER)
    cli.write("holder2.yaml", "script: ddp.py\nimage: {your_image}\n")

    done = cli(*words)

    assert done.status == 2, done.err
    assert told in done.err
    assert "DNS-1035" not in done.err
    assert cli.runs() == []


def test_bireme_alone_prints_the_help(cli: Cli) -> None:
    done = cli()

    assert (done.status, done.err) == (0, "")
    assert "Usage: bireme" in done.out
    assert done.out == cli("--help").out


def test_what_is_missing_is_said_to_be_missing(cli: Cli) -> None:
    cli.write("job.yaml", "apiVersion: kubeflow.org/v1\nkind: JAXJob\nmetadata: {name: x}\nspec: {}\n")

    done = cli("check", "-f", "job.yaml")

    assert done.status == 2
    assert "spec.jaxReplicaSpecs: is missing" in done.err


# A stand-in for Lightning, which takes ten seconds to import and is looked for by its name.
LIGHTNING = "class LightningModule: pass\nclass Trainer:\n    def fit(self, model): pass\n"


@pytest.mark.parametrize(
    "script",
    [
        "import pytorch_lightning as pl\npl.Trainer().fit(None)\n",
        "from pytorch_lightning import LightningModule\nclass Net(LightningModule): pass\n",
    ],
)
def test_copies_of_a_lightning_script_are_told_the_arguments_of_its_trainer(cli: Cli, script: str) -> None:
    (cli.folder / "pytorch_lightning").mkdir()
    cli.write("pytorch_lightning/__init__.py", LIGHTNING)
    cli.write("train.py", script)

    done = cli("run", "train.py", "--workers", "2")

    assert done.status == 0, done.err
    assert 'Trainer(devices=2, strategy="ddp")' in done.err
    assert "init_process_group" not in done.err


def test_copies_of_another_script_are_told_the_calls_of_torch(cli: Cli) -> None:
    cli.write("train.py", "print('alone')")

    done = cli("run", "train.py", "--workers", "2")

    assert "torch.distributed.init_process_group" in done.err


@pytest.mark.parametrize("option", ["--nproc_per_node 2", "--nproc-per-node=2", "-n 2", "--num_processes 2"])
def test_the_number_of_ranks_as_other_launchers_call_it_is_understood(cli: Cli, option: str) -> None:
    cli.write("ddp.py", "print()")

    done = cli("run", *option.split(), "ddp.py")

    assert done.status == 2
    assert "did you mean --workers? bireme run --workers" in done.err
