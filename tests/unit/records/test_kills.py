"""Nothing that was reported is lost by a kill, a full disk or a torn file."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bireme.runtime.records import record_reader
from tests.unit.records.recorder_fixtures import Bench, losses

ROUNDS = int(os.environ.get("BIREME_SOAK_ROUNDS", "20"))
WRITER = """
import os, sys
from bireme.runtime.records.recorder import Recorder
recorder = Recorder(sys.argv[1], 0, 0, lambda sentence: print(sentence, flush=True))
"""


def _writer(folder: Path, program: str, *before: str) -> subprocess.Popen[str]:
    words = [*before, sys.executable, "-c", WRITER + program, str(folder)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_what_was_reported_before_a_kill_is_there(tmp_path: Path) -> None:
    program = "for step in range(1000): recorder.scalars(step, {'loss': 1.0})\nos.kill(os.getpid(), 9)"

    with _writer(tmp_path, program) as writer:
        assert writer.wait() == -signal.SIGKILL

    assert losses(tmp_path) == list(range(1000))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_kill_at_any_instant_loses_nothing_and_the_next_one_goes_on(tmp_path: Path, seed: int) -> None:
    program = (
        "step = int(sys.stdin.readline())\n"
        "while True:\n"
        "    recorder.scalars(step, {'loss': 1.0, f'x{step % 7}': 2.0})\n"
        "    os.write(1, b'%d\\n' % step)\n"
        "    step += 1\n"
    )
    randomly = random.Random(seed)
    begin = 0
    for _ in range(3):
        words = [sys.executable, "-c", WRITER + program, str(tmp_path)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdin
            assert writer.stdout
            writer.stdin.write(f"{begin}\n")
            writer.stdin.flush()
            for _ in range(randomly.randrange(1, 500)):
                writer.stdout.readline()
            writer.kill()
            said = [int(line) for line in writer.stdout]
        found = losses(tmp_path)
        assert found == list(range(len(found)))
        assert not said or len(found) > said[-1]
        begin = len(found)


@pytest.mark.parametrize("damage", ["cut", "flip", "garbage"])
def test_a_torn_tail_is_not_read_and_is_written_over(bench: Bench, damage: str) -> None:
    recorder = bench.recorder()
    for step in range(100):
        recorder.scalars(step, {"loss": 1.0})
    recorder.close()
    (path,) = bench.folder.iterdir()
    whole = path.read_bytes()
    if damage == "cut":
        path.write_bytes(whole[:-5])
    elif damage == "flip":
        path.write_bytes(whole[:-10] + bytes([whole[-10] ^ 4]) + whole[-9:])
    else:
        path.write_bytes(whole + b"\xff" * 1000)
    left = 100 if damage == "garbage" else 99

    assert losses(bench.folder) == list(range(left))
    again = bench.recorder()
    again.scalars(500, {"loss": 1.0})
    again.close()

    assert losses(bench.folder) == [*range(left), 500]


def test_a_file_cut_anywhere_is_read_as_far_as_it_is_whole(bench: Bench) -> None:
    recorder = bench.recorder()
    for step in range(20):
        recorder.scalars(step, {"loss": 1.0})
    recorder.close()
    (path,) = bench.folder.iterdir()
    whole = path.read_bytes()

    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        found = losses(bench.folder)
        assert found == list(range(len(found)))

    path.write_bytes(whole)
    assert losses(bench.folder) == list(range(20))


def test_a_file_may_not_grow_further(tmp_path: Path) -> None:
    program = (
        "import resource\n"
        "recorder.scalars(0, {'loss': 1.0})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "for step in range(1, 20_000): recorder.scalars(step, {'loss': 1.0})\n"
        "print(recorder.dropped)\n"
    )

    with _writer(tmp_path, program) as writer:
        told, dropped = writer.communicate()[0].splitlines()
        assert writer.returncode == 0

    assert told.endswith("File too large; training continues")
    kept = losses(tmp_path)
    assert kept == list(range(len(kept)))
    assert len(kept) == 20_000 - int(dropped) > 1000


def test_a_full_disk_stops_the_records_and_not_the_training(tmp_path: Path) -> None:
    if os.getuid() != 0 or shutil.which("unshare") is None or not _may_mount(tmp_path):
        pytest.skip("only root can make a small disk")
    program = (
        "import bireme.runtime.records.recorder as writing, shutil, time\n"
        "now = [0.0]\n"
        "recorder = Recorder(sys.argv[1] + '/m', 0, 0, lambda s: print(s, flush=True), lambda: now[0])\n"
        "filler = open(sys.argv[1] + '/filler', 'wb', buffering=0)\n"
        "recorder.scalars(0, {'loss': 1.0})\n"
        "try:\n"
        "    while True: filler.write(bytes(4096))\n"
        "except OSError: pass\n"
        "for step in range(1, 20_000): recorder.scalars(step, {'loss': 1.0, 'other': 2.0})\n"
        "assert recorder.dropped > 10_000, recorder.dropped\n"
        "filler.truncate(0)\n"
        "now[0] += writing.RETRY_AFTER\n"
        "recorder.scalars(20_000, {'loss': 1.0, 'other': 2.0})\n"
        "recorder.close()\n"
        "shutil.copytree(sys.argv[1] + '/m', sys.argv[2])\n"
    )
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    script = f'mount -t tmpfs -o size=2m none {disk} && exec "$@"'

    words = [sys.executable, "-c", WRITER + program, str(disk), str(copy)]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *words], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    refused, again = done.stdout.splitlines()
    assert refused.endswith("No space left on device; training continues")
    assert "kept again" in again
    found = losses(copy)
    assert found[-1] == 20_000
    assert found[:-1] == list(range(len(found) - 1))


def test_a_forked_process_reports_into_a_file_of_its_own(tmp_path: Path) -> None:
    program = (
        "recorder.scalars(0, {'loss': 1.0})\n"
        "child = os.fork()\n"
        "for step in range(1, 1000): recorder.scalars(step, {'loss': 1.0})\n"
        "if child: os.waitpid(child, 0)\n"
    )

    with _writer(tmp_path, program) as writer:
        assert writer.wait() == 0

    parent, child = record_reader.files(str(tmp_path))
    assert len(record_reader.RecordReader(parent.path).read()) == 1001
    assert len(record_reader.RecordReader(child.path).read()) == 1000


def _may_mount(folder: Path) -> bool:
    probe = folder / "probe"
    probe.mkdir()
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(probe)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
