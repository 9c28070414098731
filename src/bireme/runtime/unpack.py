"""Starts a script that was sent to a cluster: its files unpacked, its packages installed, then it.

The first command of a container reads the files of the folder that the ConfigMaps are mounted at, compares
them with the sum in its own arguments, and only then runs this module, of which it has read the text, too.
Everything here works on what was read then: whoever may write ConfigMaps can change the folder at any time.

`main(files, work, script)` unpacks the files `code.000`, `code.001`... into WORK/code and becomes
`python SCRIPT...` there, or the program that stands after `--program`. What it says goes to standard error,
one line each, beginning with `bireme:`.
"""

from __future__ import annotations

import fcntl
import io
import os
import subprocess
import sys
import tarfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, NoReturn

RUNTIME = "runtime.zip"
REQUIREMENTS = "BIREME_REQUIREMENTS"
BROKEN = 126
PROGRAM = "--program"
"""Stands before a command that is not Python's, where otherwise a script stands."""


def main(files: Dict[str, bytes], work: str, script: List[str]) -> NoReturn:
    code = os.path.join(work, "code")
    environ = environment(dict(os.environ), work)
    with open(os.path.join(work, "lock"), "w") as lock:
        # Several ranks may start in one replica; the first one prepares for all.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(code):
            prepare(files, code, environ)
    os.chdir(code)
    sys.stdout.flush()
    sys.stderr.flush()
    if script[:1] == [PROGRAM]:
        become(script[1:], environ)
    command = launcher() + script
    os.execve(sys.executable, command, environ)


def become(command: List[str], environ: Dict[str, str]) -> NoReturn:
    """Becomes a program that is not Python's, in whose own lines `python` is the one that runs this."""
    environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), environ.get("PATH", os.defpath)])
    try:
        os.execvpe(command[0], command, environ)
    except OSError as error:
        _fail(f"{command[0]} cannot be started: {error.strerror}")


def prepare(files: Dict[str, bytes], code: str, environ: Dict[str, str]) -> None:
    """Unpacks and installs; the folder appears under its name when all of that is done."""
    fresh, work = code + ".new", os.path.dirname(code)
    unpack(files, fresh)
    with open(os.path.join(work, RUNTIME), "wb") as file:
        file.write(files[RUNTIME])
    if environ.get(REQUIREMENTS):
        install(os.path.join(fresh, environ[REQUIREMENTS]), work, environ)
    os.rename(fresh, code)


def unpack(files: Dict[str, bytes], target: str) -> None:
    """Puts the files of an archive that came in parts into a folder."""
    parts = sorted(name for name in files if name.startswith("code."))
    data = b"".join(files[name] for name in parts)
    os.makedirs(target, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        # Made by us, of plain files with relative names. What newer Pythons ask to be said is said.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(target)


def environment(before: Dict[str, str], work: str) -> Dict[str, str]:
    """The variables of the script: our runtime and what was installed for it can be imported."""
    paths = [os.path.join(work, RUNTIME)]
    if in_venv():
        paths.append(os.path.join(work, "packages"))
    paths += [before["PYTHONPATH"]] if before.get("PYTHONPATH") else []
    return {
        **before,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUSERBASE": os.path.join(work, "packages"),
        "PYTHONUNBUFFERED": before.get("PYTHONUNBUFFERED", "1"),
    }


def install(requirements: str, work: str, environ: Dict[str, str]) -> None:
    """Installs what the script asks for beside what the image has, which stays as it is."""
    name = os.path.basename(requirements)
    _say(f"installing {name}")
    where = ["--target", os.path.join(work, "packages")] if in_venv() else ["--user"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *where]
    # Debian forbids pip beside its own packages; nothing of them is touched here.
    marked = {
        **environ,
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
        "PIP_NO_WARN_SCRIPT_LOCATION": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_CACHE_DIR": os.path.join(work, "cache"),
    }
    folder = os.path.dirname(requirements)
    status = subprocess.call([*command, "-r", name], cwd=folder, env=marked)
    if status:
        _fail(f"{name} could not be installed (pip ended with {status}); its words stand above")
    _say(f"installed {name}")


def in_venv() -> bool:
    """Whether the image's Python is that of an environment, which shows no user's packages."""
    return sys.prefix != sys.base_prefix


def launcher() -> List[str]:
    """What runs the script: the runtime, which tells what ended it, or plain Python where it is too old."""
    has_runtime = sys.version_info >= (3, 9)
    return [sys.executable, "-m", "bireme.runtime.start_rank"] if has_runtime else [sys.executable]


def _say(words: str) -> None:
    sys.stderr.write(f"bireme: {words}\n")
    sys.stderr.flush()


def _fail(words: str) -> NoReturn:
    _say(words)
    sys.exit(BROKEN)
