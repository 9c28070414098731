"""What is kept of a job between two steps."""

from __future__ import annotations

from msgspec import Struct

from bireme.model.job import Job
from bireme.model.status import Status


class Stored(Struct, frozen=True):
    """What is wanted and what is remembered, as read in one go."""

    job: Job
    status: Status
    version: str = ""
    """Names this state of the store, so that a write on top of a newer one is refused."""
    not_before: str = ""
    """The version at which somebody else wrote this status: nothing older may be seen beside it."""
    record_by: float | None = None
    """By when a change that was put off has to be recorded.

    Infinity where none was put off; None where this store records every change at once.
    """
    problem: str = ""
    """Why no job can be made of what is stored: then `job` has a name and no roles."""
