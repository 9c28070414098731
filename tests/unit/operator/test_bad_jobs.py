"""`bireme check` refuses what the API server refuses; tests/cluster/test_crds.py asks the server itself."""

from __future__ import annotations

import pytest

from tests.unit.manifest.samples import refusal
from tests.unit.operator.bad_jobs import BAD, Bad


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_job_is_refused_by_check(bad: Bad) -> None:
    assert any(bad.checked in diagnostic for diagnostic in refusal(bad.manifest))
