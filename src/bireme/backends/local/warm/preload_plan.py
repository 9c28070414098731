"""Plans what a warm interpreter preloads for a script: the packages that take long to import, no others.

The rest is imported by the rank itself in a blink, so that one interpreter serves all scripts that share what
takes long. What a script imports itself comes first; that brings most other packages along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bireme.backends.local.warm import package_weights
from bireme.core.machine.warm_starts import Needs

_LIGHT = frozenset(
    ("bireme", "numpy", "yaml", "google", "charset_normalizer", "msgspec", "psutil", "mpi4py", "nvidia")
)
"""Packages that import in a blink, or that are no use beforehand."""
_IMPLIED = {"torch": ("torch._dynamo", "torch.distributed", "torch.nn.parallel", "torch.utils.data")}
"""What every training with a package imports sooner or later; the first DDP() imports torch._dynamo."""
_PARTS = frozenset(
    (
        *("torch._inductor", "torch.distributed.fsdp", "lightning.pytorch", "transformers.trainer"),
        *("scipy.stats", "sklearn.datasets", "matplotlib.pyplot"),
    )
)
"""Parts that take long and do not come with their package; preloaded where a run has imported them."""
_SITES = ("/site-packages/", "/dist-packages/")


def plan(modules: Iterable[str], needs: Needs, sites: Sequence[str]) -> tuple[str, ...]:
    """What to import ahead, in this order, for a script that imported these; empty if it is not worth it."""
    imported = set(modules)
    packages = {name for name in imported if "." not in name} - _LIGHT
    own = packages & (needs.certain | needs.possible)
    chosen = (
        package_weights.heavy(own, sites)
        or package_weights.heavy(packages, sites)
        or tuple(sorted(own))
        or tuple(sorted(packages))
    )
    ordered: list[str] = []
    for package in chosen:
        parts = sorted(part for part in imported & _PARTS if part.partition(".")[0] == package)
        ordered += [package, *_IMPLIED.get(package, ()), *parts]
    return tuple(ordered)


def loaded(pid: int) -> tuple[frozenset[str], tuple[str, ...]]:
    """Third-party packages whose compiled parts a running process has mapped, and the folders of all."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return frozenset(), ()
    packages: set[str] = set()
    sites: set[str] = set()
    for line in lines:
        for mark in _SITES:
            before, _, rest = line.partition(mark)
            package = rest.partition("/")[0]
            if "/" in rest and package.isidentifier() and not package.startswith("_"):
                packages.add(package)
                sites.add(before[before.find("/") :] + mark.rstrip("/"))
    return frozenset(packages), tuple(sorted(sites))
