"""Is the tutorial true: every stage runs, and marks exactly what is new in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.harness import Bireme, bireme_in

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tutorial"
PAGE = (FOLDER / "README.md").read_text()
STAGES = sorted(FOLDER.glob("stage*.py"))
MARK = "  # new"


@pytest.fixture(scope="module")
def bireme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    with bireme_in(tmp_path_factory.mktemp("tutorial")) as command:
        yield command


def lines(stage: Path) -> list[str]:
    """The lines of a stage below its title; how deep they are indented does not matter."""
    return [line.strip() for line in stage.read_text().splitlines()[1:] if line.strip()]


def test_there_are_five_stages_and_the_page_names_each() -> None:
    assert len(STAGES) == 5
    assert all(f"]({stage.name})" in PAGE for stage in STAGES)


@pytest.mark.parametrize("number", range(1, 5))
def test_a_stage_marks_what_is_new_and_nothing_else(number: int) -> None:
    before = {line.removesuffix(MARK) for line in lines(STAGES[number - 1])}

    for line in lines(STAGES[number]):
        assert line.endswith(MARK) == (line.removesuffix(MARK) not in before), line


@pytest.mark.frameworks
@pytest.mark.parametrize("stage", STAGES, ids=[stage.stem for stage in STAGES])
def test_a_stage_learns(bireme: Bireme, stage: Path) -> None:
    workers = "1" if stage == STAGES[0] else "2"

    done = bireme("run", str(stage), "--workers", workers)

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"accuracy: 0\.9\d", done.stdout), done.stdout
    for command in re.findall(rf"`bireme ((?:tensorboard|checkpoints) {stage.stem})`", PAGE):
        only = ("--logdir-only",) if command.startswith("tensorboard") else ()
        done = bireme(*command.split(), *only)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout.strip()
