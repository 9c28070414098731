"""A job that nobody can make sense of fails once, with the reason."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.core import validation
from bireme.model.decisions import Event, EventType
from bireme.model.status import Phase, Status
from tests.unit.core.world import workers

NAMED = replace(workers(), roles=())


def test_it_fails_with_what_is_wrong() -> None:
    decision = validation.reject(NAMED, Status(), "spec has no replicas", 7.0)

    message = "PyTorchJob mnist is not valid: spec has no replicas"
    assert (decision.status.phase, decision.status.completed) == (Phase.FAILED, 7.0)
    assert decision.status.conditions[-1].message == message
    assert decision.events == (Event(EventType.WARNING, "PyTorchJobFailedValidation", message),)
    assert not decision.actions


def test_it_fails_once() -> None:
    failed = validation.reject(NAMED, Status(), "spec has no replicas", 7.0).status

    again = validation.reject(NAMED, failed, "spec has no replicas", 8.0)

    assert (again.status, again.events) == (failed, ())
