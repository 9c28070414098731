"""Errors that a training script sees: what cannot be done, and what to do next."""

from __future__ import annotations

from typing import Any, Mapping


class Complaint(Exception):
    """Something that the script asked for and that cannot be done; the sentence ends with the next step."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what}; {hint}" if hint else what)
        self.what = what
        self.hint = hint


class Passing(Complaint):
    """Something that a retry may solve: storage that does not answer, another process at work."""


class NotFinite(Complaint):
    """A reported value is not a number, or infinite, and the run was asked to stop then."""


def mistaken(parts: Mapping[str, Any]) -> str:
    """A sentence about a part that is rather meant as an option of `save`, which has none."""
    found = [f"{name}={value}" for name, value in parts.items() if value is None or isinstance(value, bool)]
    if not found:
        return ""
    what = f"{', '.join(found)} is saved as a part"
    return f"{what}: save has no options; to save at once: run.save_now(step, ...)"
