"""A marked line of a log is hostile input: whatever it says, nothing outside of the board is touched."""

from __future__ import annotations

import json
import math
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.runs.logs import log_metrics
from bireme.runs.logs.log_metrics import EchoedRecords
from bireme.runs.metrics import tensorboard
from bireme.runs.metrics.metric_reader import MetricSource, Reported, RunMetrics
from bireme.runs.metrics.tensorboard import TensorboardWriter
from bireme.runtime.records import log_echo
from bireme.runtime.records.log_echo import Reporter
from bireme.runtime.records.record_format import Params, Record, Scalars, Text

WHO = Reporter(0, 0, 0)


class Fed:
    """A feed of what is in lines."""

    def __init__(self, *lines: str) -> None:
        self._reader = EchoedRecords()
        self._lines = [*lines]

    def poll(self) -> list[Reported]:
        lines, self._lines = self._lines, []
        return [one for line in lines for one in self._reader.reported(line)]


def line(**changes: Any) -> str:
    """A line as a rank prints it, with some of it replaced."""
    point = [1, 1.0, {"loss": 0.5}]
    return json.dumps({"rank": 0, "attempt": 0, "start": 0, "role": "", "points": [point], **changes})


def below(folder: Path) -> list[str]:
    return sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file())


@pytest.mark.parametrize(
    "role", ["../../victim", "..", "{folder}/victim", "a/b", "A", "-a", "a\x00", "a" * 64, 7]
)
def test_a_role_that_is_a_path_deletes_and_writes_nothing(tmp_path: Path, role: object) -> None:
    victim = tmp_path / "victim-0"
    victim.mkdir()
    (victim / "events.out.tfevents.1.theirs").write_text("precious")
    before = below(tmp_path)
    written = role.format(folder=tmp_path) if isinstance(role, str) else role
    board = TensorboardWriter(tmp_path / "home" / "tensorboard", time, Fed(line(role=written)))

    board.refresh()

    assert [one for one in below(tmp_path) if not one.startswith("home/")] == before
    assert below(tmp_path / "home") == ["tensorboard/lock"]


@pytest.mark.parametrize("name", ["../victim", "..", ".", "", "/etc", "a/b", "a\\b\n"])
def test_a_board_refuses_a_source_that_is_no_folder_name(tmp_path: Path, name: str) -> None:
    class Hostile:
        def poll(self) -> list[Reported]:
            return [Reported(MetricSource(name), (0, 0), Scalars(1, 1.0, {"loss": 0.5}))]

    board = TensorboardWriter(tmp_path / "tensorboard", time, Hostile())

    board.refresh()

    assert below(tmp_path) == ["tensorboard/lock"]


def test_a_board_deletes_only_event_files_of_its_own(tmp_path: Path) -> None:
    theirs = tmp_path / "tensorboard" / "rank-0" / "events.out.tfevents.1.theirs"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("precious")
    first = TensorboardWriter(tmp_path / "tensorboard", time, Fed(line()))
    first.refresh()
    first.close()

    second = TensorboardWriter(tmp_path / "tensorboard", time, Fed(line()))
    second.refresh()

    assert theirs.read_text() == "precious"
    assert len(below(tmp_path / "tensorboard" / "rank-0")) == 2


def test_a_board_does_not_follow_a_link_out_of_its_folder(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "events.out.tfevents.1.bireme").write_text("precious")
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard" / "rank-0").symlink_to(victim)
    board = TensorboardWriter(tmp_path / "tensorboard", time, Fed(line()))

    board.refresh()

    assert below(victim) == ["events.out.tfevents.1.bireme"]
    assert (victim / "events.out.tfevents.1.bireme").read_text() == "precious"


@pytest.mark.parametrize("step", [10**30, 2**63, -1, 1e30, "1", True, None, [1]])
def test_a_step_that_is_no_step_does_not_end_the_reader(step: object) -> None:
    metrics = RunMetrics(
        Fed(line(points=[[step, 1.0, {"loss": 0.5}]]), line(points=[[2, 1.0, {"loss": 0.5}]]))
    )

    metrics.refresh()

    (series,) = metrics.series("loss")
    assert series.steps == (2,)


@pytest.mark.parametrize(
    "changes",
    [
        {"rank": -1},
        {"rank": 10**30},
        {"rank": 1.5},
        {"attempt": 2**63},
        {"start": -1},
        {"points": [[1, math.inf, {"loss": 0.5}]]},
        {"points": [[1, math.nan, {"loss": 0.5}]]},
        {"points": [[1, 10**400, {"loss": 0.5}]]},
        {"points": [[1, 1.0, {"loss": 10**400}]]},
        {"points": [[1, 1.0, {"loss\x1b[2J": 0.5}]]},
        {"points": [[1, 1.0, {"x" * 1000: 0.5}]]},
        {"points": [[1, 1.0, [["loss", 0.5]]]]},
        {"points": 5, "texts": [[1, 1.0, "a\u202e", "b"]]},
        {"points": [], "params": [[1.0, [["a", 1]]]]},
        {"points": [], "params": [[1.0, {"a": [[[[[[[[[[1]]]]]]]]]]}]]},
    ],
)
def test_numbers_and_names_out_of_bounds_are_left_out(changes: dict[str, Any]) -> None:
    assert Fed(line(**changes)).poll() == []


def test_a_line_nested_without_end_does_not_end_the_reader() -> None:
    deep = '{"rank": ' + "[" * 200_000 + "}"

    assert log_echo.read(deep) is None
    assert Fed(deep).poll() == []


def test_a_rank_that_makes_up_names_fills_neither_memory_nor_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_metrics, "MOST_SOURCES", 20)
    monkeypatch.setattr(log_metrics, "MOST_SERIES", 30)
    lines = [line(rank=rank) for rank in range(100)]
    lines += [line(points=[[1, 1.0, {f"made-up-{number}": 1.0}]]) for number in range(100)]
    feed = Fed(*lines)
    board = TensorboardWriter(tmp_path / "tensorboard", time, feed)

    board.refresh()

    assert len(list((tmp_path / "tensorboard").glob("rank-*"))) == 20
    data = next((tmp_path / "tensorboard" / "rank-0").iterdir()).read_bytes()
    assert data.count(b"made-up-") == 10


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_FIELDS = st.sampled_from(["rank", "attempt", "start", "role", "points", "texts", "params"])
_LINES = st.one_of(
    st.binary(max_size=300).map(lambda data: data.decode(errors="replace")),
    st.text(max_size=300).map(lambda text: '{"rank": ' + text + "}"),
    st.builds(lambda field, value: line(**{field: value}), _FIELDS, _JSON),
    st.builds(lambda field, value: line(**{field: [value, [1, 1.0, value], value]}), _FIELDS, _JSON),
    st.builds(
        lambda at, text: line()[:at] + text + line()[at + 1 :], st.integers(0, 90), st.text(max_size=3)
    ),
)


def check_that_nothing_is_touched(folder: Path, lines: list[str]) -> None:
    """Reads lines as hostile as they may be, into metrics and into a board."""
    board = TensorboardWriter(folder / "home" / "tensorboard", time, Fed(*(_echoed(one) for one in lines)))
    metrics = RunMetrics(Fed(*(_echoed(one) for one in lines)))

    board.refresh()
    metrics.refresh()
    board.close()

    for name in metrics.names():
        metrics.series(name)
    metrics.others()
    metrics.params()
    assert all(one.startswith("home/tensorboard/") for one in below(folder))
    assert all(one.count("/") <= 3 for one in below(folder))


def _echoed(line: str) -> str:
    return log_echo.taken_apart(f"{log_echo.MARK}{line}")[1] or line


@settings(max_examples=150, deadline=None)
@given(lines=st.lists(_LINES, max_size=6))
def test_whatever_a_pod_prints_does_no_harm(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_that_nothing_is_touched(Path(folder), lines)


_VALID = (
    line(),
    line(role="evaluator", points=[], texts=[[1, 1.0, "sample", "once"]]),
    line(points=[], params=[[1.0, {"rate": 0.1, "layers": [1, {"size": 2}]}]]),
)
_HOSTILE = (
    "../..",
    "/",
    "1e999",
    "9" * 400,
    "-1",
    "NaN",
    "null",
    "[" * 50,
    "{",
    '"',
    "\\u001b[2J",
    "\x00",
    "true",
    "\ud800",
)


def _mutated(chance: random.Random) -> str:
    """A line of which some pieces are cut out, doubled or replaced by hostile ones."""
    text = chance.choice(_VALID)
    for _ in range(chance.randint(1, 4)):
        begin = chance.randrange(len(text) + 1)
        end = min(len(text), begin + chance.randrange(6))
        piece = chance.choice((*_HOSTILE, text[begin:end] * 2, "", chr(chance.randrange(0x300))))
        text = text[:begin] + piece + text[end:]
    return text


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_hundred_thousand_hostile_lines_do_no_harm() -> None:
    for seed in range(100):
        chance = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            check_that_nothing_is_touched(Path(folder), [_mutated(chance) for _ in range(1000)])


_RECORDS: list[Record] = [
    Scalars(2**62, 1.7e9, {"loss": 0.5, "größe": math.inf}),
    Text(0, 1.7e9, "a/b", "line\nline"),
    Params(1.7e9, {"layers": [1, {"size": 2}], "rate": None}),
]


def test_what_an_honest_rank_reports_passes() -> None:
    lines = [
        one.removeprefix(log_echo.MARK) for one in log_echo.lines(Reporter(3, 1, 2, "evaluator"), _RECORDS)
    ]

    found = Fed(*lines).poll()

    assert {one.source.name for one in found} == {"evaluator-3"}
    assert all(tensorboard.encode_event(one.record) for one in found)
    assert tensorboard.is_folder_name("evaluator-3")
    assert len(found) == 4
