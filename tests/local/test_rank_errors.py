"""What a rank tells of the error that ended it, in its report here and in its last words in a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bireme.backends.kubernetes.observe import termination_log
from bireme.core.restarts import permanent_errors
from bireme.model.replicas import Told
from bireme.runs import rank_reports
from tests.local.test_rank import RANK, SECONDS, run

CLICK = """
import click

@click.command()
def main():
    raise click.ClickException("tracking server did not answer")

main()
"""
BAD_OPTION = """
import click

@click.command()
def main():
    pass

main()
"""
ANGRY = """
import sys

class Angry(Exception):
    def format_message(self):
        raise RuntimeError("not now")

try:
    raise Angry
except Angry:
    sys.exit(3)
"""

TWO = """
import bireme
import os
import time

with bireme.init(every=1, checkpoints="ck") as run:
    for step in range(3):
        run.save(step, weights=[1.0])
    if run.rank == 1:
        run._checkpoints.wait()
        raise KeyError("label")
    while not os.path.exists("over"):
        time.sleep(0.05)
"""
LOOSE = """
import bireme

run = bireme.init(every=100, checkpoints="ck")
for step in range(8):
    run.save(step, weights=[1.0])
raise KeyError("label")
"""


def told(folder: Path, script: str, *words: str) -> tuple[Told, Told]:
    """What is known of the end of a script here and in a cluster."""
    (folder / "train.py").write_text(script)
    (folder / rank_reports.FOLDER).mkdir()
    log = folder / "termination-log"
    log.touch()
    report = folder / rank_reports.FOLDER / "w-0.0.json"
    run(folder, RANK, "train.py", *words, BIREME_REPORT=str(report), BIREME_LAST_WORDS=str(log))
    found = rank_reports.one(folder, "w-0", 0)
    assert found is not None, report.read_text()
    assert found.error is not None
    return found.error.told, termination_log.told(log.read_text())


def test_half_of_a_surrogate_pair_does_not_make_the_report_unreadable(tmp_path: Path) -> None:
    here, there = told(tmp_path, r"raise ValueError('bad \udcff and \U0001F600 well')")

    assert here.line == "ValueError: bad \ufffd and \U0001f600 well"
    assert there.line.startswith("ValueError: bad ")


@pytest.mark.parametrize(
    "message", ["NCCL error: Connection refused\nncclInternalError: check", "no\nImportError", "no\nHint: x"]
)
def test_lines_of_a_message_are_not_taken_for_the_error(tmp_path: Path, message: str) -> None:
    here, there = told(tmp_path, f"raise ValueError({message!r})")

    assert (there.type, there.message, there.place) == (here.type, here.message, here.place)
    assert (there.type, there.message) == ("ValueError", message)


def test_an_error_that_click_shows_is_no_wrong_usage(tmp_path: Path) -> None:
    for one in told(tmp_path, CLICK):
        assert (one.line, one.status) == ("tracking server did not answer", 1)
        assert not permanent_errors.is_unchanging(one)
        assert permanent_errors.signature(one) == ""


def test_an_option_that_click_does_not_know_is_wrong_usage(tmp_path: Path) -> None:
    for one in told(tmp_path, BAD_OPTION, "--bogus"):
        assert (one.line.startswith("No such option"), one.status) == (True, 2)
        assert permanent_errors.is_unchanging(one)


def test_an_option_that_argparse_does_not_know_is_wrong_usage(tmp_path: Path) -> None:
    for one in told(tmp_path, "import argparse\nargparse.ArgumentParser().parse_args()", "--bogus"):
        assert (one.line, one.status) == ("unrecognized arguments: --bogus", 2)
        assert permanent_errors.is_unchanging(one)


def test_a_parser_whose_words_cannot_be_had_does_not_hide_the_exit(tmp_path: Path) -> None:
    for one in told(tmp_path, ANGRY):
        assert (one.type, one.message, one.status) == ("SystemExit", "3", 3)


def test_a_status_that_no_process_can_have_is_left_out(tmp_path: Path) -> None:
    for one in told(tmp_path, "import sys\nsys.exit(10 ** 30)"):
        assert (one.type, one.status) == ("SystemExit", None)


def test_a_rank_that_falls_while_rank_0_lives_knows_how_far_the_run_has_come(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TWO)
    ranks = {}
    for rank in ("0", "1"):
        log = tmp_path / f"termination-log-{rank}"
        log.touch()
        env = {"RANK": rank, "WORLD_SIZE": "2", "BIREME_LAST_WORDS": str(log)}
        env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29417", LOCAL_RANK=rank)
        ranks[rank] = subprocess.Popen(
            [sys.executable, RANK, "train.py"], cwd=tmp_path, env={**os.environ, **env}
        )
    try:
        assert ranks["1"].wait(SECONDS) == 1
        assert ranks["0"].poll() is None
        one = termination_log.told((tmp_path / "termination-log-1").read_text())
    finally:
        (tmp_path / "over").touch()
        assert ranks["0"].wait(SECONDS) == 0

    assert (one.type, one.step, one.saved) == ("KeyError", 2, 2)


def test_a_script_that_does_not_close_its_run_tells_how_far_it_has_come(tmp_path: Path) -> None:
    _, there = told(tmp_path, LOOSE)

    assert (there.line, there.step) == ("KeyError: 'label'", 7)


def test_a_part_that_cannot_be_saved_is_complained_of_before_the_first_step(tmp_path: Path) -> None:
    script = 'import bireme\nrun = bireme.init(checkpoints="ck")\nrun.save(0, model=print)\n'
    _, there = told(tmp_path, script)

    assert there.step == -1
    assert permanent_errors.is_unchanging(there), there
