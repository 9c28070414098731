"""Who is measured: bare senders, our operator, and the rival with and without its limits."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from msgspec import Struct
from tools.testcluster import processes
from tools.testcluster.processes import Process

from benchmarks import trainingoperator
from benchmarks.controller.arena import Arena
from benchmarks.controller.recorder import Recording, Sent
from benchmarks.controller.senders import Plan
from benchmarks.rounds import BIN

Uids = dict[str, str]


class Contestant(Struct, frozen=True):
    """One who creates pods and services for jobs."""

    name: str
    define: Callable[[Arena], None]
    start: Callable[[Arena, Uids], AbstractContextManager[Process]]
    end: Callable[[Arena, Uids], AbstractContextManager[Process]] | None = None
    """Of bare senders: what they send when the pods succeed."""
    is_bare: bool = False


def everyone(recording: Recording) -> dict[str, Contestant]:
    """All contestants by the word that chooses them."""
    replicas = tuple(one for one in recording.starting if one.is_of_replicas)
    bare = "bare pods and services"
    ours_bare = "our requests sent bare"
    limits = "Training Operator, defaults"
    unlimited = "Training Operator, unlimited, 16 threads"
    rival = Arena.define_for_the_rival
    return {
        "bare": Contestant(bare, Arena.define_for_us, _bare(recording, replicas), is_bare=True),
        "requests": Contestant(
            ours_bare,
            Arena.define_for_us,
            _bare(recording, recording.starting),
            _bare(recording, recording.ending),
            is_bare=True,
        ),
        "ours": Contestant("bireme operator", Arena.define_for_us, _ours),
        "defaults": Contestant(limits, rival, _rival()),
        "unlimited": Contestant(unlimited, rival, _rival(*trainingoperator.UNLIMITED)),
    }


def operator(kubeconfig: str) -> list[str]:
    """The command of our operator."""
    words = [str(BIN / "bireme"), "operator", "--no-leader-elect", "--kubeconfig", kubeconfig]
    return [*words, "--health-port", "0", "--metrics-port", "0"]


@contextlib.contextmanager
def _ours(arena: Arena, uids: Uids) -> Iterator[Process]:
    process = processes.spawn("operator", operator(str(arena.kubeconfig)), arena.folder / "operator.log")
    try:
        yield process
    finally:
        processes.end([process])


def _rival(*flags: str) -> Callable[[Arena, Uids], AbstractContextManager[Process]]:
    def start(arena: Arena, uids: Uids) -> AbstractContextManager[Process]:
        log = arena.folder / "training-operator.log"
        return trainingoperator.started(arena.kubeconfig, arena.line, log, *flags)

    return start


def _bare(
    recording: Recording, sent: tuple[Sent, ...]
) -> Callable[[Arena, Uids], AbstractContextManager[Process]]:
    @contextlib.contextmanager
    def start(arena: Arena, uids: Uids) -> Iterator[Process]:
        plan = arena.folder / "plan"
        whole = tuple(one.whole for one in sent)
        Plan(str(arena.kubeconfig), recording.name, recording.uid, whole, tuple(uids.items())).save(plan)
        words = [sys.executable, "-m", "benchmarks.controller.senders", str(plan)]
        log = arena.folder / "senders.log"
        with log.open("w") as file:
            sender = subprocess.Popen(words, stdout=file, stderr=file)
        try:
            yield processes.identify("senders", sender.pid)
        except BaseException:
            sender.kill()
            raise
        finally:
            code = sender.wait(timeout=60)
        if code:
            raise SystemExit(f"the bare senders ended with {code}: {log.read_text()[-1000:]}")

    return start
