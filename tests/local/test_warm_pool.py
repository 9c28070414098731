"""Warm interpreters are shared by scripts, bounded in memory, and never waited for."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from bireme.backends.local.zygotes import Stable
from bireme.runtime import linux
from tests.local.harness import Bireme, json_of, until
from tests.local.test_rank import write

pytestmark = pytest.mark.skipif(not linux.AVAILABLE, reason="a zygote needs Linux")

MANY = 120
"""Files: as many make a package worth a warm interpreter."""


@pytest.fixture
def site(bireme: Bireme, tmp_path: Path) -> Path:
    """A folder of third-party packages, as pip makes it, which the ranks of this test can import."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    bireme.environ["PYTHONPATH"] = str(folder)
    return folder


def install(site: Path, name: str, source: str = "", requires: str = "") -> None:
    """Put a package with many modules where pip would put it."""
    package = site / name
    package.mkdir()
    write(package, "__init__", source)
    for number in range(MANY):
        write(package, f"part{number}", "")
    information = site / f"{name}-1.0.dist-info"
    information.mkdir()
    needed = f"Requires-Dist: {requires}>=1\n" if requires else ""
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needed}\n")


def run(bireme: Bireme, script: str, source: str, *options: str) -> bool:
    """Run a new script to its end; whether its rank was forked from a warm interpreter."""
    bireme.write(script, source)
    name = script.rpartition("/")[2].removesuffix(".py").replace("_", "-")
    done = bireme("run", script, "--name", name, *options)
    assert done.returncode == 0, done.stderr
    (warm,) = bireme.was_warm(name)
    return warm


def ready(bireme: Bireme, count: int) -> None:
    until(lambda: len(Stable(bireme.home).living()) == count, f"{count} zygotes are ready")


def test_a_new_script_is_forked_from_what_another_script_made_warm(bireme: Bireme, site: Path) -> None:
    install(site, "heavy")
    assert run(bireme, "first.py", "import heavy\n") is False
    ready(bireme, 1)

    assert run(bireme, "second.py", "import os, heavy\nprint(os.getpid())\n") is True
    ready(bireme, 1)


def test_ps_does_not_wait_for_an_interpreter_that_is_stopped(bireme: Bireme, site: Path) -> None:
    install(site, "heavy")
    run(bireme, "first.py", "import heavy\n")
    ready(bireme, 1)
    (zygote,) = Stable(bireme.home).living()
    bireme("ps")
    began = time.monotonic()
    bireme("ps")
    usual = time.monotonic() - began

    os.kill(zygote.pid, signal.SIGSTOP)
    began = time.monotonic()
    shown = json_of(bireme("ps", "--json"))
    took = time.monotonic() - began

    os.kill(zygote.pid, signal.SIGCONT)
    assert took < usual + 1.0
    assert [one["pid"] for one in shown["warm"]] == [zygote.pid]  # type: ignore[attr-defined]


def test_two_scripts_that_differ_in_light_modules_share_one_interpreter(bireme: Bireme, site: Path) -> None:
    install(site, "heavy")
    write(site, "light", "")
    run(bireme, "first.py", "import heavy\n")
    ready(bireme, 1)

    run(bireme, "second.py", "import heavy, light\n")
    run(bireme, "second.py", "import heavy, light\n")

    assert len(bireme.zygotes_in_the_making()) == 1
