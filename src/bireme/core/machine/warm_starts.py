"""Decides which warm interpreters may serve a program, and which ones end when they hold too much memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from msgspec import Struct

from bireme import errors
from bireme.model import quantities

LIMIT = "BIREME_WARM_MEMORY"
"""The variable that says how much memory zygotes may hold together; 0 is no warm start at all."""
_SHARE = 1 / 8
"""Of the machine's memory, which they may hold where the variable says nothing."""


class Needs(Struct, frozen=True):
    """The third-party packages that a program imports."""

    certain: frozenset[str] = frozenset()
    possible: frozenset[str] = frozenset()
    """Packages that only functions import, which may never be called."""


class Warm(Struct, frozen=True):
    """A warm interpreter, as far as these decisions need it."""

    name: str
    roots: frozenset[str]
    """The packages that it was told to import, less those that an earlier one of them had brought along."""
    packages: frozenset[str] = frozenset()
    """Everything that it has loaded."""
    memory: int = 0
    used: float = 0.0
    is_idle: bool = True


def serving(needs: Needs, zygotes: Iterable[Warm]) -> tuple[str, ...]:
    """The names of those that may serve a program, the best first.

    None may hold a package that the program does not import itself: a package may change warnings, logging
    or the way in which others work. What its roots brought along came by imports that the program makes too.
    A root that only a function of the program imports counts where nothing else serves.
    """
    found = [zygote for zygote in zygotes if zygote.roots]
    for packages in (needs.certain, needs.certain | needs.possible):
        fit = [zygote for zygote in found if zygote.roots <= packages]
        if fit:
            fit.sort(key=lambda zygote: (-len(zygote.packages & packages), -zygote.used, zygote.name))
            return tuple(zygote.name for zygote in fit)
    return ()


def surplus(zygotes: Iterable[Warm], limit: int) -> tuple[str, ...]:
    """Those that end so that the others hold at most the limit: idle ones, the least recently used first."""
    found = list(zygotes)
    held = sum(zygote.memory for zygote in found)
    ending = []
    for zygote in sorted(found, key=lambda zygote: (zygote.used, zygote.name)):
        if held <= limit:
            break
        if zygote.is_idle:
            ending.append(zygote.name)
            held -= zygote.memory
    return tuple(ending)


def limit(environ: Mapping[str, str], memory: int) -> int:
    """The bytes that idle zygotes may hold together; a part of the machine's where nothing else is said."""
    written = environ.get(LIMIT)
    if written:
        with contextlib.suppress(ValueError):
            return quantities.whole(written)
    return int(memory * _SHARE)


def check_limit(environ: Mapping[str, str]) -> None:
    """Raise BadInput for a limit that is no amount of memory, before any job is started with it."""
    try:
        if quantities.whole(environ.get(LIMIT) or 0) >= 0:
            return
        problem = "it is negative"
    except ValueError as error:
        problem = str(error)
    raise errors.BadInput(
        f"{LIMIT}={environ[LIMIT]}: {problem}",
        hint=f"{LIMIT}=2Gi, or {LIMIT}=0 for no warm interpreters",
    )
