"""The agent in a launcher's pod: it stands in for ssh, through an API server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bireme.runtime.mpi import execsocket, kubexec
from tests.unit.kubernetes.execserver import V4, V5, ExecServer, certify, serving

HOST = "mnist-worker-1.mnist.ml.svc"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certify(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def account(tmp_path: Path, certificate: Path) -> Path:
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "ca.crt").write_bytes(certificate.read_bytes())
    (folder / "token").write_text("secret-token\n")
    (folder / "namespace").write_text("ml")
    return folder


@pytest.fixture(params=[(V5, V4), (V4,)], ids=["v5", "v4"])
def server(request: pytest.FixtureRequest, certificate: Path) -> Iterator[ExecServer]:
    given = ExecServer(request.param)
    with serving(given, certificate):
        yield given


@pytest.fixture
def newest(certificate: Path) -> Iterator[ExecServer]:
    given = ExecServer()
    with serving(given, certificate):
        yield given


def environment(port: int, account: Path, patience: float = 5.0) -> dict[str, str]:
    return {
        **os.environ,
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(port),
        kubexec.ACCOUNT_VARIABLE: str(account),
        kubexec.PATIENCE_VARIABLE: str(patience),
    }


def words(*given: str) -> list[str]:
    return [sys.executable, "-S", "-E", kubexec.__file__, "main", *given]


def run(
    server: ExecServer, account: Path, *given: str, stdin: bytes | None = None, patience: float = 5.0
) -> subprocess.CompletedProcess[bytes]:
    """Calls the agent as mpirun does, and waits for it."""
    return subprocess.run(
        words(*given),
        env=environment(server.port, account, patience),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=60,
    )


# What it relays.


def test_a_command_runs_in_the_pod_that_the_host_means(server: ExecServer, account: Path) -> None:
    done = run(server, account, HOST, "echo", "out;", "echo", "err", ">&2;", "exit", "3")

    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    (asked,) = server.requests
    assert asked.match_info["namespace"] == "ml"
    assert asked.match_info["pod"] == "mnist-worker-1"
    assert asked.query["container"] == "main"
    assert asked.headers["Authorization"] == "Bearer secret-token"


def test_a_command_that_ends_well_is_a_success(server: ExecServer, account: Path) -> None:
    assert run(server, account, HOST, "true").returncode == 0


def test_words_are_joined_for_a_shell_as_ssh_does(server: ExecServer, account: Path) -> None:
    done = run(
        server, account, "-x", "-o", "ConnectionAttempts=10", f"mpi@{HOST}", "A='1  2';", "echo", '"$A"'
    )

    assert done.stdout == b"1  2\n"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 3_000_000])
def test_input_arrives_whole_and_so_does_its_end(newest: ExecServer, account: Path, size: int) -> None:
    data = (b"\x00\xff" + bytes(range(251)))[: max(1, size)] * (size // 253 + 1)

    done = run(newest, account, HOST, "cat", stdin=data[:size])

    assert done.returncode == 0
    assert done.stdout == data[:size]


def test_without_input_none_is_asked_for(server: ExecServer, account: Path) -> None:
    done = run(server, account, HOST, "cat")

    assert done.returncode == 0
    assert "stdin" not in server.requests[0].query


def test_much_output_arrives_whole(server: ExecServer, account: Path) -> None:
    done = run(server, account, HOST, "head", "-c", "5000000", "/dev/zero")

    assert done.stdout == bytes(5_000_000)


# What it waits for.


@pytest.mark.parametrize(
    "refusal",
    [
        (404, 'pods "mnist-worker-1" not found'),
        (400, "pod mnist-worker-1 does not have a host assigned"),
        (500, "container not found"),
        (503, "the server is busy"),
        (403, "rights take a moment"),
        (0, 'container not found ("main")'),
    ],
)
def test_a_worker_that_is_not_there_yet_is_waited_for(
    newest: ExecServer, account: Path, refusal: tuple[int, str]
) -> None:
    newest.refusals = [refusal, refusal]

    done = run(newest, account, HOST, "echo", "there")

    assert (done.returncode, done.stdout) == (0, b"there\n")
    assert len(newest.requests) == 3


def test_workers_are_known_by_the_hostfile_whatever_its_form(tmp_path: Path) -> None:
    (tmp_path / "hostfile").write_text(
        "mnist-worker-0 slots=1\nmnist-worker-1:2\nmnist-worker-2.mnist.ml.svc:1\n"
    )

    assert kubexec.hosts(str(tmp_path)) == [f"mnist-worker-{index}" for index in range(3)]
    assert kubexec.hosts(str(tmp_path / "absent")) == []


# What it says when it cannot.


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (
            (404, 'pods "mnist-worker-1" not found'),
            "no pod mnist-worker-1 is there; is it a worker of this job?",
        ),
        (
            (403, "forbidden"),
            "the launcher may not start commands in mnist-worker-1: it may in the workers of its own job",
        ),
        ((401, "Unauthorized"), "the API server does not know the launcher: Unauthorized"),
        (
            (0, 'container not found ("main")'),
            "nothing runs in mnist-worker-1, which is Pending (ImagePullBackOff): "
            'container not found ("main"); '
            "see `kubectl describe pod mnist-worker-1`",
        ),
    ],
)
def test_patience_ends_with_a_sentence(
    newest: ExecServer, account: Path, refusal: tuple[int, str], sentence: str
) -> None:
    newest.refusals = [refusal] * 20

    done = run(newest, account, HOST, "true", patience=0.5)

    assert done.returncode == 255
    assert done.stderr.decode().startswith(f"bireme: {sentence}")


def test_what_cannot_pass_is_not_waited_for(newest: ExecServer, account: Path) -> None:
    newest.refusals = [(0, 'exec: "/bin/sh": stat /bin/sh: no such file or directory')] * 20

    done = run(newest, account, HOST, "true")

    assert done.returncode == 255
    assert b"no such file" in done.stderr
    assert len([one for one in newest.requests if "exec" in one.path]) == 1


def test_a_launcher_without_an_account_is_told_so(newest: ExecServer, account: Path) -> None:
    (account / "token").unlink()

    done = run(newest, account, HOST, "true", patience=0.1)

    assert done.returncode == 255
    assert b"remove automountServiceAccountToken: false from its template" in done.stderr


def test_a_server_that_does_not_answer_is_named(account: Path) -> None:
    absent = ExecServer()
    absent.port = 1

    done = run(absent, account, HOST, "true", patience=0.3)

    assert done.returncode == 255
    assert b"the API server at 127.0.0.1:1 does not answer" in done.stderr


def test_a_server_that_cannot_be_trusted_gets_no_token(
    newest: ExecServer, account: Path, tmp_path: Path
) -> None:
    (account / "ca.crt").write_bytes(certify(tmp_path).read_bytes())

    done = run(newest, account, HOST, "true", patience=0.3)

    assert done.returncode == 255
    assert b"certificate verify failed" in done.stderr
    assert newest.requests == []


def test_a_lost_connection_is_an_error_and_not_tried_again(newest: ExecServer, account: Path) -> None:
    newest.cuts_after_first_output = True

    done = run(newest, account, HOST, "echo begun; sleep 1; echo on")

    assert (done.returncode, done.stdout) == (255, b"begun\n")
    assert b"the connection to the command was lost: the node is going down" in done.stderr
    assert len([one for one in newest.requests if "exec" in one.path]) == 1


def test_a_host_must_be_named() -> None:
    done = subprocess.run(words("-o", "X=1"), capture_output=True)

    assert done.returncode == 255
    assert done.stderr.startswith(b"bireme: no host is named")


# Being told to stop.


@contextmanager
def started(server: ExecServer, account: Path, command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        words(HOST, command),
        env=environment(server.port, account),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_takes_the_command_along(
    server: ExecServer, account: Path, number: signal.Signals
) -> None:
    # One obeys, one has to be killed; the shell that started them is told nothing by its lost connection.
    stubborn = "(trap '' TERM INT; sleep 600)"
    with started(server, account, f"sleep 601 & echo up; {stubborn}") as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"up\n"
        mark = server.requests[0].query.getall("command")[2].partition(";")[0].removeprefix("export ")
        assert within(5, lambda: len(marked(mark)) >= 3)

        agent.send_signal(number)

        assert agent.wait(30) == 128 + number
    assert within(5, lambda: not marked(mark))


def marked(mark: str) -> list[str]:
    """The processes that carry the mark of a command."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes() and ") Z " not in (path.parent / "stat").read_text():
                found.append((path.parent / "cmdline").read_text())
        except OSError:
            continue
    return found


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.02)
    return False


# Frames.


def test_a_message_in_parts_is_put_together_around_a_ping() -> None:
    frames = execsocket.Frames(b"\x02\x02\x01a")
    frames.add(b"\x89\x01p")
    frames.add(b"\x00\x01b\x80\x01c\x82")
    frames.add(b"\x02\x02d")

    assert list(frames.complete()) == [(9, b"p"), (2, b"\x01abc"), (2, b"\x02d")]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 70000])
def test_a_frame_of_any_size_is_unmasked_to_what_it_was(size: int) -> None:
    payload = os.urandom(size)

    sent = execsocket.frame(2, payload)

    head = 2 if size < 126 else 4 if size < 65536 else 10
    mask, body = sent[head : head + 4], sent[head + 4 :]
    assert sent[0] == 0x82
    assert bytes(byte ^ mask[at % 4] for at, byte in enumerate(body)) == payload
