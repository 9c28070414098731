"""Whatever is given to it: a clear sentence, exit status 2, nothing started, and never a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli import scripts
from tests.cli.commands import Cli

JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
          - {name: pytorch, image: x, command: [python, train.py]}
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run"], "there is nothing to run"),
        (["run", "absent.py"], "there is no script absent.py"),
        (["run", "tran.py"], "did you mean train.py?"),
        (["run", "."], "is a folder without a __main__.py"),
        (["run", "job.yaml"], "bireme run -f job.yaml"),
        (["run", "-f", "absent.yaml"], "there is no such file or folder"),
        (["run", "-f", "job.yaml", "train.py"], "both a manifest and train.py"),
        (["run", "-f", "job.yaml", "--workers", "2"], "--workers is for a script"),
        (["run", "train.py", "--workers", "0"], "--workers must be from 1"),
        (["run", "train.py", "--workers", "two"], "'two' is not a valid integer"),
        (["run", "train.py", "--memory", "4 GB"], "--memory"),
        (["run", "train.py", "--cpu", "-1"], "--cpu must not be negative"),
        (["run", "train.py", "--name", "Not_A_Name"], "--name"),
        (["run", "train.py", "--name", "x" * 64], "no more than 63"),
        (["run", "train.py", "--env", "NOVALUE"], "NOVALUE is not set here"),
        (["run", "train.py", "--env", "=x"], "--env NAME=VALUE"),
        (["run", "train.py", "--map", "relative=."], "begins with /"),
        (["run", "train.py", "--map", "/opt/app=./absent"], "there is no ./absent"),
        (["run", "-f", "job.yaml", "--map", "/=."], "the root of an image cannot be mapped as a whole"),
        (["run", "-f", "job.yaml", "--map", "//./=."], "the root of an image cannot be mapped as a whole"),
        (["run", "train.py", "--volume", "claim=./absent"], "mkdir -p ./absent"),
        (["run", "train.py", "--command", "python x.py"], "a script needs none"),
        (["run", "train.py", "--python", "/absent/python"], "there is no interpreter"),
        (["run", "-f", "job.yaml", "--command", "python 'x"], "cannot be split"),
        (["run", "train.py", "--lr", "0.1"], "bireme run train.py -- --lr 0.1"),
        (["show", "absent"], "there is no run absent"),
        (["show", "../../etc"], "is not the name of a run"),
        (["show"], "no job is named"),
        (["logs", "absent"], "there is no run absent"),
        (["wait", "absent"], "there is no run absent"),
        (["stop", "absent"], "there is no run absent"),
        (["resume", "absent"], "there is no run absent"),
        (["rm", "absent"], "there is no run absent"),
        (["scale", "absent", "worker=2"], "there is no run absent"),
        (["scale", "absent", "worker"], "ROLE=COUNT"),
        (["wait", "absent", "--timeout", "soon"], "is not a duration"),
        (["check"], "no manifest is given"),
        (["render", "absent.yaml"], "there is no such file or folder"),
        (["explain", "no-such"], "there is no error code"),
        (["completion", "tcsh"], "tcsh"),
        (["doctor", "--python", "/absent/python"], "there is no interpreter"),
        (["rnu"], "did you mean `bireme run`?"),
        (["rum", "train.py"], "did you mean `bireme run`?"),
        (["rmm", "train.py"], "did you mean `bireme rm`?"),
        (["run", "train.py", "--name", ""], "--name is empty"),
        (["run", "-f", "job.yaml", "--name", ""], "--name is empty"),
        (["train.py"], "bireme run train.py"),
        (["job.yaml"], "bireme run -f job.yaml"),
        (["--no-such"], "no such option"),
    ],
)
def test_what_cannot_be_used_is_told_in_a_sentence(cli: Cli, words: list[str], told: str) -> None:
    cli.write("train.py", scripts.ALONE)
    cli.write("job.yaml", JOB.replace("NAME", "mnist"))

    done = cli(*words)

    assert done.status == 2, done.err
    assert told in done.err
    assert done.err.startswith("bireme: ")
    assert len(done.err.splitlines()) <= 12
    assert "Traceback" not in done.err
    assert cli.runs() == []


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        ("", "the file is empty"),
        ("a:\n\tb: 1\n", "tab"),
        ("script: train.py\nscript: train.py\n", "job.yaml:2:1"),
        ("apiVersion: kubeflow.org/v1\nkind: TorchJob\n", "did you mean"),
        ("script: train.py\nworkers: -1\n", "workers"),
        ("script: train.py\ncpu: 2 cores\n", "cpu"),
        (JOB.replace("NAME", "Bad_Name"), "metadata.name"),
        (JOB.replace("replicas: 1", "replicas: 2").replace("NAME", "mnist"), "must be 1"),
        (JOB.replace("NAME", "x" * 60), "the pod name"),
    ],
)
def test_a_bad_manifest_is_refused_with_its_place(cli: Cli, manifest: str, told: str) -> None:
    cli.write("train.py", scripts.ALONE)
    (cli.folder / "job.yaml").write_text(manifest)

    for verb in ("run", "check", "render"):
        done = cli(verb, "-f", "job.yaml")

        assert done.status == 2, done.err
        assert told in done.err
        assert "job.yaml" in done.err
    assert cli.runs() == []


def test_more_gpus_than_there_are_is_no_room(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)

    done = cli("run", "train.py", "--gpu", "1000")

    assert done.status == 3
    assert "1000 GPUs" in done.err
    assert cli.runs() == []


def test_a_name_that_is_active_is_refused(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)
    cli.detached("train.py", "--name", "sleeper")

    done = cli("run", "train.py", "--name", "sleeper")

    assert done.status == 2
    assert "sleeper is still active" in done.err
    assert cli.runs() == ["sleeper#1"]


def test_a_home_that_is_a_file_is_told(cli: Cli) -> None:
    cli.write("home.txt", "")

    done = cli("ps", BIREME_HOME=str(cli.folder / "home.txt"))

    assert done.status == 2
    assert "is not a folder" in done.err


def test_a_damaged_run_is_told_and_can_be_removed(cli: Cli) -> None:
    broken = cli.home / "runs" / "broken" / "1"
    broken.mkdir(parents=True)
    for name in ("job.json", "status.json", "context.json"):
        (broken / name).write_text("[]")

    shown, listed, removed = cli("show", "broken"), cli("ps", "--all"), cli("rm", "broken")

    assert shown.status == 70
    assert "is damaged" in shown.err
    assert listed.status == 0
    assert (removed.status, cli.runs()) == (0, [])


def test_our_own_bug_is_a_sentence_and_keeps_its_traceback_in_a_file(cli: Cli) -> None:
    program = (
        "from bireme.cli import main as m; m.VERBS['boom'] = m.Verb('no_such_module', ''); m.main(['boom'])"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], env=cli.environ, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 70
    assert "this is a bug in Bireme: ModuleNotFoundError" in ended.stderr
    assert "Traceback" not in ended.stderr
    (kept,) = (cli.home / "bugs").iterdir()
    assert str(kept) in ended.stderr
    assert "Traceback" in kept.read_text()


@pytest.mark.parametrize("words", [["--env", "TOKEN=hunter2"], ["--env=TOKEN=hunter2"]])
def test_the_report_of_a_bug_holds_no_values_of_variables_and_is_private(cli: Cli, words: list[str]) -> None:
    program = (
        "from bireme.cli.unexpected_errors import bug_report; print(bug_report(ValueError('bad hunter2')))"
    )
    folder = cli.home / "bugs"
    folder.mkdir(parents=True)

    ended = subprocess.run(
        [sys.executable, "-c", f"import os; os.umask(0); {program}", "run", *words, "train.py"],
        env=cli.environ,
        capture_output=True,
        text=True,
        check=True,
    )

    (kept,) = folder.iterdir()
    assert "hunter2" not in kept.read_text() + ended.stdout
    assert "TOKEN" in kept.read_text()
    assert "train.py" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
