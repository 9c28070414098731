"""Readers of what a run reports and prints: logs, marked lines, records, checkpoints."""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy

from bireme import errors
from bireme.cli.render import render_checkpoints, render_jobs
from bireme.core.scripts import metric_patterns
from bireme.runs import run_checkpoints
from bireme.runs.logs import log_reader
from bireme.runs.logs.log_entries import (
    Stream,
)
from bireme.runs.logs.log_reader import LogSelection
from bireme.runs.logs.log_writer import (
    LogSettings,
    LogWriter,
)
from bireme.runs.metrics import metric_reader, progress_reader, tensorboard
from bireme.runs.metrics.metric_reader import MetricSource, Reported, RunMetrics
from bireme.runs.metrics.tensorboard import TensorboardWriter
from bireme.runtime.checkpoints.storage import checkpoint_format as checkpoint_layout
from bireme.runtime.records import log_echo, record_format, record_reader
from bireme.runtime.records.record_format import (
    FileOpened,
    Histogram,
    Image,
    Params,
    Scalars,
    ScalarsLayout,
    Text,
)
from bireme.runtime.script import notes
from bireme.sdk.checkpoint_names import CheckpointList
from tests.fuzz.harness import Target
from tests.fuzz.mutating import DEPTH, Tree, plain_json
from tests.unit.checkpoints.building import keeping

NOW = 1_800_000_000.0
DEEP = b"[" * DEPTH + b"]" * DEPTH


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
        lines = list(log_reader.read(folder / "logs"))
        assert all(render_jobs.moment(line.time) for line in lines)
        log_reader.tail(folder / "logs", 2)
        list(log_reader.read(folder / "logs", LogSelection(since=NOW + 1)))
        with log_reader.LogFollower(folder / "logs") as follower:
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
        metric_patterns.compiled(text)
        for text in ("loss", "val loss", r"(?P<name>\w+)=(?P<value>\S+) s=(?P<step>\S+)")
    )

    def read(data: bytes) -> None:
        source = MetricSource("worker-0")
        found = metric_patterns.picked(patterns, data.decode(errors="replace"))
        _followed(
            [Reported(source, (0, 0), Scalars(one.step or 0, NOW, {one.name: one.value})) for one in found]
        )

    return Target(
        "numbers in lines", samples, read, corpus=(b"loss=" + b"9" * 4000, b"loss=1 s=" + b"9" * 400)
    )


def marked_line(folder: Path) -> Target:
    """A line with a mark in a pod's log: what `bireme tensorboard` writes of it must stay in its folder."""
    who = log_echo.Reporter(0, 1, 0, "evaluator")
    records: list[Any] = [
        Scalars(3, NOW, {"loss": 0.5}),
        Text(3, NOW, "note", "hello"),
        Params(NOW, {"lr": 0.1, "x": [1]}),
    ]
    lines = [line for each in (who, who._replace(role="")) for line in log_echo.lines(each, records)]

    def read(data: bytes) -> None:
        _, found = log_echo.taken_apart(data.decode(errors="replace"))
        line = log_echo.read(found) if found else None
        who, records = line or (None, [])
        name = f"{who.role}-{who.rank}" if who is not None and who.role else "rank-0"
        reported = [Reported(MetricSource(name), (0, 0), record) for record in records]
        _followed(reported)
        board = TensorboardWriter(folder / "board" / "tensorboard", time, _Feed(reported))
        board.refresh()
        board.close()

    trees = tuple(json.loads(line.removeprefix(log_echo.MARK)) for line in lines)
    samples = tuple(line.encode() for line in lines)
    return Target(
        "marked line",
        samples,
        read,
        (errors.BiremeError,),
        trees,
        lambda tree: log_echo.MARK.encode() + plain_json(tree),
    )


def record_payload(folder: Path) -> Target:
    names = [record_format.encode_name(number, name) for number, name in enumerate(("loss", "accuracy"))]
    form = ScalarsLayout([0, 1])
    image = Image(4, NOW, "picture", b"\x89PNG" + bytes(40), 2, 2)
    payloads = (
        record_format.encode(FileOpened(NOW, 77)),
        *names,
        form.pack(form.head, 3, NOW, 0.5, 0.25),
        record_format.encode(Histogram(4, NOW, "weights", (1, 2), (0.0, 1.0, 2.0))),
        record_format.encode(image),
        record_format.encode(Text(5, NOW, "note", "hello")),
        record_format.encode(Params(NOW, {"lr": 0.1, "layers": [1, 2], "name": "x"})),
    )
    head = record_format.encode(Params(NOW, {}))[:-2]
    path = folder / metric_reader.FOLDER / record_reader.file_name(0, 0)
    path.parent.mkdir()

    def read(data: bytes) -> None:
        # With the right checksum: a frame that is damaged otherwise gets no further than that.
        path.write_bytes(record_format.MAGIC + b"".join(map(_framed, (*names, data, payloads[3]))))
        record_reader.RecordReader(str(path), leaves_out_large=True).read()
        progress_reader.of(folder)
        decoder = record_format.RecordDecoder()
        records = [decoder.decode(payload) for payload in (*names, data, payloads[3], data)]
        _followed(
            [Reported(MetricSource("rank-0", 0), (0, 0), record) for record in records if record is not None]
        )

    trees: tuple[Tree, ...] = ({"lr": 0.1, "layers": [1, 2], "name": "x"},)
    corpus = (head + b"[1, 2]", head + DEEP, head + b"1" * 5000, payloads[4][:1], payloads[5][:3])
    return Target("record payload", payloads, read, (), trees, lambda tree: head + plain_json(tree), corpus)


def record_file(folder: Path) -> Target:
    names = [record_format.encode_name(0, "loss")]
    form = ScalarsLayout([0])
    payloads = [
        record_format.encode(FileOpened(NOW, 77)),
        *names,
        *(form.pack(form.head, step, NOW, 0.5) for step in range(5)),
    ]
    sample = record_format.MAGIC + b"".join(map(_framed, payloads))
    path = folder / "records" / record_reader.file_name(0, 0)
    path.parent.mkdir()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        record_reader.RecordReader(str(path), leaves_out_large=True).read()
        RunMetrics(metric_reader.RecordFollower(path.parent)).refresh()

    longest = record_format.MAGIC + struct.pack("<II", 0, record_format.LARGEST) + b"short"
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
        place = run_checkpoints.where(folder)
        if "://" not in place:  # an object store would be asked
            run_checkpoints.listed(place)

    return Target("noted place", (path.read_bytes(),), read, (errors.BiremeError,))


TARGETS: tuple[Callable[[Path], Target], ...] = (
    log_file,
    numbers_in_lines,
    marked_line,
    record_payload,
    record_file,
    checkpoint_head,
    checkpoint_sheet,
    noted_place,
)


class _Feed:
    def __init__(self, reported: list[Reported]) -> None:
        self._reported = reported

    def poll(self) -> list[Reported]:
        return self._reported


def _followed(reported: list[Reported]) -> None:
    """Does with records what curves and TensorBoard do."""
    found = RunMetrics(_Feed(reported))
    found.refresh()
    for name in found.names():
        found.series(name)
    found.others()
    found.params()
    for one in reported:
        tensorboard.encode_event(one.record)


def _checkpoint(folder: Path) -> Path:
    with keeping(folder / "checkpoints") as saving:
        saving.save(3, {"model": {"weights": numpy.arange(4.0), "name": "x"}}, {"seed": 7}, {"loss": 0.5})
        saving.wait()
    (found,) = (folder / "checkpoints").glob("step-*")
    return found


def _listed(place: Path) -> None:
    msgspec.json.encode(run_checkpoints.listed(str(place)))
    found = CheckpointList("mnist", str(place), run_checkpoints.listed(str(place), verified=True))
    render_checkpoints.listed(found, NOW, None)


def _sealed(name: str, sample: bytes, read: Callable[[bytes], None]) -> Target:
    """Trees are given a right checksum: what is wrong with them is only what they say."""
    tree = json.loads(sample)["content"]

    def encode(tree: Tree) -> bytes:
        return checkpoint_layout.seal(tree)

    def sealed(body: bytes) -> bytes:
        return b'{"crc32": "%08x", "content": ' % zlib.crc32(body) + body + b"}\n"

    corpus = (
        sealed(DEEP),
        sealed(b"[]"),
        sealed(b"1"),
        sealed(b"{}"),
        sealed(b"\xff"),
        sealed(b'{"version": "\\ud800"}'),
    )
    return Target(name, (sample,), read, (errors.BiremeError,), (tree,), encode, corpus)


def _framed(payload: bytes) -> bytes:
    frame = record_format.FRAME.pack(zlib.crc32(payload), len(payload)) + payload
    return frame + bytes(-len(frame) % record_format.ALIGNMENT)
