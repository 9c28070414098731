"""Finds what runs a script: the interpreter, the program that its first line names, or itself. Pure."""

from __future__ import annotations

import ast
import os
import shlex
import warnings

from msgspec import Struct

from bireme.core.scripts.command_lines import is_python

HEAD = 1024 * 1024
"""Bytes of a script that are looked at."""

_PYTHON = (".py", ".pyw", ".pyz", ".pyc", ".zip")
_SHELLS = {".sh": "sh", ".bash": "bash", ".zsh": "zsh", ".ksh": "ksh"}
ENDINGS = (*_PYTHON, *_SHELLS, ".ipynb")
_BINARY = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")


class Launch(Struct, frozen=True):
    """The words that start a script, or the reason why it cannot be started."""

    words: tuple[str, ...] | None = None
    """What stands before the script's path; None is the interpreter of the job."""
    wrong: str = ""
    hint: str = ""


def by_name(path: str) -> Launch:
    """Tells by its name alone how a script is started."""
    stem, suffix = os.path.splitext(path)
    if suffix == ".ipynb":
        command = f"jupyter nbconvert --to script {shlex.quote(path)} && bireme run {shlex.quote(stem)}.py"
        return Launch(wrong=f"{path} is a notebook, and only scripts are run", hint=command)
    return Launch((_SHELLS[suffix],)) if suffix in _SHELLS else Launch()


def by_content(path: str, head: bytes, *, is_executable: bool) -> Launch:
    """Tells by its name and its first bytes how a script is started."""
    named = by_name(path)
    if named.wrong or path.endswith(_PYTHON):
        return named
    if head.startswith(b"#!"):
        line = head[2:].partition(b"\n")[0].decode(errors="replace").strip()
        try:
            words = shlex.split(line)
        except ValueError:
            words = line.split()
        if words and os.path.basename(words[0]) == "env":
            words = [word for word in words[1:] if word != "-S"]
        if not words:
            return Launch(wrong=f"{path} begins with #!, and names no program after it")
        return Launch() if is_python(words[0]) else Launch(tuple(words))
    if head.startswith(_BINARY):
        quoted = shlex.quote(path)
        hint = f"chmod +x {quoted} && bireme run {quoted}"
        return Launch(()) if is_executable else Launch(wrong=f"{path} may not be executed", hint=hint)
    if named.words is not None or len(head) >= HEAD:  # what was read in part only cannot be parsed
        return named
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(head)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Launch(
            wrong=f"{path} is not Python, and does not say what runs it",
            hint="begin it with a line such as #!/bin/bash",
        )
    return named
