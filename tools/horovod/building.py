"""How is Horovod built: once, from the source on PyPI, and kept outside the checkout.

Its last release is of 2023 and asks for C++14, where the headers of today's torch need C++17; nothing else is
changed. It gets Gloo, and MPI where there is a compiler for it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

# Also in the Makefile, which takes only the launcher of it.
VERSION = "0.28.1"
HASH = "sha256:92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
_OLD, _NEW = "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)"
_CHANGED = ("CMakeLists.txt", "horovod/torch/CMakeLists.txt")
_NEEDED = {"cmake": "cmake", "c++": "g++"}
_OPTIONS = {
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_CPU_OPERATIONS": "GLOO",
}
_TAIL = 2000


class BuildError(Exception):
    """Says in a sentence what is missing or went wrong."""


def built() -> Path:
    """Return the folder that holds the package, which is built first where it is not yet."""
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _build(place)
    return place


def _place() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    mpi = "-mpi" if shutil.which("mpicxx") else ""
    return Path(base, "bireme", "horovod", f"{VERSION}-torch{metadata.version('torch')}-{python}{mpi}")


def _build(place: Path) -> None:
    if missing := [package for program, package in _NEEDED.items() if shutil.which(program) is None]:
        raise BuildError(f"it is compiled, and that needs: apt-get install {' '.join(missing)}")
    print(f"horovod: building {VERSION}, once (ten minutes); it is kept in {place}", file=sys.stderr)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        source = _source(Path(scratch))
        for name in _CHANGED:
            text = (source / name).read_text()
            if _OLD not in text:
                raise BuildError(f"{name} is not as it was: {_OLD} is not in it")
            (source / name).write_text(text.replace(_OLD, _NEW))
        _pip(Path(scratch), "wheel", "--no-deps", "--no-build-isolation", "-w", scratch, str(source))
        (wheel,) = Path(scratch).glob("*.whl")
        made = Path(scratch, "made")
        shutil.unpack_archive(wheel, made, "zip")
        made.rename(place)
    print(f"horovod: built in {time.monotonic() - began:.0f} s", file=sys.stderr)


def _source(scratch: Path) -> Path:
    wanted = scratch / "wanted.txt"
    wanted.write_text(f"horovod=={VERSION} --hash={HASH}\n")
    words = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes")
    _pip(scratch, "download", *words, "-d", str(scratch), "-r", str(wanted))
    shutil.unpack_archive(scratch / f"horovod-{VERSION}.tar.gz", scratch)
    return scratch / f"horovod-{VERSION}"


def _pip(scratch: Path, *words: str) -> None:
    mpi = "HOROVOD_WITH_MPI" if shutil.which("mpicxx") else "HOROVOD_WITHOUT_MPI"
    programs = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    environ = {**os.environ, **_OPTIONS, mpi: "1", "PATH": programs, "TMPDIR": str(scratch)}
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise BuildError(f"pip {words[0]} ended with {done.returncode}:\n{done.stdout[-_TAIL:]}")
