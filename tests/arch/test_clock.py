"""Time and chance are arguments: only entry points read a clock or draw a random number.

What waits for a lock or a process counts its own pauses, so sleeping is no reading. The runtime is apart: it
runs in the user's process, which has no entry point of ours.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import bireme

ROOT = Path(bireme.__file__).parent

CLOCKS = {
    "time": {"clock_gettime", ""}
    | {
        f"{name}{unit}"
        for name in ("time", "monotonic", "perf_counter", "process_time")
        for unit in ("", "_ns")
    },
    "datetime": {"now", "utcnow", "today"},
    "random": {"random", "randint", "randrange", "choice", "shuffle", "uniform", "SystemRandom", "seed", ""},
    "secrets": {"token_hex", "token_bytes", "token_urlsafe", "choice", "randbelow", ""},
    "uuid": {"uuid1", "uuid4", ""},
    "os": {"urandom", "getrandom"},
}
"""What reads a clock or draws, by module; the empty name is the module itself, given away as a value."""

ENTRY_POINTS = {
    "cli": "a command that a person typed",
    "sdk": "a call of the user's program",
    "runner/guard.py": "the process that runs a job here",
    "operator/process.py": "the process that runs the jobs of a cluster",
}

APART = {
    "runs/runner_log.py": "stamps the lines of a log for people, as a logging library does",
}
"""What still reads one below the cluster's entry points, and why."""


def test_only_entry_points_read_a_clock_or_draw() -> None:
    reads = {path: list(_reads(ROOT / path)) for path in _modules()}
    allowed = {*ENTRY_POINTS, *APART}

    found = [f"{path}:{line} {what}" for path, all_reads in reads.items() for line, what in all_reads]
    unexpected = [
        one for one in found if not any(one.startswith((f"{name}/", f"{name}:")) for name in allowed)
    ]

    assert not unexpected, "give it a `Clock` or a `Random` instead"


def test_nothing_is_allowed_that_reads_none() -> None:
    allowed = {*ENTRY_POINTS, *APART}

    idle = {
        name
        for name in allowed
        if not any(
            list(_reads(ROOT / path)) for path in _modules() if path == name or path.startswith(f"{name}/")
        )
    }

    assert not idle


def test_every_way_to_read_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "import time, random as chance\nfrom datetime import datetime\nfrom time import monotonic as now\n"
        "a = time.time()\nb = serve(time)\nc = datetime.now()\nd = chance.Random(1)\ne = now()\n"
        "time.sleep(1)\ndef f(clock=time.monotonic): ...\n"
        "g = time.strftime('%S')\nh = time.strftime('%S', then)\n"
    )

    assert [line for line, _ in _reads(path)] == [3, 4, 5, 6, 10, 11]


def _modules() -> Iterator[str]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("runtime/"):
            yield name


def _reads(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text())
    modules: dict[str, str] = {}
    found: set[tuple[int, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {name.asname or name.name: name.name for name in node.names if name.name in CLOCKS}
        if isinstance(node, ast.ImportFrom) and node.module in CLOCKS:
            taken = {name.name for name in node.names}
            found |= {(node.lineno, f"{node.module}.{name}") for name in taken & CLOCKS[node.module]}
            if node.module == "datetime":
                modules |= {name.asname or name.name: "datetime" for name in node.names}
    bases = {node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=base), attr=name), args=given):
                # These format a time that they are given, or else read it.
                least = {"gmtime": 1, "localtime": 1, "ctime": 1, "strftime": 2}.get(name, 0)
                if modules.get(base) == "time" and len(given) < least:
                    found.add((node.lineno, f"time.{name}"))
            case ast.Attribute(value=ast.Name(id=base), attr=name):
                if name in CLOCKS.get(modules.get(base, ""), ()):
                    found.add((node.lineno, f"{modules[base]}.{name}"))
            case ast.Name(id=base, ctx=ast.Load()) if node not in bases:
                if "" in CLOCKS.get(modules.get(base, ""), ()):
                    found.add((node.lineno, modules[base]))
    yield from sorted(found)
