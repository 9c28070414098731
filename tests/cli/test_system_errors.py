"""What the operating system refuses is told in a sentence with its own exit status, never as our bug."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys

import pytest

from bireme import errors
from bireme.cli import unexpected_errors
from tests.cli.commands import PATIENCE, WORDS, Cli

BIREME = " ".join(WORDS)
LONG = "a" * 300
GONE = 'mkdir gone; cd gone; rmdir "$PWD"; '
READ_ONLY = (
    'unshare --mount sh -c \'mkdir -p "$BIREME_HOME" && mount -t tmpfs none "$BIREME_HOME" && '
    'mount -o remount,ro "$BIREME_HOME" && exec {command}\''
)

STORIES = {
    "stdout on a full disk": (f"{BIREME} explain > /dev/full", 3, "No space left on device"),
    "a table on a full disk": (f"{BIREME} ps --json > /dev/full", 3, "No space left on device"),
    "stdout closed": (f"{BIREME} explain >&-", 0, ""),
    "everything closed": (f"{BIREME} explain >&- 2>&- <&-", 0, ""),
    "a reader that went away": (f"({BIREME} explain; echo $? >&2) | :", 0, ""),
    "run in a folder that is gone": (f"{GONE}{BIREME} run train.py", 2, "does not exist any more"),
    "check in a folder that is gone": (f"{GONE}{BIREME} check -f x.yaml", 2, "does not exist any more"),
    "a relative home in a folder that is gone": (
        f"{GONE}BIREME_HOME=relative {BIREME} ps",
        2,
        "does not exist any more",
    ),
    "a script's name that is too long": (f"{BIREME} run {LONG}.py", 2, "File name too long"),
    "a manifest's name that is too long": (f"{BIREME} check -f {LONG}.yaml", 2, "File name too long"),
    "a home whose name is too long": (f"BIREME_HOME=/tmp/{LONG} {BIREME} run train.py", 2, "name too long"),
    "a run's number that is too long": (f"{BIREME} show 'x#{'9' * 5000}'", 2, "is not the name of a run"),
    "a home that is a file": (f"BIREME_HOME=$PWD/train.py {BIREME} ps", 2, "is not a folder"),
    "a home below a file": (f"BIREME_HOME=$PWD/train.py/x {BIREME} ps", 2, "is missing"),
    "a manifest that is an empty folder": (f"mkdir d; {BIREME} check -f d", 2, "holds no manifest"),
    "a manifest that cannot be read": (f"{BIREME} check -f /proc/self/mem", 2, "Input/output error"),
    "a manifest that is not text": (f"printf '\\377' > b.yaml; {BIREME} check -f b.yaml", 2, "not UTF-8"),
    "a kubeconfig that cannot be read": (
        f"{BIREME} ps --on kubernetes --kubeconfig /proc/self/mem",
        4,
        "Input/output error",
    ),
    "a kubeconfig that is a folder": (f"{BIREME} ps --on kubernetes --kubeconfig /tmp", 4, "/tmp"),
    "an operator's port out of range": (f"{BIREME} operator --health-port 70000", 2, "--health-port"),
}


def told(cli: Cli, command: str) -> tuple[int, str]:
    cli.write("train.py", "print(1)\n")
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=cli.folder,
        env=cli.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("story", STORIES)
def test_it_is_a_sentence_and_no_bug(cli: Cli, story: str) -> None:
    command, status, text = STORIES[story]

    ended, said = told(cli, command)

    assert "bug in Bireme" not in said
    assert "Traceback" not in said
    assert (ended, text in said) == (status, True), said


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="a read-only disk needs root and unshare"
)
@pytest.mark.parametrize("verb", ["run train.py", "ps"])
def test_a_home_on_a_read_only_disk_is_no_access(cli: Cli, verb: str) -> None:
    status, said = told(cli, READ_ONLY.format(command=f"{sys.executable} -m bireme.cli {verb}"))

    assert (status, "Read-only file system" in said) == (errors.NoAccess.exit_status, True), said


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("ENOSPC", errors.DiskFull),
        ("EDQUOT", errors.DiskFull),
        ("EACCES", errors.NoAccess),
        ("EROFS", errors.NoAccess),
        ("EMFILE", errors.NoRoom),
        ("EAGAIN", errors.NoRoom),
        ("EIO", errors.Unreachable),
        ("ESTALE", errors.Unreachable),
        ("ENAMETOOLONG", errors.BadInput),
    ],
)
def test_each_has_a_next_step(number: str, expected: type[errors.BiremeError]) -> None:
    error = unexpected_errors.of_the_system(
        OSError(getattr(errno, number), os.strerror(getattr(errno, number)), "x")
    )

    assert type(error) is expected
    assert error.hint


@pytest.mark.parametrize("number", ["EPERM", "EACCES"])
def test_a_refusal_that_names_no_file_is_not_told_as_one_of_a_file(number: str) -> None:
    assert unexpected_errors.of_the_system(OSError(getattr(errno, number), "refused")) is None


def test_an_output_that_would_block_is_not_told_as_too_many_processes() -> None:
    assert (
        unexpected_errors.of_the_system(BlockingIOError(errno.EAGAIN, "write could not complete", 0)) is None
    )


def test_what_no_rule_knows_is_a_bug() -> None:
    assert unexpected_errors.of_the_system(OSError("out of the blue")) is None
