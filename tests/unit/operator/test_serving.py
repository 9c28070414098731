"""Health and metrics are served where they are asked to be, and nowhere else."""

from __future__ import annotations

import asyncio
import socket

import pytest

from bireme.cli.operator import command
from bireme.operator import serving
from bireme.operator.metrics import Metrics
from bireme.operator.running import Options
from bireme.operator.serving import Listens

ELSEWHERE = "127.0.0.2"
"""Another address of this machine, which a server on all interfaces would answer."""


def test_a_port_is_open_at_its_address_alone() -> None:
    async def story() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        async with serving.metrics(Listens("127.0.0.1", port), Metrics()):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            with pytest.raises(OSError):
                await asyncio.open_connection(ELSEWHERE, port)

    asyncio.run(story())


def test_an_operator_that_is_started_by_hand_is_reached_from_its_machine_alone() -> None:
    said = {one.name: one.default for one in command.params}

    assert (said["health_bind"], said["metrics_bind"]) == ("127.0.0.1", "127.0.0.1")
    assert Options().health.address == Options().metrics.address == "127.0.0.1"
