"""Is the README true: its tour, command by command, and the files that it points to."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import WORDS, Cli
from tests.cli.terminals import Terminal
from tests.local.harness import PATIENCE, Bireme, bireme_in

ROOT = Path(__file__).resolve().parents[2]
LOOKS = ("ps", "logs", "show", "checkpoints", "render")
"""The verbs that change nothing, so that they can be typed twice."""
FITS = ("ps", "show", "checkpoints")
"""Those whose words are all ours."""
README = (ROOT / "README.md").read_text()


def test_it_opens_with_what_bireme_is_and_then_exactly_two_commands() -> None:
    head, _, rest = README.partition("\n    ")
    commands = [line.split("#")[0].strip() for line in f"    {rest}".split("\n\n")[0].splitlines()]

    assert head.startswith("# Bireme\n\n")
    assert commands == ["make demo", "make test"]


def test_every_file_that_the_documents_link_to_exists() -> None:
    for page in (ROOT / "README.md", *ROOT.glob("*/*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def _type(bireme: Bireme, command: str, columns: int) -> None:
    """Types a command at a terminal of that width, as a reader does."""
    program, *words = shlex.split(command)
    assert program == "bireme"
    cli = Cli(bireme.home, ROOT)
    with Terminal(cli, *words, columns=columns, program=WORDS, **bireme.environ) as terminal:
        status = terminal.ended(PATIENCE * 2)
    assert status == 0, f"{command}\n{terminal.shown[-4000:]}"
    if words[0] in FITS:
        # A path and a name are never broken, so that they can be copied.
        lines = [line for line in terminal.shown.splitlines() if "/" not in line and "warm" not in line]
        assert all(len(line) <= columns for line in lines), f"{command}\n{terminal.shown}"


@pytest.mark.frameworks
@pytest.mark.timeout(900)
def test_the_tour_works_word_for_word(tmp_path: Path) -> None:
    missing = [one for one in ("mpirun",) if shutil.which(one) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed; `make frameworks` installs it")
    tour = README.partition("## Five minutes")[2].partition("\n## ")[0]
    commands = re.findall(r"^    (bireme .+)$", tour, flags=re.MULTILINE)
    python = "\n".join(re.findall(r"^    (.*)$", tour.partition("From Python:")[2], flags=re.MULTILINE))

    with bireme_in(tmp_path) as bireme:
        for command in commands:
            _type(bireme, command, columns=80)
            if command.split()[1] in LOOKS:
                _type(bireme, command, columns=40)
        done = subprocess.run(
            [sys.executable, "-c", python],
            cwd=ROOT,
            env=bireme.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.stdout.strip().endswith("Succeeded"), done.stdout + done.stderr

    assert len(commands) >= 10
