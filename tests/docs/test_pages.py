"""The pages for newcomers are true: their commands run, and every verb and option that is named exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from bireme.cli.main import VERBS, bireme
from tests.docs.test_readme import ROOT
from tests.local.harness import PATIENCE, Bireme, bireme_in

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("docs/tutorial/*.md")])
ANYWHERE = {"--on", "--context", "--namespace", "--kubeconfig", "--help", "--version"}
NAMES_OF_TORCHRUN_ITSELF = {"TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS_TO_HANDLE"}
PRINT_ENVIRON = "import os\nprint(*('%s=' % name for name in sorted(os.environ)), sep='\\n')\n"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def commands(text: str) -> list[str]:
    """Every command of ours that stands in a code block or between backticks."""
    found = re.findall(r"^    (bireme .+)$|`(bireme [^`]+)`", text, flags=re.MULTILINE)
    whole = [re.sub(r"\s+# .*$", "", block or span) for block, span in found]
    return [
        part.strip()
        for line in whole
        for part in re.split(r"&&|\\?\|", line)
        if part.strip().startswith("bireme ")
    ]


def try_block(text: str) -> list[str]:
    """The first code block of a page, which a reader types."""
    block = re.search(r"\n\n((?:    .+\n)+)", text)
    assert block is not None
    return [line.strip() for line in block[1].splitlines()]


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_every_verb_and_option_that_a_page_names_exists(path: Path) -> None:
    for command in commands(path.read_text()):
        _, verb, *words = shlex.split(command)
        if verb in ("VERB", "--version") or "has no option" in command:
            continue
        assert verb in VERBS, command
        found = bireme.get_command(click.Context(bireme), verb)
        assert found is not None
        options = {name for option in found.params for name in (*option.opts, *option.secondary_opts)}
        if isinstance(found, click.Group):
            for each in found.commands.values():
                options |= {name for option in each.params for name in (*option.opts, *option.secondary_opts)}
        typed = words[: words.index("--")] if "--" in words else words
        named = {word.partition("=")[0] for word in typed if re.match(r"--?[a-z]", word)}
        assert named <= options | ANYWHERE, command


def test_the_contents_page_names_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)]+)\)", page("README.md")))
    here = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}

    assert here <= linked


@pytest.mark.frameworks
def test_a_script_prints_the_same_under_torchrun_and_under_bireme(tmp_path: Path) -> None:
    rival, ours = map(shlex.split, try_block(page("from-torchrun.md")))
    assert rival[:4] == ["torchrun", *TORCHRUN[3:]]

    theirs = subprocess.run(
        [*TORCHRUN, *rival[4:]], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE * 2, check=True
    )
    with bireme_in(tmp_path) as command:
        done = _typed(command, ours)

    assert [line.partition("] ")[2] for line in done.splitlines()] == theirs.stdout.splitlines() != []


@pytest.mark.frameworks
def test_a_rank_has_every_variable_that_torchrun_sets(tmp_path: Path) -> None:
    script = tmp_path / "environ.py"
    script.write_text(PRINT_ENVIRON)
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}

    theirs = subprocess.run(
        [*TORCHRUN, script], env=plain, capture_output=True, text=True, timeout=PATIENCE * 2, check=True
    )
    with bireme_in(tmp_path) as command:
        ours = command("run", str(script), "--workers", "2")

    expected = set(re.findall(r"\w+(?==)", theirs.stdout)) - plain.keys() - NAMES_OF_TORCHRUN_ITSELF
    names = "|".join(NAMES_OF_TORCHRUN_ITSELF)
    assert {"RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"} <= expected
    assert expected <= set(re.findall(r"\w+(?==)", ours.stdout))
    assert not re.search(names, ours.stdout)


@pytest.mark.frameworks
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["from-kubeflow.md", "from-slurm.md"])
def test_what_a_newcomer_types_first_works(tmp_path: Path, name: str) -> None:
    typed = try_block(page(name))

    with bireme_in(tmp_path) as command:
        for line in typed:
            _typed(command, shlex.split(line))

    assert len(typed) >= 3


def test_a_script_under_srun_knows_its_rank(tmp_path: Path) -> None:
    script = "import bireme\nwith bireme.init() as run: print(run.rank, run.local_rank, run.world_size)"
    named = re.findall(r"`(SLURM_\w+)`, `(SLURM_\w+)` and `(SLURM_\w+)`", page("from-slurm.md"))
    assert named == [("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")]

    played = {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "3",
        "SLURM_NTASKS": "4",
        "SLURM_LOCALID": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], **played},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )

    assert done.stdout.split() == ["3", "1", "4"]


def _typed(command: Bireme, words: list[str]) -> str:
    """Runs a command as a reader does, from the root of the checkout, and returns what it printed."""
    assert words[0] == "bireme"
    done = subprocess.run(
        [sys.executable, "-m", "bireme.cli", *words[1:]],
        cwd=ROOT,
        env=command.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE * 3,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("name", ["docs/design.md", "CONTRIBUTING.md"])
def test_every_file_of_the_tree_that_a_page_names_exists(name: str) -> None:
    paths = re.findall(r"`([a-z_]+/[a-z_/]*(?:\w+\.\w+)?)`", (ROOT / name).read_text())
    inside = ("local/", "cluster/", "verbs/", "render/", "client/", "objects/", "observe/", "submit/")

    gone = [path for path in paths if not path.startswith(inside) and not _exists(path)]

    assert gone == []


def _exists(path: str) -> bool:
    below = ("", "backends", "core")
    return (ROOT / path).exists() or any((ROOT / "src" / "bireme" / room / path).exists() for room in below)


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_a_page_uses_the_words_of_the_field(path: Path) -> None:
    prose = re.sub(r"`[^`]*`", "", path.read_text())
    odd = r"put aside|puts aside|go(?:es)? on\b|turned away|forgiv|carr(?:y|ies) on|somebody|nobody"

    assert re.findall(odd, prose, flags=re.IGNORECASE) == []
