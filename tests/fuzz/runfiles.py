"""Readers of what lies in a run directory and in the home: status, journal, context, claims."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from bireme import errors
from bireme.backends.local.warm import zygote_files
from bireme.backends.local.warm.zygote_files import Lesson
from bireme.backends.local.warm.zygote_pool import ZygotePool
from bireme.cli.render import render_jobs
from bireme.model.decisions import Event, EventType
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import Condition, ConditionType, Counts, Retry, Sighting, Status
from bireme.runs import rank_reports, replica_journal
from bireme.runs.directory import RunDirectory
from bireme.runs.journal import Journal
from bireme.runs.ledger import Ledger
from bireme.runs.replica_journal import Began, Ended, Entry, Gone, Over, Ran
from bireme.runtime.zygote import zygote_state
from bireme.sdk.cluster.clusters import FILE as KNOWN_FILE
from bireme.sdk.cluster.clusters import Book, Known
from bireme.sdk.local import run_views
from tests.fuzz.harness import Target
from tests.fuzz.mutating import DEPTH, Tree, plain_json
from tests.unit.runs.run_fixtures import make_run

NOW = 1_800_000_000.0
DEEP = b"[" * DEPTH + b"]" * DEPTH

STATUS = Status(
    conditions=(
        Condition(ConditionType.CREATED, True, "Created", "it was created", NOW, NOW),
        Condition(ConditionType.FAILED, True, "Failed", "it failed", NOW + 9, NOW + 9),
    ),
    replicas={"Worker": Counts(1, 2, 3)},
    started=NOW,
    completed=NOW + 9,
    attempt=2,
    crashes=1,
    evictions=1,
    sightings={"mnist-worker-0": Sighting("uid-1", 1)},
    done=("mnist-worker-1",),
    retries={"": Retry(1, NOW)},
    waiting="for room",
    trouble="no such program",
)
JOURNAL: tuple[Entry, ...] = (
    Began("uid-1", "mnist-worker-0", "worker", 0, 0, NOW),
    Ran("uid-1", "main", 77, 12345, True, NOW + 1),
    Ended("uid-1", "main", 1, NOW + 2, "Error", "it said no"),
    Over("uid-1", ReplicaPhase.FAILED, 1, 0, NOW + 2),
    Gone("uid-1", NOW + 3),
    Began("uid-2", "mnist-worker-0", "worker", 0, 1, NOW + 3),
)


def status_file(folder: Path) -> Target:
    return _of_run(folder, "status.json", msgspec.json.encode(STATUS))


def desired_file(folder: Path) -> Target:
    run = _run(folder)
    return _of_run(folder, "job.json", (run.path / "job.json").read_bytes(), run)


def context_file(folder: Path) -> Target:
    run = _run(folder)
    return _of_run(folder, "context.json", (run.path / "context.json").read_bytes(), run)


def seen_file(folder: Path) -> Target:
    seen = Observation(
        (Replica("mnist-worker-0", "worker", 0, 0, "uid-1", ReplicaPhase.RUNNING, ready=True),)
    )
    return _of_run(folder, "seen.json", msgspec.json.encode(seen))


def report_file(folder: Path) -> Target:
    error = rank_reports.ReportedError("ValueError", "no\nway", "Traceback...", NOW)
    return _of_run(
        folder, "reports/mnist-worker-0.1.json", msgspec.json.encode(rank_reports.RankReport(True, error))
    )


def events_file(folder: Path) -> Target:
    run = _run(folder)
    run.append_events(
        [Event(EventType.WARNING, "Failed", "it failed"), Event(EventType.NORMAL, "x", "y")], NOW
    )
    return _of_run(folder, "events.jsonl", (run.path / "events.jsonl").read_bytes(), run)


def journal_file(folder: Path) -> Target:
    path = folder / "journal.jsonl"
    Journal[Entry](path, Entry).append(*JOURNAL)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        journal: Journal[Entry] = Journal(path, Entry)
        found = journal.read()
        for life in replica_journal.lives(found):
            msgspec.json.encode(replica_journal.left_behind(life))
            msgspec.json.encode(life)

    return _json_lines("journal", path.read_bytes(), read)


def index_and_claims(folder: Path) -> Target:
    """The list of runs, for which each file is read by itself, and which is rebuilt from the claims."""
    run = _run(folder)
    status = (run.path / "status.json").read_bytes()
    names = {"status.json": status, "claim.json": b"{}"}
    for name in ("job.json", "context.json"):
        names[name] = (run.path / name).read_bytes()
    ledger = Ledger(run.home)
    trees = [[name, json.loads(data)] for name, data in names.items()]

    def read(data: bytes) -> None:
        # The file's name comes first, so that one target changes all of them.
        name, _, content = data.partition(b"\n")
        known = name.decode("ascii", "replace") if name.decode("ascii", "replace") in names else "status.json"
        (run.path / known).write_bytes(content)
        ledger.runs()
        ledger.holders()
        (run.path / known).write_bytes(names[known])

    def encode(tree: Tree) -> bytes:
        name, content = tree if isinstance(tree, list) and len(tree) == 2 else ("job.json", tree)
        return (
            (name if isinstance(name, str) and name in names else "job.json").encode()
            + b"\n"
            + plain_json(content)
        )

    samples = tuple(name.encode() + b"\n" + data for name, data in names.items())
    return Target("index", samples, read, (errors.BiremeError,), tuple(trees), encode)


def known_clusters(folder: Path) -> Target:
    book, place = Book(folder), Known("kind", "team", "/tmp/kubeconfig", ("a", "b"))
    book.note(place, "mnist")
    path = folder / KNOWN_FILE

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for one in book.read():
            assert isinstance(one.is_lost, bool)
        book.note(place, "mnist")
        book.forget(place, "mnist")

    return Target("known clusters", (path.read_bytes(),), read, (), (json.loads(path.read_bytes()),))


def lesson(folder: Path) -> Target:
    stable = ZygotePool(folder)
    stable.learn("python", "train.py", Lesson(("torch", "numpy"), ("torch",)))
    (path,) = folder.glob("zygotes/lessons/*.json")

    def read(data: bytes) -> None:
        path.write_bytes(data)
        stable.learnt("python", "train.py")

    return Target("lesson", (path.read_bytes(),), read, (), (json.loads(path.read_bytes()),))


def zygote_folder(folder: Path) -> Target:
    """What a zygote says of itself; the process that it names is this one, so that it counts as living."""
    stable, inside = ZygotePool(folder), folder / "zygotes" / "key-digest"
    inside.mkdir(parents=True)
    zygote_state.write(
        str(inside / "socket.state"), ready=True, roots=("torch",), modules=("torch", "torch.nn")
    )
    (inside / "socket").touch()
    sample = (inside / "socket.state").read_bytes()
    assert [one.pid for one in stable.living()] == [os.getpid()]

    def read(data: bytes) -> None:
        for name in ("socket.state", "socket.reads", "socket.refused", "preload"):
            (inside / name).write_bytes(data)
        for one in stable.every():
            assert one.memory >= 0
        zygote_files.refusal(inside)
        zygote_files.reads(inside)

    return Target("zygote", (sample,), read, (), (json.loads(sample),))


TARGETS: tuple[Callable[[Path], Target], ...] = (
    status_file,
    desired_file,
    context_file,
    seen_file,
    report_file,
    events_file,
    journal_file,
    index_and_claims,
    known_clusters,
    lesson,
    zygote_folder,
)


def _run(folder: Path) -> RunDirectory:
    run, lock = make_run(folder / "home")
    lock.close()
    run.write_status(STATUS)
    (run.path / "reports").mkdir()
    Journal[Entry](run.journal_path, Entry).append(*JOURNAL)
    return run


def _of_run(folder: Path, name: str, sample: bytes, run: RunDirectory | None = None) -> Target:
    """One file of a run, as `bireme show` reads it."""
    run = run or _run(folder)

    def read(data: bytes) -> None:
        (run.path / name).write_bytes(data)
        view = run_views.view(run)
        msgspec.json.encode(view)
        render_jobs.shown(view, NOW)

    if name.endswith(".jsonl"):
        return _json_lines(name, sample, read)
    return Target(
        name,
        (sample,),
        read,
        (errors.BiremeError,),
        (json.loads(sample),),
        corpus=(DEEP, b'{"x":' + DEEP + b"}", sample.replace(b'"main":"main"', b'"main":"none"')),
    )


def _json_lines(name: str, sample: bytes, read: Callable[[bytes], None]) -> Target:
    tree = [json.loads(line) for line in sample.splitlines()]

    def encode(tree: Tree) -> bytes:
        return (
            b"".join(plain_json(line) + b"\n" for line in tree)
            if isinstance(tree, list)
            else plain_json(tree)
        )

    return Target(name, (sample,), read, (), (tree,), encode, (b'{"type":"began","uid":' + DEEP, DEEP))
