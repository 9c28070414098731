"""A pipe is read whatever becomes of what was read, so that no program waits for its log."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from bireme.backends.local.log_pump import LogSink, Pump, drain
from bireme.runs.logs.log_writer import (
    LogWriter,
)
from bireme.runs.storage.disk_room import DiskRoom

PATIENCE = 30.0


def test_a_sink_that_fails_does_not_stop_the_reading() -> None:
    taken: list[bytes] = []

    def sink(data: bytes) -> None:
        taken.append(data)
        if len(taken) == 1:
            raise OSError("the log is not there")

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)
        pump = Pump(sink)
        os.write(pump.write_end, b"first")
        async with asyncio.timeout(PATIENCE):
            while len(taken) < 1:
                await asyncio.sleep(0)
            os.write(pump.write_end, b"second")
            while len(taken) < 2:
                await asyncio.sleep(0.001)
        pump.started()
        pump.finish()

    asyncio.run(story())

    assert taken == [b"first", b"second"]


def test_a_process_that_escaped_and_writes_for_ever_does_not_hold_the_end_up() -> None:
    taken = 0

    async def story() -> None:
        def sink(data: bytes) -> None:
            nonlocal taken
            taken += len(data)
            os.write(pump.write_end, data)  # there is always more

        pump = Pump(sink)
        os.write(pump.write_end, b"x" * 4096)
        pump.finish()
        pump.started()

    asyncio.run(story())

    assert taken > 0


def test_a_log_that_cannot_be_written_to_its_end_does_not_end_the_runner(tmp_path: Path) -> None:
    taken: list[bytes] = []

    def refuse(data: bytes) -> None:
        raise ValueError("not enough values to unpack")

    async def story() -> None:
        writer = LogWriter(tmp_path, "worker-0", "main")
        sink = LogSink(writer, DiskRoom(tmp_path, time), lambda: None, time)
        first, second = Pump(refuse), Pump(taken.append)
        for one in (first, second):
            os.write(one.write_end, b"last words")
            one.started()
        drain((first, second), sink)

    asyncio.run(story())

    assert taken == [b"last words"]
