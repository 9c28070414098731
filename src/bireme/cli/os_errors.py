"""Turns what the operating system refused into an error that says what to do next.

Most places name the file and the next step themselves; this is for what reaches the end of a command. An
error of the system that none of these rules knows is a bug of ours.
"""

from __future__ import annotations

import errno
import os

from bireme import errors

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
_TOO_MANY = {
    errno.EMFILE: "raise the limit of open files, `ulimit -n 4096`",
    errno.ENFILE: "the whole machine has too many files open: `cat /proc/sys/fs/file-nr`",
    errno.ENOMEM: "the machine is short of memory: `free -h`",
    errno.EAGAIN: "there are too many processes, `ulimit -u` shows how many you may have",
}
_BROKEN = (errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ETIMEDOUT, errno.EHOSTDOWN)


def explained(error: OSError) -> errors.BiremeError | None:
    """The error that a user can do something about, or None for a bug."""
    reason = error.strerror or str(error)
    what = f"{error.filename}: {reason}" if error.filename else reason
    if isinstance(error, FileNotFoundError) and not _has_folder():
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


def _has_folder() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True
