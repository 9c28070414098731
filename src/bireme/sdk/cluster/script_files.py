"""Which files go with a script to a cluster: the list, and its summary in two sentences."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from bireme import errors
from bireme.backends.kubernetes.submit import script_folder
from bireme.backends.kubernetes.submit.script_folder import Folder
from bireme.sdk import submissions
from bireme.sdk.views import ScriptFiles

_MOST_NAMED = 3


def of_script(script: str, cwd: Path) -> ScriptFiles:
    """What `bireme run SCRIPT --on kubernetes` would send."""
    if not (cwd / script).is_file():
        raise errors.BadInput(f"there is no script {script} in {cwd}")
    launch = submissions.launch_of(cwd / script, script)
    if launch.wrong:
        raise errors.BadInput(launch.wrong, hint=launch.hint)
    folder = script_folder.of_script(script, cwd)
    return ScriptFiles(
        script=script,
        folder=str(folder.root),
        sent=tuple(_shown(one.name) for one in folder.files),
        left_out=tuple(map(_shown, folder.left_out)),
        never_sent=tuple(map(_shown, folder.secrets)),
    )


def sentences(folder: Folder, script: str) -> Iterator[str]:
    """What is not sent, with the first names of each."""
    every = f"; `bireme check {script}` lists all" if script.endswith((".py", ".sh")) else ""
    if folder.left_out:
        yield f"ignore files leave out {len(folder.left_out)}: {_named(folder.left_out)}{every}"
    if folder.secrets:
        named = _named(folder.secrets)
        yield f"{len(folder.secrets)} with the names of keys or credentials are never sent: {named}{every}"


def _shown(name: str) -> str:
    """The name as it can be printed: files may have names that are not UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(map(_shown, names[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
