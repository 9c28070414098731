"""Another attempt is made where it can help: not for an error that cannot change, and anew after progress."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cli.commands import Cli, until

OPTIONS = """
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.parse_args()
"""
BROKEN = """
    import os
    print("never"
"""
MISSING = "import no_such_module_anywhere\n"
SAME = """
    raise ValueError("the labels have 11 classes, the model 10")
"""
GETS_FURTHER = """
    import bireme

    with bireme.init() as run:
        first = 10 * run.attempt
        for step in range(first, first + 5):
            run.report(step, loss=1.0)
        if run.attempt < 3:
            raise ValueError("again and again")
"""
CONFUSED = """
    import bireme

    with bireme.init() as run:
        if run.attempt == 0:
            run.save_now(0, weights=[1.0])
            run._checkpoints.wait()
            raise ConnectionResetError("once")
        run.restore(model=[1.0])
"""


def _shown(cli: Cli, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli("show", name, "--json").out)
    return found


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        (BROKEN, (), "SyntaxError: '(' was never closed"),
        (MISSING, (), "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        (OPTIONS, ("--", "--bogus"), "unrecognized arguments: --bogus"),
    ],
    ids=["syntax", "module", "options"],
)
def test_an_error_that_cannot_change_is_not_retried(
    cli: Cli, script: str, words: tuple[str, ...], said: str
) -> None:
    cli.write("train.py", script)

    done = cli("run", "train.py", "--workers", "2", "--name", "job", "--cold", *words)

    assert done.status == 1
    assert re.search(rf"rank [01] on \S+ failed: {re.escape(said)}", done.err), done.err
    shown = _shown(cli, "job")
    assert (shown["attempt"], shown["crashes"]) == (0, 1)
    assert re.fullmatch(rf"rank [01]: {re.escape(said)}.* \(1 attempt\)", shown["why"]), shown["why"]
    assert shown["why"][:40] in cli("ps", "--all").out


def test_a_module_that_does_not_exist_is_not_retried(cli: Cli) -> None:
    done = cli("run", "--name", "job", "--cold", "-m", "no_such_module_anywhere")

    assert done.status == 1
    assert _shown(cli, "job")["crashes"] == 1
    assert "No module named no_such_module_anywhere" in done.err


def test_an_error_that_comes_twice_is_not_retried_again(cli: Cli) -> None:
    cli.write("train.py", SAME)

    done = cli("run", "train.py", "--name", "job")

    assert done.status == 1
    assert "rank 0: ValueError: the labels have 11 classes, the model 10 (2 attempts)" in cli("ps", "-a").out
    assert _shown(cli, "job")["crashes"] == 2
    assert done.err.count("attempt 2 begins") == 1


def test_a_checkpoint_that_does_not_fit_is_complained_of_once(cli: Cli) -> None:
    cli.write("train.py", CONFUSED)

    done = cli("run", "train.py", "--name", "job")

    assert done.status == 1
    assert "model is not in checkpoint" in done.err
    assert _shown(cli, "job")["crashes"] == 2


def test_attempts_that_get_further_use_up_no_budget(cli: Cli) -> None:
    cli.write("train.py", GETS_FURTHER)

    done = cli("run", "train.py", "--name", "job", "--retries", "1")

    assert done.status == 0, done.err
    assert _shown(cli, "job")["crashes"] == 3
    assert [f"attempt {number} begins" in done.err for number in (2, 3, 4)] == [True] * 3


def test_ps_says_when_the_next_attempt_begins(cli: Cli) -> None:
    # Each one ends otherwise, so that it is tried again, after a pause that doubles.
    cli.write("train.py", "import os\nraise ValueError('attempt ' + os.environ['BIREME_ATTEMPT'])\n")
    name = cli.detached("train.py", "--retries", "5")

    pattern = re.compile(r"Restarting .*attempt ([2-6]) in [0-9.]+ s: rank 0: ValueError: attempt [0-4]")
    until("ps tells of the next attempt", lambda: pattern.search(cli("ps").out) is not None)

    cli("rm", "--yes", name)
