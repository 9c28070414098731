"""What a rank tells of the error that ended it, in its report here and in its last words in a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme.backends.kubernetes import lastwords
from bireme.core import unchanging
from bireme.model.replicas import Told
from bireme.runs import reports
from tests.local.test_rank import RANK, run

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


def told(folder: Path, script: str, *words: str) -> tuple[Told, Told]:
    """What is known of the end of a script here and in a cluster."""
    (folder / "train.py").write_text(script)
    (folder / reports.FOLDER).mkdir()
    log = folder / "termination-log"
    log.touch()
    report = folder / reports.FOLDER / "w-0.0.json"
    run(folder, RANK, "train.py", *words, BIREME_REPORT=str(report), BIREME_LAST_WORDS=str(log))
    found = reports.one(folder, "w-0", 0)
    assert found is not None, report.read_text()
    assert found.error is not None
    return found.error.told, lastwords.told(log.read_text())


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
        assert not unchanging.is_unchanging(one)
        assert unchanging.signature(one) == ""


def test_an_option_that_click_does_not_know_is_wrong_usage(tmp_path: Path) -> None:
    for one in told(tmp_path, BAD_OPTION, "--bogus"):
        assert (one.line.startswith("No such option"), one.status) == (True, 2)
        assert unchanging.is_unchanging(one)


def test_an_option_that_argparse_does_not_know_is_wrong_usage(tmp_path: Path) -> None:
    for one in told(tmp_path, "import argparse\nargparse.ArgumentParser().parse_args()", "--bogus"):
        assert (one.line, one.status) == ("unrecognized arguments: --bogus", 2)
        assert unchanging.is_unchanging(one)


def test_a_parser_whose_words_cannot_be_had_does_not_hide_the_exit(tmp_path: Path) -> None:
    for one in told(tmp_path, ANGRY):
        assert (one.type, one.message, one.status) == ("SystemExit", "3", 3)


def test_a_status_that_no_process_can_have_is_left_out(tmp_path: Path) -> None:
    for one in told(tmp_path, "import sys\nsys.exit(10 ** 30)"):
        assert (one.type, one.status) == ("SystemExit", None)
