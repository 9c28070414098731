"""An idle zygote has children forked in advance, and no script can tell that its rank was one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.runtime import linux
from bireme.runtime.zygote import zygote_state
from tests.local import zygotes
from tests.local.zygotes import Zygote, is_alive, wait_until


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[Zygote]:
    with zygotes.zygote(tmp_path / "z", "json") as started:
        wait_until(lambda: len(_spares(started)) == 1, "the zygote has a spare")
        yield started


def _spares(zygote: Zygote) -> list[int]:
    # Before it listens, a child tries out what is possible here.
    return list(linux.family(zygote.process.pid)) if os.path.exists(zygote.path) else []


def test_a_rank_is_the_spare_and_as_fresh_as_a_fork(tmp_path: Path, zygote: Zygote) -> None:
    spare = _spares(zygote)[0]
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, sys\n"
        "print(os.getpid() == os.getpgid(0) == os.getsid(0), sorted(os.listdir('/proc/self/fd'), key=int),\n"
        "      signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getsignal(signal.SIGTERM),\n"
        "      sys.stdin.read(), os.environ.get('SET'), 'json' in sys.modules)\n"
    )
    runner = zygote.connect()

    first, started = runner.start(tmp_path, "script.py", env={**os.environ, "SET": "here"})
    shown = first.out.read()
    assert runner.finish(first) == 0
    second, forked = runner.start(tmp_path, "script.py", env={**os.environ, "SET": "here"})

    assert started["pid"] == spare
    assert forked["pid"] != spare
    assert started["warm"]
    assert shown == second.out.read()
    runner.close()


def test_the_next_runner_finds_as_many_as_the_last_one_had_ranks(tmp_path: Path, zygote: Zygote) -> None:
    wanted = min(2, os.cpu_count() or 1)
    (tmp_path / "script.py").write_text("import signal\nsignal.pause()\n")
    runner = zygote.connect()
    for _ in range(2):
        runner.start(tmp_path, "script.py")

    runner.close()

    wait_until(lambda: len(_spares(zygote)) == wanted, "there are as many spares as there were ranks")


def test_a_spare_that_was_killed_costs_nothing_but_time(tmp_path: Path, zygote: Zygote) -> None:
    spare = _spares(zygote)[0]
    os.kill(spare, signal.SIGKILL)
    wait_until(lambda: not is_alive(spare), "the spare is gone")
    (tmp_path / "script.py").write_text("print('ran')\n")
    runner = zygote.connect()

    rank, _ = runner.start(tmp_path, "script.py")

    assert rank.out.read() == b"ran\n"
    assert runner.finish(rank) == 0
    runner.close()


def test_each_draws_numbers_of_its_own_though_forked_in_advance(tmp_path: Path, zygote: Zygote) -> None:
    (tmp_path / "script.py").write_text("import random\nprint(random.random())\n")
    runner = zygote.connect()

    ranks = [runner.start(tmp_path, "script.py")[0] for _ in range(2)]

    assert len({rank.out.read() for rank in ranks}) == 2
    runner.close()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_spares_end_with_their_zygote_and_leave_its_lock(tmp_path: Path, zygote: Zygote, how: int) -> None:
    spare = _spares(zygote)[0]

    zygote.process.send_signal(how)
    zygote.wait()

    wait_until(lambda: not is_alive(spare), "the spare is gone")
    with zygotes.zygote(tmp_path / "z", "json") as another:
        wait_until(lambda: len(_spares(another)) == 1, "another zygote serves at the same place")


def test_what_a_spare_holds_counts_as_its_zygotes(zygote: Zygote) -> None:
    shared = zygote_state.memory(zygote.process.pid)

    os.kill(_spares(zygote)[0], signal.SIGKILL)
    wait_until(lambda: not _spares(zygote), "the spare is gone")

    alone = zygote_state.memory(zygote.process.pid)
    assert 0.8 * alone < shared < 2 * alone
