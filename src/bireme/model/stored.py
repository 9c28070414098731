"""Holds what is kept of a job between two steps."""

from __future__ import annotations

from msgspec import Struct

from bireme.model.job import Job
from bireme.model.status import Status


class Stored(Struct, frozen=True):
    """A job and its status, as read together."""

    job: Job
    status: Status
    version: str = ""
    """Names this state of the store, so that a write on top of a newer one is refused."""
    not_before: str = ""
    """The version at which another process wrote this status: nothing older may be seen beside it."""
    record_by: float | None = None
    """The time by which a deferred change has to be recorded.

    Infinity where none was deferred; None where this store records every change at once.
    """
    problem: str = ""
    """Why no job can be made of what is stored: then `job` has a name and no roles."""
