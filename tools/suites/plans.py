"""Which suites there are, in which order they start, and which ones wait for which."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from tools.suites.times import Times, clock

BIN = sys.executable.rpartition("/")[0]
PYTEST = (f"{BIN}/pytest", "-o", "cache_dir=.pytest_cache/{name}")
QUICK = "not slow and not soak and not frameworks"
"""Tests that need no more than Python: what the quick loop runs."""


@dataclass(frozen=True)
class Suite:
    """One process that passes or fails."""

    name: str
    command: tuple[str, ...]
    about: str
    after: tuple[str, ...] = ()
    """Suites that must have passed before this one starts."""


@dataclass(frozen=True)
class Plan:
    title: str
    suites: tuple[Suite, ...]
    """In the order in which they start, as far as what they wait for allows."""
    at_once: int = 2

    def introduction(self, times: Times) -> str:
        """What is about to happen, and how long it took here the last time."""
        took = times.plan(self.title)
        last = f"the last time it took {clock(took)} here" if took else "it was not run here before"
        rows = [f"  {suite.name:10} {suite.about}{_expected(times, suite)}" for suite in self.suites]
        return "\n".join([f"{self.title}, {self.at_once} suites at a time; {last}:", *rows])


def _expected(times: Times, suite: Suite) -> str:
    took = times.suite(suite.name)
    return f" ({clock(took)})" if took else ""


def _pytest(name: str, about: str, *paths: str, after: tuple[str, ...] = ()) -> Suite:
    words = tuple(word.format(name=name) for word in PYTEST)
    return Suite(name, (*words, *paths), about, after)


LINT = Suite("lint", ("make", "--no-print-directory", "lint"), "format, style, types, import layers")

_SCRIPT_SIDE = tuple(f"tests/unit/{name}" for name in ("checkpoints", "data", "records", "runs", "script"))

CHECK = Plan(
    "make check",
    (
        _pytest(
            "units",
            "the control logic, kinds, manifests, backends, architecture",
            "-m",
            QUICK,
            "tests/unit",
            "tests/arch",
            *(f"--ignore={path}" for path in _SCRIPT_SIDE),
        ),
        _pytest("script", "what a script and a run leave behind", "-m", QUICK, *_SCRIPT_SIDE),
        LINT,
        _pytest("simulation", "a thousand seeds of faulty schedules", "-m", QUICK, "tests/simulation"),
    ),
)

_PREPARE = ("nice", sys.executable, "-m", "tools.testcluster", "prepare")
_QUEUES = ("tests/cluster/test_kueue.py", "tests/cluster/test_gang_schedulers.py")

_ANYWHERE = (
    LINT,
    _pytest("simulation", "simulations of both backends", "tests/simulation"),
    _pytest(
        "unit", "units, architecture, fuzzing", "tests/unit", "tests/arch", "tests/fuzz", after=("install",)
    ),
    _pytest("local", "real processes on this machine", "tests/local", after=("install",)),
    _pytest(
        "faces", "command line, Python, docs", "tests/cli", "tests/sdk", "tests/docs", after=("install",)
    ),
    _pytest("examples", "every example with its framework", "tests/examples", after=("install",)),
)

TEST = Plan(
    "make test",
    (
        # Where nothing is built yet the builds take longest, and the tests of the cluster wait for them: they
        # come first, beside everything that needs no cluster.
        Suite("kubernetes", (*_PREPARE, "kubernetes"), "a Kubernetes for the tests, built once in 8 minutes"),
        Suite("install", ("make", "--no-print-directory", "frameworks"), "every framework, 7 GB, once"),
        _pytest(
            "cluster",
            "tests on a real Kubernetes",
            "tests/cluster",
            *(f"--ignore={path}" for path in _QUEUES),
            after=("kubernetes", "install"),
        ),
        *_ANYWHERE[:2],
        Suite(
            "schedulers",
            (*_PREPARE, "kueue", "scheduler-plugins", "volcano"),
            "Kueue and two gang schedulers, built once in 4 minutes",
            after=("kubernetes",),
        ),
        *_ANYWHERE[2:],
        _pytest("queues", "Kueue and gang schedulers", *_QUEUES, after=("schedulers", "install")),
    ),
)

LESS = Plan(
    "make test LESS=1",
    tuple(replace(suite, after=()) for suite in _ANYWHERE),
)
"""Installs and builds nothing: what is missing on this machine is skipped, and named."""

PLANS = {"check": CHECK, "test": TEST, "less": LESS}
