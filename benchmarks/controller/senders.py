"""Who sends bare requests: a process of its own, which sends what it is given over many connections.

python -m benchmarks.controller.senders PLAN
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.wire import Line

CONNECTIONS = 32


class Plan(Struct, frozen=True):
    """What is sent: the same requests for each job, with its own name and uid."""

    kubeconfig: str
    name: str
    uid: str
    requests: tuple[bytes, ...]
    jobs: tuple[tuple[str, str], ...]

    def save(self, path: Path) -> None:
        path.write_bytes(msgspec.msgpack.encode(self))

    def rendered(self) -> Iterator[bytes]:
        old_name, old_uid = self.name.encode(), self.uid.encode()
        for name, uid in self.jobs:
            new_name, new_uid = name.encode(), uid.encode()
            for one in self.requests:
                yield one.replace(old_name, new_name).replace(old_uid, new_uid)


def send(plan: Plan) -> list[str]:
    """Send everything and return what was refused."""
    lock = threading.Lock()
    requests = plan.rendered()
    refused: list[str] = []

    def work(line: Line) -> None:
        while True:
            with lock:
                one = next(requests, None)
            if one is None:
                return
            status, answer = line.send(one)
            if status >= 300:
                refused.append(f"{one.splitlines()[0].decode()}: {answer[:300].decode()}")

    lines = [Line(Path(plan.kubeconfig)) for _ in range(CONNECTIONS)]
    threads = [threading.Thread(target=work, args=(line,)) for line in lines]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return refused


def main() -> None:
    plan = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    if refused := send(plan):
        raise SystemExit(f"{len(refused)} requests were refused, such as {refused[0]}")


if __name__ == "__main__":
    main()
