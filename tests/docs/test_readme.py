"""Is the README true: its tour, command by command, and the files that it points to."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.harness import PATIENCE, bireme_in

ROOT = Path(__file__).resolve().parents[2]
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
            done = subprocess.run(
                command,
                shell=True,
                cwd=ROOT,
                env=bireme.environ,
                capture_output=True,
                text=True,
                timeout=PATIENCE * 2,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
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
