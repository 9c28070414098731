"""How does the machine reach a cluster that has no link to it: a socket here, a connection there.

The listening socket is made in the machine's network; then the process moves into the control plane's, where
it makes its connections. It runs as a plain script: no thread may have started when it moves.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import sys

CLONE_NEWNET = 0x40000000
CHUNK = 256 * 1024


def main(port: int, pid: int, target: int) -> None:
    listening = socket.create_server(("127.0.0.1", port), backlog=512)
    _move_into(pid)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(listening, target))


def _move_into(pid: int) -> None:
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"cannot enter the network of process {pid}")
    os.close(descriptor)


async def _serve(listening: socket.socket, target: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target, limit=CHUNK)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    server = await asyncio.start_server(connected, sock=listening, limit=CHUNK)
    async with server:
        await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # Each side ends when the other does; a broken connection is an end like any other.
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()
        await writer.wait_closed()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
