"""Explains an error that no verb handled: of the operating system, or a bug of ours.

Most places name the file and the next step themselves; this is for what reaches the end of a command. The
traceback of a bug goes to a file, and a sentence to the user.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from bireme import __version__, errors
from bireme.runs.home import place

_ENV = "--env"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_TOO_MANY = {
    errno.EMFILE: "raise the limit of open files, `ulimit -n 4096`",
    errno.ENFILE: "the whole machine has too many files open: `cat /proc/sys/fs/file-nr`",
    errno.ENOMEM: "the machine is short of memory: `free -h`",
    errno.EAGAIN: "there are too many processes, `ulimit -u` shows how many you may have",
}
_BROKEN = (errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ETIMEDOUT, errno.EHOSTDOWN)


def of_the_system(error: OSError) -> errors.BiremeError | None:
    """The error that a user can do something about, or None for a bug."""
    reason = error.strerror or str(error)
    what = f"{error.filename}: {reason}" if error.filename else reason
    if isinstance(error, FileNotFoundError):
        try:
            os.getcwd()
        except OSError:
            return errors.BadInput(
                "the folder that this was started in does not exist any more", hint="cd to one that does"
            )
    if error.errno in _FULL:
        return errors.DiskFull(f"cannot write: {what}", hint="make room: `df -h` shows which disk is full")
    if error.errno in _REFUSED and error.filename:
        return errors.NoAccess(what, hint="look at its owner and mode with `ls -ld`")
    if error.errno == errno.ENAMETOOLONG:
        return errors.BadInput(f"{reason}: {str(error.filename or '')[:80]}...", hint="give a shorter name")
    if error.errno in _TOO_MANY and not hasattr(error, "characters_written"):  # an output that would block
        return errors.NoRoom(what, hint=_TOO_MANY[error.errno])
    if error.errno in _BROKEN:
        return errors.Unreachable(what, hint="see what the kernel says of that disk: `dmesg | tail`")
    return None


def bug_report(error: Exception) -> str:
    """Writes down everything that helps to mend it, and returns the message for the user."""
    words, secrets = without_values(sys.argv)
    details = _hidden("".join(traceback.format_exception(error)), secrets)
    said = _hidden(str(error).partition("\n")[0], secrets)
    summary = f"this is a bug in Bireme: {type(error).__name__}" + (f": {said}" if said else "")
    name = f"bug-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    finds: tuple[Callable[[], Path], ...] = (
        lambda: place(os.environ) / "bugs",
        lambda: Path(tempfile.gettempdir()),
    )
    for find in finds:
        try:
            # Both ask for the working folder, which may be gone.
            folder = find()
            folder.mkdir(parents=True, exist_ok=True)
            text = f"bireme {__version__}\nPython {sys.version}\n{words}\n\n{details}"
            # A new file that no other user may read, whatever the umask, and never through another's link.
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(file, "w", encoding="utf-8", errors="replace") as report:
                report.write(text)
        except OSError:
            continue
        return f"{summary}\nPlease report it with {folder / name}. Jobs that run are not affected."
    return f"{summary}\nPlease report it with this:\n{details}"


def without_values(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command line without the values of variables, which may be secrets; and those values."""
    words: list[str] = []
    secrets: list[str] = []
    for word in argv:
        option, value = ("", word) if words[-1:] == [_ENV] else (f"{_ENV}=", word.removeprefix(f"{_ENV}="))
        if option and value == word:
            words.append(word)
            continue
        name, _, secret = value.partition("=")
        secrets.append(secret)
        words.append(f"{option}{name}=...")
    # A shorter one is no secret, and would be found in every line of a traceback.
    return words, [secret for secret in secrets if len(secret) > 3]


def _hidden(text: str, secrets: Sequence[str]) -> str:
    # The longest first: a secret may be part of another.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "...")
    return text
