"""Has a part of a checkpoint written to a file, by an interpreter that has torch: Bireme's own need not."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from bireme import errors
from bireme.runtime.checkpoints import exporting

_PROGRAM = os.path.join(os.path.dirname(os.path.dirname(exporting.__file__)), "start_export.py")


class ExportRequest(Struct, frozen=True):
    """What to write where."""

    source: str
    """A folder or an object store, with `@STEP` unless it is the newest."""
    target: str
    part: str
    """Empty for the model, or the only one."""
    force: bool
    """Whether a file that is there is replaced."""

    @property
    def words(self) -> list[str]:
        return [self.source, self.target, self.part, "force" if self.force else ""]


class ExportedPart(Struct, frozen=True):
    """What was written."""

    part: str
    step: int
    size: int
    ranks: int
    is_sharded: bool
    others: tuple[str, ...]


class _Refused(Struct, frozen=True):
    what: str
    hint: str = ""


def export(pythons: Sequence[str], wish: ExportRequest) -> ExportedPart:
    """Writes it in the first of the interpreters that has torch; BadInput if it cannot be written."""
    known = tuple(dict.fromkeys(pythons))
    for python in known:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            done = subprocess.run([python, _PROGRAM, *wish.words], capture_output=True, check=False)
            if done.returncode == exporting.NO_TORCH:
                continue
            if done.returncode:
                raise _refusal(done.stderr.decode("utf-8", "replace"))
            # A library may have something to say, too, as it is imported.
            return msgspec.json.decode(done.stdout.strip().rpartition(b"\n")[2], type=ExportedPart)
    raise errors.BadInput(
        f"torch is not installed in {', '.join(known)}, and the file is one of it",
        hint="activate an environment that has it",
    )


def _refusal(said: str) -> errors.BiremeError:
    last = said.strip().rpartition("\n")[2]
    try:
        refused = msgspec.json.decode(last, type=_Refused)
    except (msgspec.DecodeError, ValueError):
        return errors.BadInput(f"the checkpoint cannot be exported: {last or 'it is not known why'}")
    return errors.BadInput(refused.what, hint=refused.hint)
