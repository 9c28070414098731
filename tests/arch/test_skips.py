"""A test of Kubernetes, S3, MPI or a framework is not skipped where what it needs may be installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LESS

ROOT = Path(__file__).resolve().parents[2]
SKIPS = """
import pytest

def test_of_a_framework():
    pytest.importorskip("a_framework_that_nobody_has")
"""
MODULE_SKIPS = 'import pytest\npytest.skip("mpirun is not installed", allow_module_level=True)\n'


@pytest.mark.parametrize("text", [SKIPS, MODULE_SKIPS], ids=["test", "module"])
def test_a_skip_is_a_failure_where_everything_may_be_installed(tmp_path: Path, text: str) -> None:
    ended = _pytest(tmp_path, text)

    may_install = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("apt-get") is not None
    assert ended.returncode != 0 or not may_install
    assert ("allows skips" in ended.stdout) is may_install


def test_a_skip_is_allowed_to_people_who_want_less(tmp_path: Path) -> None:
    ended = _pytest(tmp_path, SKIPS, **{LESS: "1"})

    assert ended.returncode == 0, ended.stdout
    assert "1 skipped" in ended.stdout


def _pytest(folder: Path, text: str, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    words = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", str(folder)]
    environ = {name: value for name, value in os.environ.items() if name != LESS}
    environ |= {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **env}
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True)
