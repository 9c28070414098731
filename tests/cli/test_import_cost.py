"""`bireme --help` and `import bireme` cost next to nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bireme
from tests.cli.commands import Cli

HEAVY = ("msgspec", "yaml", "asyncio", "sqlite3", "subprocess", "bireme.sdk", "bireme.runner")


def _loaded(program: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ended.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["explain", "no-room"]])
def test_what_needs_no_jobs_imports_nothing_heavy(words: list[str]) -> None:
    program = f"from bireme.cli.main import main\ntry: main({words!r})\nexcept SystemExit: pass"

    assert not _loaded(program) & set(HEAVY)


def test_a_script_is_run_without_reading_yaml() -> None:
    assert "yaml" not in _loaded("import bireme.cli.verbs.run, bireme.sdk.client")


@pytest.mark.parametrize("words", [["ps"], ["ps", "--all"], ["logs", "absent"], ["check", "-f", "absent"]])
def test_verbs_of_this_machine_need_nothing_of_a_cluster(words: list[str], tmp_path: Path) -> None:
    home = f"import os; os.environ['BIREME_HOME'] = {str(tmp_path)!r}"
    program = f"{home}\nfrom bireme.cli.main import main\ntry: main({words!r})\nexcept SystemExit: pass"

    loaded = _loaded(program)

    assert "aiohttp" not in loaded
    assert not any(name.startswith("bireme.backends.kubernetes") for name in loaded)


def test_a_script_is_run_without_the_modules_of_checkpoints(cli: Cli) -> None:
    cli.write("train.py", "print('trained')")

    done = cli("run", "train.py", "--workers", "1", PYTHONPROFILEIMPORTTIME="1")

    assert done.status == 0, done.err
    assert "| bireme.sdk" in done.err.replace(" ", "").replace("|", "| ")
    assert "bireme.runtime.checkpoints" not in done.err


def test_a_runner_needs_no_modules_of_checkpoints() -> None:
    loaded = _loaded("import bireme.runner.guard, bireme.runner.loop, bireme.runner.standby")

    assert not any(name.startswith("bireme.runtime.checkpoints") for name in loaded)


def test_importing_bireme_imports_nothing_at_all() -> None:
    before, after = _loaded("pass"), _loaded("import bireme")

    assert after - before == {"bireme"}


def test_the_package_alone_says_that_its_client_is_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "bireme").mkdir()
    source = Path(bireme.__file__).read_text()
    (tmp_path / "bireme" / "__init__.py").write_text(source)

    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from bireme import Client",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stderr.splitlines()[-1] == (
        "ImportError: bireme.Client starts and watches jobs, and Bireme is not installed in this interpreter "
        "(there is no module bireme.sdk): pip install bireme"
    )


def test_the_package_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Cleint'"):
        _ = bireme.Cleint  # type: ignore[attr-defined]
