"""Readers of what lies in a run directory and in the home: status, journal, logs, records, checkpoints."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy

from bireme import errors
from bireme.backends.local import entries
from bireme.backends.local.entries import Began, Ended, Entry, Gone, Over, Ran
from bireme.backends.local.zygotes import Stable
from bireme.cli import render_checkpoints, render_jobs
from bireme.core import picking
from bireme.model.decisions import Event, EventType
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import Condition, ConditionType, Counts, Retry, Sighting, Status
from bireme.runs import checkpoints, logreading, metrics, tfevents
from bireme.runs.boards import Board
from bireme.runs.directory import RunDirectory
from bireme.runs.journal import Journal
from bireme.runs.ledger import Ledger
from bireme.runs.logreading import Choice
from bireme.runs.logs import LogSettings, LogWriter, Stream
from bireme.runs.metrics import Metrics, Reported, Source
from bireme.runtime.checkpoints import layout as checkpoint_layout
from bireme.runtime.records import echoes, layout, reading
from bireme.runtime.records.layout import Form, Histogram, Image, Opened, Params, Scalars, Text
from bireme.runtime.script import notes
from bireme.sdk import evidence, history, viewing
from bireme.sdk.checkpoints import CheckpointList
from bireme.sdk.known import FILE as KNOWN_FILE
from bireme.sdk.known import Book, Known
from tests.fuzz.harness import Target
from tests.fuzz.mutating import DEPTH, Tree, plain_json
from tests.unit.checkpoints.building import keeping
from tests.unit.runs.making import make_run

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
    error = evidence.ReportedError("ValueError", "no\nway", "Traceback...", NOW)
    return _of_run(folder, "reports/mnist-worker-0.1.json", msgspec.json.encode(evidence.Report(True, error)))


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
        for known in entries.replay(list(found)).values():
            known.replica()
        msgspec.json.encode(history.lives(found))

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


def log_file(folder: Path) -> Target:
    writer = LogWriter(folder / "logs", "mnist-worker-0", "main", LogSettings(piece=40))
    for at, (stream, text) in enumerate(
        ((Stream.STDOUT, b"loss: 0.5\n"), (Stream.STDERR, b"10%\r20%\n" + b"x" * 99 + b"\n"))
    ):
        writer.feed(stream, text * 3, NOW + at)
    writer.close(NOW + 5)
    path = folder / "logs" / "mnist-worker-0" / "main.log"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        path.with_name("main.live").write_bytes(data[:200])
        lines = list(logreading.read(folder / "logs"))
        assert all(render_jobs.moment(line.time) for line in lines)
        logreading.tail(folder / "logs", 2)
        list(logreading.read(folder / "logs", Choice(since=NOW + 1)))
        with logreading.Follower(folder / "logs") as follower:
            follower.poll()
            follower.live()

    corpus = (
        b"2026-11-15T23:08:28nanZ stdout F x\n",
        b"2026-11-15T23:08:28infZ stdout F x\n",
        b"x" * (3 << 20),
    )
    return Target("log file", (path.read_bytes(),), read, (), corpus=corpus)


def numbers_in_lines(folder: Path) -> Target:
    samples = (
        b"step 10: loss=0.25 acc: 99%",
        b'{"loss": 1e-3, "step": 7}',
        b"Loss at iteration [12] is nan",
        b"epoch 3 val loss 1,234.5",
    )
    patterns = tuple(
        picking.compiled(text)
        for text in ("loss", "val loss", r"(?P<name>\w+)=(?P<value>\S+) s=(?P<step>\S+)")
    )

    def read(data: bytes) -> None:
        source = Source("worker-0")
        found = picking.picked(patterns, data.decode(errors="replace"))
        _followed(
            [Reported(source, (0, 0), Scalars(one.step or 0, NOW, {one.name: one.value})) for one in found]
        )

    return Target(
        "numbers in lines", samples, read, corpus=(b"loss=" + b"9" * 4000, b"loss=1 s=" + b"9" * 400)
    )


def marked_line(folder: Path) -> Target:
    """A line with a mark in a pod's log: what `bireme tensorboard` writes of it must stay in its folder."""
    who = echoes.Who(0, 1, 0, "evaluator")
    records: list[Any] = [
        Scalars(3, NOW, {"loss": 0.5}),
        Text(3, NOW, "note", "hello"),
        Params(NOW, {"lr": 0.1, "x": [1]}),
    ]
    lines = [line for each in (who, who._replace(role="")) for line in echoes.lines(each, records)]

    def read(data: bytes) -> None:
        _, found = echoes.taken_apart(data.decode(errors="replace"))
        line = echoes.read(found) if found else None
        who, records = line or (None, [])
        name = f"{who.role}-{who.rank}" if who is not None and who.role else "rank-0"
        reported = [Reported(Source(name), (0, 0), record) for record in records]
        _followed(reported)
        board = Board(folder / "board" / "tensorboard", _Feed(reported))
        board.refresh()
        board.close()

    trees = tuple(json.loads(line.removeprefix(echoes.MARK)) for line in lines)
    samples = tuple(line.encode() for line in lines)
    return Target(
        "marked line",
        samples,
        read,
        (errors.BiremeError,),
        trees,
        lambda tree: echoes.MARK.encode() + plain_json(tree),
    )


def record_payload(folder: Path) -> Target:
    names = [layout.encode_name(number, name) for number, name in enumerate(("loss", "accuracy"))]
    form = Form([0, 1])
    image = Image(4, NOW, "picture", b"\x89PNG" + bytes(40), 2, 2)
    payloads = (
        layout.encode(Opened(NOW, 77)),
        *names,
        form.pack(form.head, 3, NOW, 0.5, 0.25),
        layout.encode(Histogram(4, NOW, "weights", (1, 2), (0.0, 1.0, 2.0))),
        layout.encode(image),
        layout.encode(Text(5, NOW, "note", "hello")),
        layout.encode(Params(NOW, {"lr": 0.1, "layers": [1, 2], "name": "x"})),
    )
    head = layout.encode(Params(NOW, {}))[:-2]

    def read(data: bytes) -> None:
        decoder = layout.Decoder()
        records = [decoder.decode(payload) for payload in (*names, data, payloads[3], data)]
        _followed([Reported(Source("rank-0", 0), (0, 0), record) for record in records if record is not None])

    trees: tuple[Tree, ...] = ({"lr": 0.1, "layers": [1, 2], "name": "x"},)
    corpus = (head + b"[1, 2]", head + DEEP, head + b"1" * 5000)
    return Target("record payload", payloads, read, (), trees, lambda tree: head + plain_json(tree), corpus)


def record_file(folder: Path) -> Target:
    names = [layout.encode_name(0, "loss")]
    form = Form([0])
    payloads = [
        layout.encode(Opened(NOW, 77)),
        *names,
        *(form.pack(form.head, step, NOW, 0.5) for step in range(5)),
    ]
    sample = layout.MAGIC + b"".join(map(_framed, payloads))
    path = folder / "records" / reading.file_name(0, 0)
    path.parent.mkdir()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        reading.Reader(str(path), leaves_out_large=True).read()
        Metrics(metrics.Follower(path.parent)).refresh()

    longest = layout.MAGIC + struct.pack("<II", 0, layout.LARGEST) + b"short"
    return Target("record file", (sample,), read, corpus=(longest,))


def checkpoint_head(folder: Path) -> Target:
    """A checkpoint as `bireme checkpoints` lists it, with a head of any content."""
    head = _checkpoint(folder) / checkpoint_layout.HEAD

    def read(data: bytes) -> None:
        head.write_bytes(data)
        _listed(head.parents[1])

    return _sealed("checkpoint head", head.read_bytes(), read)


def checkpoint_sheet(folder: Path) -> Target:
    """The same with a sheet of any content, which its head has signed."""
    found = _checkpoint(folder)
    sheet = found / checkpoint_layout.sheet_file(0)
    head = json.loads((found / checkpoint_layout.HEAD).read_bytes())["content"]

    def read(data: bytes) -> None:
        sheet.write_bytes(data)
        head["ranks"]["0"] |= {"sheet_size": len(data), "sheet_crc": zlib.crc32(data)}
        (found / checkpoint_layout.HEAD).write_bytes(checkpoint_layout.seal(head))
        _listed(found.parent)

    return _sealed("checkpoint sheet", sheet.read_bytes(), read)


def noted_place(folder: Path) -> Target:
    notes.note_checkpoints(str(folder), str(folder / "elsewhere"))
    path = folder / "checkpoints.at"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        place = checkpoints.where(folder)
        if "://" not in place:  # an object store would be asked
            checkpoints.listed(place)

    return Target("noted place", (path.read_bytes(),), read, (errors.BiremeError,))


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
    stable = Stable(folder)
    stable.learn("python", "train.py", ("torch", "numpy"))
    (path,) = folder.glob("zygotes/lessons/*.json")

    def read(data: bytes) -> None:
        path.write_bytes(data)
        stable.learnt("python", "train.py")

    return Target("lesson", (path.read_bytes(),), read, (), (json.loads(path.read_bytes()),))


TARGETS: tuple[Callable[[Path], Target], ...] = (
    status_file,
    desired_file,
    context_file,
    seen_file,
    report_file,
    events_file,
    journal_file,
    index_and_claims,
    log_file,
    numbers_in_lines,
    marked_line,
    record_payload,
    record_file,
    checkpoint_head,
    checkpoint_sheet,
    noted_place,
    known_clusters,
    lesson,
)


class _Feed:
    def __init__(self, reported: list[Reported]) -> None:
        self._reported = reported

    def poll(self) -> list[Reported]:
        return self._reported


def _followed(reported: list[Reported]) -> None:
    """Does with records what curves and TensorBoard do."""
    found = Metrics(_Feed(reported))
    found.refresh()
    for name in found.names():
        found.series(name)
    found.others()
    found.params()
    for one in reported:
        tfevents.encode(one.record)


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
        view = viewing.view(run)
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
        corpus=(DEEP, b'{"x":' + DEEP + b"}"),
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


def _checkpoint(folder: Path) -> Path:
    with keeping(folder / "checkpoints") as saving:
        saving.save(3, {"model": {"weights": numpy.arange(4.0), "name": "x"}}, {"seed": 7}, {"loss": 0.5})
        saving.wait()
    (found,) = (folder / "checkpoints").glob("step-*")
    return found


def _listed(place: Path) -> None:
    msgspec.json.encode(checkpoints.listed(str(place)))
    found = CheckpointList("mnist", str(place), checkpoints.listed(str(place), verified=True))
    render_checkpoints.listed(found, NOW, None)


def _sealed(name: str, sample: bytes, read: Callable[[bytes], None]) -> Target:
    """Trees are given a right checksum: what is wrong with them is only what they say."""
    tree = json.loads(sample)["content"]

    def encode(tree: Tree) -> bytes:
        return checkpoint_layout.seal(tree)

    def sealed(body: bytes) -> bytes:
        return b'{"crc32": "%08x", "content": ' % zlib.crc32(body) + body + b"}\n"

    corpus = (sealed(DEEP), sealed(b"[]"), sealed(b"1"), sealed(b"{}"), sealed(b"\xff"))
    return Target(name, (sample,), read, (errors.BiremeError,), (tree,), encode, corpus)


def _framed(payload: bytes) -> bytes:
    frame = layout.FRAME.pack(zlib.crc32(payload), len(payload)) + payload
    return frame + bytes(-len(frame) % layout.ALIGNMENT)
