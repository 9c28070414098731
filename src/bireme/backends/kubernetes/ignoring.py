"""Which files of a folder are left out when it is sent to a cluster: rules as git writes them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

FILES = (".biremeignore", ".gitignore")
"""Where the rules of a folder are; the first one that exists holds."""

ALWAYS = (
    ".git/",
    ".hg/",
    ".svn/",
    "__pycache__/",
    "*.py[co]",
    ".venv/",
    "venv/",
    "node_modules/",
    ".tox/",
    ".nox/",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    ".ipynb_checkpoints/",
    ".idea/",
    ".vscode/",
    "*.egg-info/",
    ".DS_Store",
    # A ConfigMap is no place for secrets: whoever may look at the namespace may read it.
    ".env",
    "*.pem",
    "id_rsa*",
    ".netrc",
)
"""What no training script needs. A rule with `!` in the folder's own file brings it back."""


class Rule(Struct, frozen=True):
    """One line of such a file."""

    pattern: re.Pattern[str]
    keeps: bool
    folders_only: bool


def rules(text: str) -> tuple[Rule, ...]:
    """The rules that always hold, followed by those of a file."""
    return tuple(rule for line in (*ALWAYS, *text.splitlines()) if (rule := _rule(line)) is not None)


def is_ignored(path: str, is_folder: bool, rules: Iterable[Rule]) -> bool:
    """Whether a path, relative and with slashes, is left out: the last rule that fits decides.

    Folders above it are not looked at: whoever walks down never enters one that is left out.
    """
    ignored = False
    for rule in rules:
        if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
            ignored = not rule.keeps
    return ignored


def _rule(line: str) -> Rule | None:
    written = line.rstrip("\r\n")
    if not written.endswith("\\ "):
        written = written.rstrip(" ")
    if not written or written.startswith("#"):
        return None
    keeps = written.startswith("!")
    written = written.removeprefix("!").removeprefix("\\") if keeps or written[:1] == "\\" else written
    folders_only = written.endswith("/")
    written = written.rstrip("/")
    if not written:
        return None
    # A slash within ties a rule to the folder of its file; without one it holds at any depth.
    tied = "/" in written
    body = _expression(written.removeprefix("/"))
    return Rule(re.compile(body if tied else f"(?:.*/)?{body}"), keeps, folders_only)


def _expression(glob: str) -> str:
    found, at = [], 0
    while at < len(glob):
        if glob.startswith("**/", at):
            found.append("(?:.*/)?")
            at += 3
        elif glob.startswith("**", at):
            found.append(".*")
            at += 2
        elif glob[at] == "*":
            found.append("[^/]*")
            at += 1
        elif glob[at] == "?":
            found.append("[^/]")
            at += 1
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) > 0:
            inside = glob[at + 1 : end].replace("\\", "\\\\")
            found.append(f"[^{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]")
            at = end + 1
        elif glob[at] == "\\" and at + 1 < len(glob):
            found.append(re.escape(glob[at + 1]))
            at += 2
        else:
            found.append(re.escape(glob[at]))
            at += 1
    return "".join(found)
