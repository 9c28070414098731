"""Defines the one tree of errors: each class says whose turn it is to act.

    BiremeError
    ├── BadInput      2    bad-input       you: the command line or a file needs a change
    │   └── BadManifest 2  bad-manifest    you: the manifest needs a change
    ├── NoRoom        3    no-room         you: ask for less, or use a larger place
    │   └── DiskFull    3  disk-full       you: make room on the disk
    ├── NoAccess      4    no-access       you or an administrator: a permission is missing
    ├── Unreachable   5    unreachable     the place: it does not answer
    ├── JobFailed     1    job-failed      you: your code failed
    ├── OurBug        70   our-bug         us
    └── Interrupted   130  interrupted     you asked to stop

The number is the exit status, the word beside it the code that `bireme explain` takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol

MOST_LINES = 12
MOST_SHOWN = 10


class BiremeError(Exception):
    """Says what went wrong, where, and what to do about it; its subclasses say whose turn it is."""

    code: ClassVar[str]
    exit_status: ClassVar[int]
    explanation: ClassVar[str]
    flags: tuple[str, ...] = ()
    """Words which, added to the command line, supply what is missing."""
    by_hand: tuple[str, ...] = ()
    """What else is to be done, which no option does."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        # Only `what` becomes an argument of Exception, so that pickle and copy rebuild the error.
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """Returns where, what and the hint as one text of at most twelve lines."""
        facts = f"{self.where}: {self.what}" if self.where else self.what
        hints = self.hint.splitlines()[: MOST_LINES - 2]
        return "\n".join([*_shortened(facts.splitlines(), MOST_LINES - len(hints)), *hints])


class BadInput(BiremeError):
    """An argument, option or file of the user cannot be used as it is."""

    code = "bad-input"
    exit_status = 2
    explanation = (
        "Something you gave cannot be used as it is: an option, a name, or a file that is missing or "
        "unreadable. Nothing was started and nothing was changed. The message says what was found and "
        "what is wanted. Correct it and run the same command again."
    )


class AnyDiagnostic(Protocol):
    """What an error needs to know of a diagnostic; `str` gives it as one line."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...
    @property
    def field(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def hint(self) -> str: ...


class BadManifest(BadInput):
    """A manifest cannot be read or asks for something impossible; it carries every diagnostic."""

    code = "bad-manifest"
    explanation = (
        "The manifest cannot be read, or it asks for something that no job can be. Nothing was started. "
        "Each line of the message begins with file:line:column and names the field, and all errors are "
        "reported together. Correct them, then look again with `bireme check -f FILE`, which starts nothing."
    )

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        hint: str = "",
        diagnostics: Sequence[AnyDiagnostic] = (),
        warnings: Sequence[AnyDiagnostic] = (),
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.diagnostics: tuple[AnyDiagnostic, ...] = tuple(diagnostics)
        self.warnings: tuple[AnyDiagnostic, ...] = tuple(warnings)
        """What is odd besides, and would not have stopped the job."""

    @classmethod
    def of(
        cls, diagnostics: Sequence[AnyDiagnostic], *, hint: str = "", warnings: Sequence[AnyDiagnostic] = ()
    ) -> BadManifest:
        """Makes the error of one or more diagnostics, of which it shows the first ten."""
        lines = [str(diagnostic) for diagnostic in diagnostics[:MOST_SHOWN]]
        if more := len(diagnostics) - len(lines):
            lines.append(f"and {more} more")
        return cls("\n".join(lines), hint=hint, diagnostics=diagnostics, warnings=warnings)


class NoRoom(BiremeError):
    """The place can never hold what the job asks for."""

    code = "no-room"
    exit_status = 3
    explanation = (
        "The job asks for more cpu, memory, GPUs or disk than the place has at all, so that waiting would "
        "not help. Nothing was started. Ask for less, let `bireme run --fit` shrink the job to this "
        "machine, or run it on a larger place. `bireme doctor` shows what this machine has."
    )


class DiskFull(NoRoom):
    """A file cannot be written because its disk, or the user's quota on it, is full."""

    code = "disk-full"
    explanation = (
        "A file could not be written because the disk that holds it, or your quota on it, is full. The "
        "message names the file. Jobs that are running continue: they record what happened as soon as there "
        "is room. Make room (`df -h`, and `bireme rm` for old runs), then run the same command again."
    )


class NoAccess(BiremeError):
    """A permission or a credential is missing."""

    code = "no-access"
    exit_status = 4
    explanation = (
        "You are not allowed to do this: a file, a folder or a cluster refused your user. The message "
        "names what refused and the permission that is missing. Get that permission or use other "
        "credentials, then run the same command again."
    )


class Unreachable(BiremeError):
    """The place where the job runs, or should run, does not answer."""

    code = "unreachable"
    exit_status = 5
    explanation = (
        "The place did not answer in time: a cluster, a store, or the process that runs the job. "
        "Jobs that were running may well be running still. Check the network and the address in the "
        "message, then run the same command again: repeating it is safe."
    )


class JobFailed(BiremeError):
    """The job ran and failed by its own rules."""

    code = "job-failed"
    exit_status = 1
    explanation = (
        "The job ran and failed: your code ended with an error, ran out of memory, passed its deadline, "
        "or used up its retries. The message ends with the first error of the first rank that failed. "
        "`bireme show NAME` says why, `bireme logs NAME` shows everything the ranks printed. After a fix, "
        "run it again."
    )


class OurBug(BiremeError):
    """Bireme broke one of its own promises."""

    code = "our-bug"
    exit_status = 70
    explanation = (
        "Bireme did something that it should never do. It is not your fault, and running jobs are not "
        "affected. Please report it with the full message, the command and the output of `bireme doctor`. "
        "Trying the same command again does no harm."
    )


class Interrupted(BiremeError):
    """The user asked the command to stop before it was done."""

    code = "interrupted"
    exit_status = 130
    explanation = (
        "You stopped the command before it was done, with Ctrl-C or a signal. The message says whether "
        "the job continues without you. `bireme ps` lists what is running, `bireme logs -f NAME` follows it "
        "again, `bireme stop NAME` stops it."
    )


def options(flags: Sequence[str]) -> list[tuple[str, ...]]:
    """Each option of an error's flags with its value."""
    found: list[tuple[str, ...]] = []
    for word in flags:
        if word.startswith("-"):
            found.append((word,))
        else:
            found[-1] = (*found[-1], word)
    return found


def by_code(code: str) -> type[BiremeError]:
    """Returns the class of an error code, or raises BadInput that names the nearest ones."""
    classes = {each.code: each for each in _classes(BiremeError)}
    if code in classes:
        return classes[code]
    import difflib  # here, because it is hardly ever needed

    nearest = difflib.get_close_matches(code, classes, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"the codes are {', '.join(codes())}"
    raise BadInput(f"there is no error code {code!r}", hint=hint)


def codes() -> tuple[str, ...]:
    """Returns every error code, in alphabetical order."""
    return tuple(sorted(each.code for each in _classes(BiremeError)))


def _classes(base: type[BiremeError]) -> Iterator[type[BiremeError]]:
    for each in base.__subclasses__():
        yield each
        yield from _classes(each)


def _shortened(lines: list[str], most: int) -> list[str]:
    """Leaves out the middle, because the first line says what and the last ones often say why."""
    if len(lines) <= most:
        return lines
    tail = (most - 1) // 2
    head = most - 1 - tail
    left_out = len(lines) - head - tail
    return [*lines[:head], f"... ({left_out} lines left out)", *lines[len(lines) - tail :]]
