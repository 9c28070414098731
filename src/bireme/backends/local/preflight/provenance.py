"""Records which code ran: the commit and what differed from it, or hashes of the scripts themselves."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from msgspec.structs import replace

from bireme.core.scripts.command_lines import is_python
from bireme.model.job import Job
from bireme.runs.run_files import CodeRecord

_PATIENCE = 2.0
_GONE = "gone"
_LARGEST = 10 * 1024 * 1024


def hashes(folder: Path, job: Job) -> CodeRecord:
    """Hashes of the scripts that a job starts in this folder; quick enough to stand before the start."""
    scripts: dict[Path, None] = {}
    for role in job.roles:
        for container in role.pod.containers:
            words = (*container.command, *container.args)
            if words and is_python(words[0]):
                scripts |= {folder / word: None for word in words[1:] if word.endswith(".py")}
    return CodeRecord(files={str(path): _hash(path) for path in scripts if path.is_file()})


def commit(folder: Path, before: CodeRecord) -> CodeRecord:
    """The same with the commit and what differs from it, where the folder is in a repository."""
    head = _git(folder, "rev-parse", "HEAD").strip()
    if not head:
        return before
    diff = _git(folder, "diff", "HEAD")
    digest = hashlib.sha256(diff.encode()).hexdigest() if diff else ""
    return replace(before, commit=head, diff=digest)


def told(before: CodeRecord) -> str:
    """What became of the scripts that are not any more what they were; empty if all are."""
    now = {path: _hash(Path(path)) for path in before.files}
    changed = [path for path, digest in before.files.items() if now[path] not in (digest, _GONE)]
    gone = [path for path, digest in before.files.items() if now[path] == _GONE != digest]
    sentences = (
        f"{', '.join(changed)} changed since" if changed else "",
        f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} gone" if gone else "",
    )
    return ", ".join(filter(None, sentences))


def _hash(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            return ""
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return _GONE


def _git(folder: Path, *words: str) -> str:
    # Without a repository nothing is asked: starting git costs more than all the rest of a submission.
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return ""
    try:
        answer = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.decode(errors="replace") if answer.returncode == 0 else ""
