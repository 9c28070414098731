"""Lines for people and what ranks reported come out of one log, each as what it is."""

from __future__ import annotations

from aiohttp import web

from bireme.backends.kubernetes import pod_logs
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.pod_logs import ECHO, LogPosition, LogSource
from bireme.runs.logs.log_reader import LogLine
from bireme.runtime.records import log_echo
from bireme.runtime.records.log_echo import Reporter
from bireme.runtime.records.record_format import Scalars
from tests.unit.kubernetes_client.server import run, serving

SOURCE = LogSource("ns", "train-master-0", "uid", "pytorch", "train-master-0")


def echo(step: int) -> str:
    (line,) = log_echo.lines(Reporter(0, 0, 0), [Scalars(step, float(step), {"loss": 0.5})])
    return line


def read(log: list[str], mark: LogPosition) -> tuple[list[LogLine], list[str]]:
    """What is read of a log, and how many lines were asked for each time."""
    asked: list[str] = []
    stamped = [f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z {line}" for second, line in enumerate(log)]

    async def handler(request: web.Request) -> web.StreamResponse:
        tail = request.query.get("tailLines", "")
        asked.append(tail)
        lines = stamped[-int(tail) :] if tail else stamped
        return web.Response(text="".join(f"{line}\n" for line in lines))

    async def story() -> list[LogLine]:
        async with serving(handler) as where, Api(where) as api:
            return await pod_logs.read(api, SOURCE, mark)

    return run(story()), asked


def for_people(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines if line.stream != ECHO]


def test_what_was_reported_is_taken_out_of_the_lines() -> None:
    lines, _ = read(["begin", echo(1), f"50% |###  |{echo(2)}", "", "end"], LogPosition())

    assert for_people(lines) == ["begin", "50% |###  |", "", "end"]
    told = [log_echo.read(line.text) for line in lines if line.stream == ECHO]
    assert [one[1][0].step for one in told if one and isinstance(one[1][0], Scalars)] == [1, 2]


def test_the_last_lines_are_the_last_ones_for_people() -> None:
    log = ["the traceback", "the error", *(echo(step) for step in range(300))]

    lines, asked = read(log, LogPosition(last=2))

    assert for_people(lines) == ["the traceback", "the error"]
    assert asked == ["2", "8", "32", "128", "512"]


def test_a_log_without_echoes_is_asked_for_once() -> None:
    lines, asked = read([str(number) for number in range(100)], LogPosition(last=3))

    assert for_people(lines) == ["97", "98", "99"]
    assert asked == ["3"]


def test_no_lines_are_asked_for_where_none_are_wanted() -> None:
    mark = LogPosition(last=0)

    assert read(["a", "b"], mark)[1] == ["0"]
