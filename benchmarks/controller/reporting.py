"""How are outcomes shown: one line for each contestant, and ratios with their goals."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

from benchmarks.controller.measuring import Outcome

Outcomes = Mapping[str, list[Outcome]]
_HEAD = (
    "contestant                                  jobs  first pod  pods made  pods run  jobs run  succeeded"
    "  requests/job   CPU s  peak MB  server CPU s"
)


def table(names: Mapping[str, str], outcomes: Outcomes) -> str:
    """Everything that was measured, as medians."""
    lines = [_HEAD]
    for word, results in outcomes.items():
        if not results:
            continue
        load = results[0].load
        shown = [_median(results, one) for one in _TIMES]
        times = f"{shown[0]:10.1f} {shown[1]:10.1f} {shown[2]:9.1f} {shown[3]:9.1f} {shown[4]:10.1f}"
        costs = f"{_median(results, lambda one: one.requests_per_job):13.2f} {_cpu(results):7.1f}"
        memory = f"{_median(results, lambda one: one.peak):8.0f}"
        server = f"{_median(results, lambda one: one.server_cpu):13.1f}"
        lines.append(f"{names[word]:<42} {load.jobs:5} {times} {costs} {memory} {server}")
    return "\n".join(lines)


def requests(names: Mapping[str, str], outcomes: Outcomes) -> str:
    """What each sent for one job, by verb and resource."""
    lines = []
    for word, results in outcomes.items():
        if results:
            jobs = results[0].load.jobs
            sent = ", ".join(
                f"{number / jobs:.2f} {what}" for what, number in sorted(results[0].requests.items())
            )
            lines.append(f"{names[word]:<42} {sent}")
    return "\n".join(["requests for one job:", *lines])


def goals(outcomes: Outcomes) -> str:
    """Our ratios to the ceilings and to the rival."""
    lines = []
    ours = outcomes.get("ours")
    if not ours:
        return ""
    mine = _rate(ours)
    for word, what, goal in (
        ("bare", "jobs Running, to bare pods and services", 1.5),
        ("requests", "jobs Running, to our requests sent bare", None),
    ):
        if outcomes.get(word):
            ratio = mine / _rate(outcomes[word])
            lines.append(_line(f"{what}: {ratio:.2f}x its time", goal, ratio <= (goal or 0), "at most"))
    for word, what, least in (
        ("defaults", "the rival's defaults need, for a job", 20.0),
        ("unlimited", "the rival unlimited needs, for a job", 1.5),
    ):
        if outcomes.get(word):
            ratio = _rate(outcomes[word]) / mine
            lines.append(_line(f"{what}: {ratio:.2f}x our time", least, ratio >= least, "at least"))
    if rival := outcomes.get("unlimited"):
        theirs, used = _cpu(rival), _cpu(ours)
        text = f"our CPU seconds to those of the rival unlimited: {used:.1f} to {theirs:.1f}"
        lines.append(_line(text, 1.0, used < theirs, "fewer than"))
    return "\n".join(lines)


def growth(loads: list[list[Outcome]]) -> str:
    """How our cost for one job changes with their number."""
    lines = ["our cost for one job:"]
    for results in loads:
        jobs = results[0].load.jobs
        lines.append(
            f"{jobs:6} jobs: {_rate(results) * 1000:6.1f} ms to Running,"
            f" {_cpu(results) / jobs * 1000:5.2f} ms of CPU (its start included),"
            f" {_median(results, lambda one: one.requests_per_job):5.2f} requests,"
            f" {_median(results, lambda one: one.peak):5.0f} MB at most"
        )
    return "\n".join(lines)


def _rate(results: list[Outcome]) -> float:
    """Seconds for one job: loads may differ, the slow rival gets fewer jobs."""
    return _median(results, lambda one: one.jobs_running / one.load.jobs)


def _cpu(results: list[Outcome]) -> float:
    return _median(results, lambda one: one.cpu)


def _median(results: list[Outcome], of: Callable[[Outcome], float]) -> float:
    return statistics.median(of(one) for one in results)


def _line(text: str, goal: float | None, met: bool, how: str) -> str:
    if goal is None:
        return text
    return (
        f"{text}   goal {how} {goal:g}{'x' if how != 'fewer than' else ' of it'} {'met' if met else 'MISSED'}"
    )


_TIMES: tuple[Callable[[Outcome], float], ...] = (
    lambda one: one.first_pod,
    lambda one: one.created,
    lambda one: one.pods_running,
    lambda one: one.jobs_running,
    lambda one: one.succeeded,
)
