"""Gives the native libraries of a forked rank as many threads as a fresh process has.

OpenMP and OpenBLAS read their variables once, when they are loaded, which in a zygote was long before.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Tuple

from .. import linux

_OPENMP = re.compile(r"/lib(gomp|iomp5|omp)[^/]*\.so[^/]*$")
_OPENBLAS = re.compile(r"/[^/]*openblas[^/]*\.so[^/]*$")
_BLAS_SETTERS = tuple(
    prefix + "openblas_set_num_threads" + suffix for prefix in ("", "scipy_") for suffix in ("", "64_", "_64")
)


@dataclass(frozen=True)
class Pools:
    """The functions that set the size of each library's pool. Any: C functions have no types."""

    openmp: Tuple[Any, ...]
    openblas: Tuple[Any, ...]


def find() -> Pools:
    """Looks through the libraries that are loaded now."""
    paths = sorted(linux.loaded_libraries())
    # Torch's own OpenMP is set through torch, which keeps a number of its own beside it.
    others = [path for path in paths if "/torch/lib/" not in path]
    openmp = [_function(path, ("omp_set_num_threads",)) for path in others if _OPENMP.search(path)]
    openblas = [_function(path, _BLAS_SETTERS) for path in paths if _OPENBLAS.search(path)]
    return Pools(tuple(f for f in openmp if f), tuple(f for f in openblas if f))


def resize(pools: Pools, env: Mapping[str, str]) -> None:
    """Gives the pools the sizes that `env` asks for."""
    openmp = _number(env, "OMP_NUM_THREADS")
    if openmp is not None:
        for setter in pools.openmp:
            setter(openmp)
        torch: Any = sys.modules.get("torch")  # Any: the zygote imported it where the user has it
        if torch is not None:
            now = torch.get_num_threads()
            # With MKL, torch follows MKL, which takes no more threads than there are cores.
            wanted = min(openmp, now) if torch.backends.mkl.is_available() else openmp
            # Setting what is so already would start a second pool, which a fresh process has not.
            if wanted != now:
                torch.set_num_threads(wanted)
    openblas = _number(env, "OPENBLAS_NUM_THREADS") or _number(env, "GOTO_NUM_THREADS") or openmp or _cores()
    openblas = min(openblas, _cores())
    if openblas > 1:
        for setter in pools.openblas:
            setter(openblas)


def _function(path: str, names: Tuple[str, ...]) -> Any:
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    return next((getattr(library, name) for name in names if hasattr(library, name)), None)


def _number(env: Mapping[str, str], name: str) -> Optional[int]:
    # OMP_NUM_THREADS may be a list, one number for each level of nesting.
    first = env.get(name, "").partition(",")[0].strip()
    return int(first) if first.isdigit() and int(first) > 0 else None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
