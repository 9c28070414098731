"""Which ports can the ranks of a new attempt listen on."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Collection, Iterator

from bireme import errors

FIRST = 20000
LAST = 31999
"""Below the range from which systems take ports for outgoing connections (32768 and up)."""


def choose(count: int, taken: Collection[int], chance: random.Random | None) -> list[int]:
    """Returns free ports that are not in `taken`.

    It starts at the one that `chance` says, or at the first.
    """
    if count == 0:
        return []
    chosen: list[int] = []
    for port in _from_anywhere(chance):
        if port not in taken and is_free(port):
            chosen.append(port)
            if len(chosen) == count:
                return chosen
    raise errors.NoRoom(
        f"needs {count} ports, {len(chosen)} of {FIRST} to {LAST} are free",
        hint="`ss -tln` shows who listens",
    )


def is_free(port: int) -> bool:
    """Says whether a program could listen on this port now, on all interfaces and on the loopback alone."""
    return all(_binds(*where, port) for where in _PLACES)


_PLACES = (
    (socket.AF_INET, "0.0.0.0"),
    (socket.AF_INET, "127.0.0.1"),
    (socket.AF_INET6, "::"),
)


def _from_anywhere(chance: random.Random | None) -> Iterator[int]:
    start = FIRST if chance is None else chance.randint(FIRST, LAST)
    yield from range(start, LAST + 1)
    yield from range(FIRST, start)


def _binds(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError:  # a machine without IPv6
        return family == socket.AF_INET6
    with listener:
        # Without SO_REUSEADDR, so that a port with connections that still time out does not count as free:
        # not every framework sets that option.
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            return family == socket.AF_INET6 and not _is_in_use(error)
    return True


def _is_in_use(error: OSError) -> bool:
    return error.errno == errno.EADDRINUSE
