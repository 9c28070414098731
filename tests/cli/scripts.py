"""The scripts that tests run: plain Python, so that they need no framework."""

from __future__ import annotations

ALL_REDUCE = """
    import os
    import socket

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    value = rank + 1
    if rank == 0:
        with socket.create_server(address) as server:
            peers = [server.accept()[0] for _ in range(size - 1)]
        value += sum(int(peer.recv(100)) for peer in peers)
        for peer in peers:
            peer.sendall(str(value).encode())
    else:
        while True:
            try:
                peer = socket.create_connection(address)
                break
            except ConnectionRefusedError:
                pass
        peer.sendall(str(value).encode())
        value = int(peer.recv(100))
    print(f"rank {rank} of {size} has {value}")
"""

FAILS_ON_RANK_1 = """
    import os
    import time

    print("rank", os.environ["RANK"], "begins", flush=True)
    if os.environ["RANK"] == "1":
        raise ValueError("rank 1 does not want to")
    time.sleep(600)
"""

SLEEPS = """
    import time

    print("asleep", flush=True)
    time.sleep(600)
"""

TALKS = """
    import sys

    print("to stdout", flush=True)
    print("to stderr", file=sys.stderr, flush=True)
    print("arguments", *sys.argv[1:])
"""

ALONE = """
    print("nobody but me")
"""
