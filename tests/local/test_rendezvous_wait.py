"""An early rank waits for its master to listen, and for nothing else."""

from __future__ import annotations

import socket
import threading

from bireme.runtime.rank import rendezvous_wait


def test_a_port_is_heard_only_while_somebody_listens_there() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        before = rendezvous_wait.is_heard(port)
        server.listen()
        during = rendezvous_wait.is_heard(port)
    after = rendezvous_wait.is_heard(port)

    assert (before, during, after) == (False, True, False)


def test_waiting_ends_as_soon_as_somebody_listens() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        waiter = threading.Thread(
            target=rendezvous_wait.await_listener, args=(server.getsockname()[1],), daemon=True
        )

        waiter.start()
        waiter.join(timeout=0.2)
        waits = waiter.is_alive()
        server.listen()
        waiter.join(timeout=5)

    assert waits
    assert not waiter.is_alive()


def test_only_torch_is_made_to_wait() -> None:
    variables = {"RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}

    rendezvous_wait.before_answer(None, variables)  # It would not return for half a minute.
