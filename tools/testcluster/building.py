"""How are the programs built: once, from pinned sources, with progress shown."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tools.testcluster import golang
from tools.testcluster.places import ClusterError, cache, locked
from tools.testcluster.recipes import RECIPES, Recipe

Tell = Callable[[str], None]
EVERY = 15.0
"""Seconds between two lines of progress."""


def tell(line: str) -> None:
    """Show progress, beside what a caller may read from the standard output."""
    print(f"testcluster: {line}", file=sys.stderr, flush=True)


def build(name: str, tell: Tell = tell) -> Path:
    """Return a program, which is built first where it is not yet."""
    if name not in RECIPES:
        raise ClusterError(f"no recipe is called {name}; there are {', '.join(sorted(RECIPES))}")
    recipe = RECIPES[name]
    if recipe.program.exists():
        return recipe.program
    # One build at a time: two would only take each other's cores.
    with locked(cache() / "build.lock"):
        if not recipe.program.exists():
            _build(recipe, tell)
    return recipe.program


def sources(name: str, tell: Tell = tell) -> Path:
    """Return the folder of the sources that a program is built from."""
    recipe = RECIPES[name]
    return recipe.folder or _download(recipe, golang.find(tell))


def _build(recipe: Recipe, tell: Tell) -> None:
    go = golang.find(tell)
    began = time.monotonic()
    tell(f"building {recipe.name} {recipe.version}, once; it is kept in {recipe.program.parent}")
    folder = recipe.folder or _download(recipe, go)
    recipe.program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=recipe.program.parent) as scratch:
        made = Path(scratch, recipe.name)
        _compile(recipe, go, folder, made, tell)
        made.rename(recipe.program)
    for alias in recipe.aliases:
        _link(recipe.program, alias)
    tell(f"built {recipe.name} in {_minutes(time.monotonic() - began)}")


def _download(recipe: Recipe, go: Path) -> Path:
    """Fetch a module and check that it is the one that the recipe means."""
    command = [str(go), "mod", "download", "-json", f"{recipe.module}@{recipe.version}"]
    answer = subprocess.run(command, cwd="/", env=golang.environ(go), capture_output=True, text=True)
    told = json.loads(answer.stdout or "{}")
    if answer.returncode != 0 or "Error" in told:
        why = told.get("Error") or answer.stderr.strip()
        raise ClusterError(f"{recipe.module}@{recipe.version} could not be downloaded: {why}")
    if told["Sum"] != recipe.checksum:
        raise ClusterError(f"{recipe.module}@{recipe.version} is {told['Sum']}, not {recipe.checksum}")
    return Path(told["Dir"])


def _compile(recipe: Recipe, go: Path, folder: Path, made: Path, tell: Tell) -> None:
    total = _packages(recipe, go, folder)
    command = [
        *_nice(),
        str(go),
        "build",
        "-v",
        "-trimpath",
        "-ldflags",
        recipe.flags,
        "-o",
        str(made),
        recipe.package,
    ]
    process = subprocess.Popen(
        command, cwd=folder, env=golang.environ(go), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    reader.start()
    try:
        _watch(process, lines, total, tell)
    except BaseException:
        os.killpg(process.pid, 15)
        raise
    reader.join(5)
    if process.returncode != 0:
        raise ClusterError(f"{recipe.name} did not build:\n" + "".join(lines[-12:]))


def _watch(process: subprocess.Popen[str], lines: list[str], total: int, tell: Tell) -> None:
    began = time.monotonic()
    while True:
        try:
            process.wait(EVERY)
            return
        except subprocess.TimeoutExpired:
            done = sum(1 for line in tuple(lines) if not line.startswith(("#", "go:", " ", "\t")))
            spent = _minutes(time.monotonic() - began)
            tell(f"compiled {done} of at most {total} packages in {spent}")


def _packages(recipe: Recipe, go: Path, folder: Path) -> int:
    """Count what a build from nothing compiles; this also downloads every module it needs."""
    command = [str(go), "list", "-deps", "-f", "{{.ImportPath}}", recipe.package]
    answer = subprocess.run(command, cwd=folder, env=golang.environ(go), capture_output=True, text=True)
    if answer.returncode != 0:
        raise ClusterError(f"the sources of {recipe.name} could not be read: {answer.stderr.strip()[-800:]}")
    return len(answer.stdout.splitlines())


def _link(program: Path, alias: str) -> None:
    link = program.with_name(alias)
    link.unlink(missing_ok=True)
    link.symlink_to(program.name)


def _nice() -> list[str]:
    return ["nice", "-n", "10"] if shutil.which("nice") else []


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"
