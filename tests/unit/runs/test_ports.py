"""Are the ports that ranks get really free."""

from __future__ import annotations

import random
import socket

import pytest

from bireme import errors
from bireme.runs import machine
from bireme.runs.machine import FIRST_PORT, LAST_PORT


def listener(host: str = "127.0.0.1", family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    one.bind((host, machine.choose_ports(1, (), random.Random())[0]))
    one.listen()
    return one


def test_ports_are_different_and_below_those_of_outgoing_connections() -> None:
    chosen = machine.choose_ports(50, (), random.Random(1))

    assert len(set(chosen)) == 50
    assert all(FIRST_PORT <= port <= LAST_PORT < 32768 for port in chosen)


def test_a_port_that_is_taken_is_not_chosen() -> None:
    first = machine.choose_ports(3, (), random.Random(1))

    assert set(machine.choose_ports(3, first, random.Random(1))).isdisjoint(first)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_somebody_listens_on_is_not_free(host: str) -> None:
    with listener(host) as one:
        assert not machine.is_free_port(one.getsockname()[1])
        port = one.getsockname()[1]

    assert machine.is_free_port(port)


def test_a_port_that_somebody_listens_on_for_ipv6_alone_is_not_free() -> None:
    try:
        one = listener("::1", socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with one:
        assert not machine.is_free_port(one.getsockname()[1])


def test_the_search_begins_anywhere_and_covers_everything() -> None:
    starts = {machine.choose_ports(1, (), random.Random(seed))[0] for seed in range(20)}

    assert len(starts) > 10
    everything = set(range(FIRST_PORT, LAST_PORT + 1))
    free = machine.choose_ports(1, (), random.Random(7))[0]
    assert machine.choose_ports(1, everything - {free}, random.Random(8)) == [free]


def test_too_few_ports_are_told() -> None:
    with pytest.raises(errors.NoRoom, match=f"needs 2 ports, 0 of {FIRST_PORT} to {LAST_PORT} are free"):
        machine.choose_ports(2, range(FIRST_PORT, LAST_PORT + 1), random.Random())
