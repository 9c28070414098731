"""Warm interpreters are shared by scripts, bounded in memory, and never waited for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.backends.local.warm.zygote_pool import ZygotePool
from bireme.runtime import linux
from tests.local.harness import Bireme, bireme_in, until
from tests.local.test_rank import write

pytestmark = pytest.mark.skipif(not linux.AVAILABLE, reason="a zygote needs Linux")

MANY = 120
"""Files: as many make a package worth a warm interpreter."""


@pytest.fixture
def site(bireme: Bireme, tmp_path: Path) -> Path:
    return site_of(bireme, tmp_path)


@pytest.fixture(scope="module")
def warmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    """A home in which one script has made the package `heavy` warm."""
    folder = tmp_path_factory.mktemp("warmed")
    with bireme_in(folder) as bireme:
        site = site_of(bireme, folder)
        install(site, "heavy", "NAME = 'installed'\n")
        install(site, "upper", "import heavy\n", requires="heavy")
        write(site, "light", "")
        assert run(bireme, "first.py", "import heavy\n") is False
        ready(bireme, 1)
        yield bireme


def site_of(bireme: Bireme, folder: Path) -> Path:
    """A folder of third-party packages, as pip makes it, which the ranks of this home can import."""
    site = folder / "site-packages"
    site.mkdir()
    bireme.environ["PYTHONPATH"] = str(site)
    return site


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
    until(lambda: len(ZygotePool(bireme.home).living()) == count, f"{count} zygotes are ready")


def test_a_new_script_is_forked_from_what_another_script_made_warm(warmed: Bireme) -> None:
    assert run(warmed, "second.py", "import os, heavy\nprint(os.getpid())\n") is True

    assert len(warmed.zygotes_in_the_making()) == 1


def test_two_scripts_that_differ_in_light_modules_share_one_interpreter(warmed: Bireme) -> None:
    run(warmed, "third.py", "import heavy, light\n")
    run(warmed, "third.py", "import heavy, light\n")

    assert len(warmed.zygotes_in_the_making()) == 1


@pytest.mark.parametrize(
    ("name", "source", "warm"),
    [
        ("uses", "import mine\nassert mine.NAME == 'installed'\n", True),
        ("stranger", "import sys\nassert 'heavy' not in sys.modules\n", False),
        ("needing", "import upper\nassert upper.heavy.NAME == 'installed'\n", True),
        ("hiding/hides", "import heavy\nassert heavy.NAME == 'mine'\n", False),
    ],
)
def test_a_new_script_finds_what_a_fresh_python_would_find(
    warmed: Bireme, name: str, source: str, warm: bool
) -> None:
    warmed.write("there/mine.py", "import heavy\nNAME = heavy.NAME\n")
    warmed.write("there/hiding/heavy.py", "NAME = 'mine'\n")

    assert run(warmed, f"there/{name}.py", source) is warm


def test_a_script_that_no_longer_imports_a_package_does_not_get_it(warmed: Bireme) -> None:
    assert run(warmed, "changes.py", "import heavy\n") is True

    assert run(warmed, "changes.py", "import sys\nassert 'heavy' not in sys.modules\n") is False


def test_nobody_waits_for_an_interpreter_that_is_stopped(bireme: Bireme, site: Path) -> None:
    install(site, "heavy")
    run(bireme, "first.py", "import heavy\n")
    ready(bireme, 1)
    (zygote,) = ZygotePool(bireme.home).living()
    os.kill(zygote.pid, signal.SIGSTOP)
    until(lambda: linux_state(zygote.pid) == "T", "it is stopped")
    before = sockets_of(zygote.pid)
    assert before >= 1

    bireme("ps")
    assert run(bireme, "second.py", "import heavy\n") is False

    # Nobody takes a connection off the queue of one that is stopped.
    assert sockets_of(zygote.pid) == before
    shown = bireme("ps", "--warm")
    assert "stopped" in shown.stdout
    assert f"kill -CONT {zygote.pid}" in shown.stderr
    assert ZygotePool(bireme.home).end() >= 1
    until(lambda: linux.process(zygote.pid) is None, "the stopped one is gone")


def test_all_of_them_hold_no_more_memory_than_they_may(bireme: Bireme, site: Path) -> None:
    bireme.environ["BIREME_WARM_MEMORY"] = "200Mi"
    for name in ("a", "b", "c"):
        install(site, f"heavy_{name}", "DATA = b'x' * (70 << 20)\n")
        run(bireme, f"{name}.py", f"import heavy_{name}\n")
        until(lambda name=name: (f"heavy_{name}",) in held(bireme), f"heavy_{name} is warm")  # type: ignore[misc]

    until(lambda: len(ZygotePool(bireme.home).every()) == 2, "the oldest has ended")

    assert held(bireme) == {("heavy_b",), ("heavy_c",)}
    assert sum(one.memory for one in ZygotePool(bireme.home).living()) <= 200 << 20


def test_one_that_is_larger_than_all_may_be_is_not_started_twice(bireme: Bireme, site: Path) -> None:
    bireme.environ["BIREME_WARM_MEMORY"] = "50Mi"
    install(site, "heavy", "DATA = b'x' * (70 << 20)\n")
    run(bireme, "first.py", "import heavy\n")
    until(lambda: bool(list(bireme.home.glob("zygotes/*/socket.refused"))), "it refuses to serve")
    until(lambda: not bireme.zygotes_in_the_making(), "it has ended")

    run(bireme, "first.py", "import heavy\n")

    assert not bireme.zygotes_in_the_making()


def test_a_package_that_makes_forking_unsafe_does_not_keep_the_others_cold(
    bireme: Bireme, site: Path
) -> None:
    install(site, "heavy")
    install(site, "unsafe", "import os\nRANK = os.environ.get('RANK')\n")
    run(bireme, "first.py", "import heavy, unsafe\n")
    until(lambda: bool(list(bireme.home.glob("zygotes/*/socket.refused"))), "one refuses to serve")

    run(bireme, "first.py", "import heavy, unsafe\n")

    ready(bireme, 1)
    assert held(bireme) == {("heavy",)}
    assert run(bireme, "first.py", "import heavy, unsafe\n") is True


def test_without_memory_there_is_no_warm_interpreter_and_a_bad_amount_is_refused(
    bireme: Bireme, site: Path
) -> None:
    install(site, "heavy")
    bireme.environ["BIREME_WARM_MEMORY"] = "0"
    run(bireme, "first.py", "import heavy\n")
    assert not bireme.zygotes_in_the_making()

    bireme.environ["BIREME_WARM_MEMORY"] = "lots"
    refused = bireme("run", "first.py")

    assert refused.returncode == 2
    assert "BIREME_WARM_MEMORY=lots" in refused.stderr
    assert "BIREME_WARM_MEMORY=2Gi" in refused.stderr


def sockets_of(zygote: int) -> int:
    """The listening socket of a zygote and every connection to it, whether it was accepted or not."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(f"/socket.{zygote}") for line in lines)


def linux_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def held(bireme: Bireme) -> set[tuple[str, ...]]:
    return {one.roots for one in ZygotePool(bireme.home).living()}
