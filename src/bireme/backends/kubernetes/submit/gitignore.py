"""Says which files are left out when a folder is sent to a cluster: rules as git writes and reads them. Pure.

A rule is one line of an ignore file and holds below the folder of that file. Rules match bytes, as git's do:
the names of files need not be text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

FILES = (".gitignore", ".biremeignore")
"""The ignore files of a folder; where they differ the last one holds."""

ALWAYS = rb"""
.git
.hg/
.svn/
__pycache__/
*.py[co]
.venv/
venv/
node_modules/
.tox/
.nox/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.ipynb_checkpoints/
.idea/
.vscode/
*.egg-info/
.DS_Store
"""
"""What no training script needs. A rule with `!` in an ignore file brings it back."""

_SECRETS = rb"""
.env
.env.*
.envrc
*.pem
*.key
*.p12
*.pfx
*.jks
*.kdbx
*.ppk
.netrc
_netrc
.npmrc
.pypirc
.pgpass
.git-credentials
.htpasswd
.dockercfg
.boto
.s3cfg
.rclone.conf
rclone.conf
kubeconfig
*.kubeconfig
credentials.json
client_secret*.json
application_default_credentials.json
service-account*.json
service_account*.json
kaggle.json
.aws/
.azure/
.docker/
.gcloud/
**/.config/gcloud/
.gnupg/
.kube/
.ssh/
**/.git/config
**/.streamlit/secrets.toml
**/.huggingface/token
**/huggingface/token
"""
"""Keys and credentials, by the names that the programs which make them give them."""

_SSH_KEY = re.compile(
    rb"(?:.*/)?id_(?:rsa|dsa|ecdsa|ed25519)(?:(?!\.pyx?$)\.[^/]*|(?:[-_][^/.]*)?(?:\.(?:pub|bak|old|orig))?)",
    re.DOTALL,
)
"""`id_rsa`, its copies, and keys that are named for their use, as `id_rsa_work` is; no `id_rsa_utils.py`."""


class Rule(Struct, frozen=True):
    """One line of an ignore file."""

    pattern: re.Pattern[bytes]
    keeps: bool
    folders_only: bool


class Rules(Struct, frozen=True):
    """The lines of one ignore file."""

    rules: tuple[Rule, ...]
    base: bytes = b""
    """The folder below which they hold, relative to where paths begin; empty or with a slash at its end."""


def rules(text: bytes, base: bytes = b"") -> Rules:
    """Reads an ignore file."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    found = (_rule(line.removesuffix(b"\r")) for line in lines)
    return Rules(tuple(rule for rule in found if rule is not None), base)


def is_ignored(path: bytes, is_folder: bool, files: Sequence[Rules]) -> bool:
    """Whether a path, relative and with slashes, is left out: the last rule that fits decides.

    Folders above it are not looked at: a walk down never enters one that is left out.
    """
    for file in reversed(files):
        if path.startswith(file.base) and (last := _last(path[len(file.base) :], is_folder, file.rules)):
            return not last.keeps
    return False


def is_secret(path: bytes, is_folder: bool) -> bool:
    """Whether a path looks like a key or credentials, which are never sent, whatever the rules say.

    A ConfigMap is no place for them: whoever may look at the namespace may read it.
    """
    name = path.lower()
    is_key = not is_folder and _SSH_KEY.fullmatch(name) is not None
    return is_key or _last(name, is_folder, _NEVER.rules) is not None


def _last(path: bytes, is_folder: bool, rules: Iterable[Rule]) -> Rule | None:
    fitting = (
        rule
        for rule in reversed(tuple(rules))
        if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path)
    )
    return next(fitting, None)


def _rule(line: bytes) -> Rule | None:
    if line.startswith(b"#"):
        return None
    written = _trimmed(line)
    keeps = written.startswith(b"!")
    written = written.removeprefix(b"!")
    folders_only = written.endswith(b"/")
    written = written.removesuffix(b"/")
    if not written:
        return None
    # A slash within ties a rule to the folder of its file; without one it holds at any depth.
    if b"/" in written:
        # Git compares what comes before the first special character by itself, and lets the pattern begin
        # after it. So stars there count as standing after a slash: `doc/a**/b` is read as `doc/a` and `**/b`.
        written = written.removeprefix(b"/")
        special = re.search(rb"[*?\[\\]", written)
        at = special.start() if special else len(written)
        before, body = re.escape(written[:at]), _expression(written[at:])
    else:
        before, body = rb"(?:.*/)?", _expression(written)
    return None if body is None else Rule(re.compile(before + body, re.DOTALL), keeps, folders_only)


def _trimmed(line: bytes) -> bytes:
    """The line without the spaces at its end, of which one may be kept by a backslash."""
    end = kept = 0
    while end < len(line):
        width = 2 if line[end : end + 1] == b"\\" else 1
        kept = kept if line[end : end + 1] == b" " else min(end + width, len(line))
        end += width
    return line[:kept]


def _expression(glob: bytes) -> bytes | None:
    """The regular expression of a pattern; None for one that fits nothing, such as an open bracket."""
    found, at = [], 0
    while at < len(glob):
        letter = glob[at : at + 1]
        if letter == b"*":
            stars = len(glob) - at - len(glob[at:].lstrip(b"*"))
            piece, at = _stars(glob, at, at + stars)
        elif letter == b"?":
            piece, at = b"[^/]", at + 1
        elif letter == b"[":
            bracket = _bracket(glob, at + 1)
            if bracket is None:
                return None
            piece, at = bracket
        elif letter == b"\\":
            if at + 1 == len(glob):
                return None
            piece, at = re.escape(glob[at + 1 : at + 2]), at + 2
        else:
            piece, at = re.escape(letter), at + 1
        found.append(piece)
    return b"".join(found)


def _stars(glob: bytes, start: int, end: int) -> tuple[bytes, int]:
    begins = start == 0 or glob[start - 1 : start] == b"/"
    rest = glob[end:]
    if end - start < 2 or not begins or not (rest == b"" or rest.startswith((b"/", b"\\/"))):
        return b"[^/]*", end
    if rest.startswith(b"/"):
        return rb"(?:.*/)?", end + 1  # no folder, or any number of them
    return b".*", end


_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"\x21-\x7e",
    b"lower": rb"a-z",
    b"print": rb"\x20-\x7e",
    b"punct": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    b"space": rb" \t\n\r\f\v",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}


def _bracket(glob: bytes, at: int) -> tuple[bytes, int] | None:
    """The expression of `[...]` whose inside begins at `at`, and where the pattern goes on."""
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    found: list[bytes] = []
    begin = at
    while at == begin or glob[at : at + 1] != b"]":
        if glob.startswith(b"[:", at):
            name, mark, _ = glob[at + 2 :].partition(b"]")
            if not mark:
                return None
            if name.endswith(b":"):
                if name[:-1] not in _CLASSES:
                    return None
                found.append(_CLASSES[name[:-1]])
                at += len(name) + 3
                continue
        low = _letter(glob, at)
        if low is None:
            return None
        at = low[1]
        high = _letter(glob, at + 1) if glob[at : at + 1] == b"-" and glob[at + 1 : at + 2] != b"]" else None
        if high is not None:
            at = high[1]
        # Of a range that is the wrong way round only the first is meant.
        last = high[0] if high is not None and high[0] >= low[0] else low[0]
        found.append(b"\\x%02x-\\x%02x" % (low[0], last))
        if at >= len(glob):
            return None
    inside = b"".join(found)
    # Whatever it holds, it never fits a slash.
    body = (b"[^/" + inside + b"]") if negated else (b"(?!/)[" + inside + b"]" if inside else b"(?!)")
    return body, at + 1


def _letter(glob: bytes, at: int) -> tuple[int, int] | None:
    """One character within brackets, and where the next begins; None at the end of the pattern."""
    if glob[at : at + 1] == b"\\":
        at += 1
    return (glob[at], at + 1) if at < len(glob) else None


_NEVER = rules(_SECRETS)
