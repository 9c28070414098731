"""The page about manifests names every field, kind and annotation, and its examples are read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bireme import kinds
from bireme.manifest import run_policy, short_form
from bireme.model.job import (
    ENVIRONMENT_ANNOTATION,
    EVICTION_LIMIT_ANNOTATION,
    METRICS_ANNOTATION,
    RESTART_ANNOTATION,
)
from tests.unit.manifest.samples import reading

PAGE = (Path(__file__).parents[3] / "docs" / "manifests.md").read_text("utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("field", short_form.FIELDS)
def test_every_field_of_the_short_form_is_explained(field: str) -> None:
    assert any(row.startswith(f"| `{field}` |") for row in ROWS)


@pytest.mark.parametrize("kind", kinds.BY_NAME)
def test_every_kind_is_explained(kind: str) -> None:
    (row,) = [row for row in ROWS if row.startswith(f"| {kind} |")]
    module = kinds.named(kind)

    assert module.specs in row
    for version in module.api_versions:
        assert version in row or f"`{version.rpartition('/')[2]}`" in row
        assert all(role.key in row for role in module.role_types(version) if module.specs)


@pytest.mark.parametrize(
    "annotation",
    [
        RESTART_ANNOTATION,
        ENVIRONMENT_ANNOTATION,
        EVICTION_LIMIT_ANNOTATION,
        METRICS_ANNOTATION,
        run_policy.ELASTIC_MIN_ANNOTATION,
    ],
)
def test_every_annotation_is_explained(annotation: str) -> None:
    assert any(row.startswith(f"| `{annotation}` |") for row in ROWS)


def test_examples_are_read() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

    assert examples
    for text in examples:
        assert reading(text).warnings == ()
