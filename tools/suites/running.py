"""Runs the suites of a plan, some at a time; each one's output goes to a file and is shown when it failed."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tools.suites.plans import Plan, Suite
from tools.suites.times import Times, clock

HEARTBEAT = 60.0
"""Seconds after which it is said again what runs: silence looks like a hang."""
SHOWN = 400
"""Lines of a failed suite that are shown; the file has all of them."""
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
_LAST = re.compile(
    r"^=*\s*(\d+ (?:passed|failed|skipped|deselected|error)[^=\n]*?)(?: in [\d.:ms() ]+)?=*$", re.M
)
_PROGRESS = re.compile(r"\[ *(\d+)%\]")


@dataclass(frozen=True)
class Ended:
    suite: Suite
    passed: bool
    seconds: float
    counts: Counter[str]


@dataclass
class _Running:
    suite: Suite
    process: subprocess.Popen[bytes]
    log: Path
    began: float


def run(plan: Plan, folder: Path, times: Times) -> list[Ended]:
    """The suites that ended. One that waits for a failed one never starts."""
    folder.mkdir(parents=True, exist_ok=True)
    began = told = time.monotonic()
    waiting, running, ended = list(plan.suites), list[_Running](), list[Ended]()
    try:
        while running or waiting:
            good = {one.suite.name for one in ended if one.passed}
            ready = [suite for suite in waiting if good.issuperset(suite.after)]
            for suite in ready[: plan.at_once - len(running)]:
                waiting.remove(suite)
                running.append(_start(suite, folder))
                print(f"{_at(began)} {suite.name} started", flush=True)
            if not running:
                break  # What is left waits for a suite that failed.
            time.sleep(0.2)
            for active in [one for one in running if one.process.poll() is not None]:
                running.remove(active)
                ended.append(_end(active, times, began))
            if time.monotonic() - told > HEARTBEAT:
                told = time.monotonic()
                print(f"{_at(began)} {', '.join(map(_progress, running))}", flush=True)
    finally:
        for active in running:
            # As Ctrl-C does: pytest then takes its clusters down.
            active.process.send_signal(signal.SIGINT)
        for active in running:
            active.process.wait()
    if len(ended) == len(plan.suites) and all(one.passed for one in ended):
        times.note(plan.title, time.monotonic() - began)
    return ended


def summary(plan: Plan, ended: list[Ended]) -> str:
    """One line for each suite, then the counts of all tests in the form that CI systems read."""
    rows = [
        f"{suite.name:10} {_verdict(next((one for one in ended if one.suite is suite), None))}"
        for suite in plan.suites
    ]
    counts = sum((one.counts for one in ended), Counter())
    failed = counts["failed"] + counts["error"] + counts["errors"]
    # A suite without tests, such as lint, counts as one.
    failed += sum(not one.passed and not one.counts for one in ended)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    return "\n".join(["", *rows, f"{counts['passed']} passed, {failed} failed{skipped}"])


def _start(suite: Suite, folder: Path) -> _Running:
    log = folder / f"{suite.name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            suite.command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
    return _Running(suite, process, log, time.monotonic())


def _end(active: _Running, times: Times, began: float) -> Ended:
    seconds = time.monotonic() - active.began
    text = active.log.read_text(errors="replace")
    last = _LAST.findall(text)
    counts = Counter({word: int(number) for number, word in _COUNT.findall(last[-1])} if last else {})
    ended = Ended(active.suite, active.process.returncode == 0, seconds, counts)
    print(f"{_at(began)} {active.suite.name} {_verdict(ended)}", flush=True)
    if ended.passed:
        times.note(active.suite.name, seconds)
    else:
        print(*text.splitlines()[-SHOWN:], f"({active.log} has all of it)", sep="\n", flush=True)
    return ended


def _verdict(ended: Ended | None) -> str:
    if ended is None:
        return "not run: what it waits for failed"
    counts = ", ".join(f"{number} {word}" for word, number in ended.counts.items())
    return (
        f"{'passed' if ended.passed else 'FAILED'} in {clock(ended.seconds)}{f': {counts}' if counts else ''}"
    )


def _progress(active: _Running) -> str:
    found = _PROGRESS.findall(active.log.read_text(errors="replace")[-4000:])
    return f"{active.suite.name} {found[-1]} %" if found else f"{active.suite.name} runs"


def _at(began: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    return f"{minutes:02}:{seconds:02}"
