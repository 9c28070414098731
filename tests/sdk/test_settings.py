"""What a user has set for good is read from variables and from a file, and mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme import errors
from bireme.core.retention import Limits
from bireme.sdk import settings


def test_without_settings_everything_is_kept(tmp_path: Path) -> None:
    assert settings.limits(tmp_path, {}) == Limits()
    assert not settings.limits(tmp_path, {})


def test_a_variable_comes_before_the_file(tmp_path: Path) -> None:
    (tmp_path / settings.CONFIG).write_text('keep_age = "30d"\nkeep_runs = 200\nkeep_size = "20Gi"\n')

    found = settings.limits(tmp_path, {"BIREME_KEEP_AGE": "12h"})

    assert found == Limits(age=43200.0, runs=200, size=20 * 2**30)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('keep_age = "long"', "is not a duration"),
        ("keep_runs = -1", "is not a number of runs"),
        ('keep_size = "-1"', "less than nothing"),
        ("keep_size = 5", "keep_size is not a text"),
        ("keep_runs = true", "keep_runs is not a text"),
        ('keeps = "1"', "unknown setting 'keeps'"),
        ("keep_age", "cannot be read"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / settings.CONFIG).write_text(text)

    with pytest.raises(errors.BadInput) as caught:
        settings.limits(tmp_path, {})

    assert told in str(caught.value)
    assert "config.toml" in str(caught.value)
