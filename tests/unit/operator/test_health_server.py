"""Health and metrics are served where they are asked to be, and nowhere else; what cannot be had is named."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from bireme import errors
from bireme.cli.verbs.operator import command
from bireme.operator import health_server
from bireme.operator.health_server import Listens
from bireme.operator.metrics import Metrics
from bireme.operator.process import Options

HERE = "127.0.0.1"
ELSEWHERE = "127.0.0.2"
"""Another address of this machine, which a server on all interfaces would answer."""


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind((HERE, 0))
        sock.listen()
        yield sock.getsockname()[1]


def test_a_port_is_open_at_its_address_alone() -> None:
    async def story() -> None:
        with socket.socket() as free:
            free.bind((HERE, 0))
            port: int = free.getsockname()[1]
        async with health_server.metrics(Listens(HERE, port), Metrics()):
            _, writer = await asyncio.open_connection(HERE, port)
            writer.close()
            with pytest.raises(OSError):
                await asyncio.open_connection(ELSEWHERE, port)

    asyncio.run(story())


def test_an_operator_that_is_started_by_hand_is_reached_from_its_machine_alone() -> None:
    said = {one.name: one.default for one in command.params}

    assert (said["health_bind"], said["metrics_bind"]) == (HERE, HERE)
    assert Options().health.address == Options().metrics.address == HERE


@pytest.mark.parametrize("what", ["health", "metrics"])
def test_a_taken_port_is_named_with_its_flag(taken: int, what: str) -> None:
    with pytest.raises(errors.BadInput, match=f"port {taken} cannot be used") as caught:
        asyncio.run(_serve(what, Listens(HERE, taken)))

    assert f"--{what}-port 0" in caught.value.hint


@pytest.mark.parametrize("what", ["health", "metrics"])
@pytest.mark.parametrize("address", ["192.0.2.1", "no such address"])
def test_an_address_that_is_not_of_this_machine_is_named_with_its_flag(what: str, address: str) -> None:
    with pytest.raises(errors.BadInput, match=f"listen at {address}") as caught:
        asyncio.run(_serve(what, Listens(address, 8181)))

    assert f"--{what}-bind 127.0.0.1" in caught.value.hint


async def _serve(what: str, where: Listens) -> None:
    health = health_server.health(where, lambda: True, lambda: True)
    async with health if what == "health" else health_server.metrics(where, Metrics()):
        pass
