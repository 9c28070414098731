"""A pipe is read whatever becomes of what was read, so that no program waits for its log."""

from __future__ import annotations

import asyncio
import os

from bireme.backends.local.pump import Pump

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
