"""What a user has set for good is read from variables and from a file, and mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme import errors
from bireme.core.machine.retention import Limits
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
        ('keep_age = "30"', "'30' has no unit, did you mean 30d?"),
        ('keep_size = "20"', "'20' has no unit, did you mean 20Gi?"),
        ('keep_size = "20m"', "did you mean 20Mi?"),
        ("keep_size = 20", 'keep_size = "20Gi"'),
        ("keep_age = 30", 'keep_age = "30d"'),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / settings.CONFIG).write_text(text)

    with pytest.raises(errors.BadInput) as caught:
        settings.limits(tmp_path, {})

    assert told in str(caught.value)
    assert "config.toml" in str(caught.value)


def test_a_number_without_a_unit_in_a_variable_is_refused_there_alone(tmp_path: Path) -> None:
    (tmp_path / settings.CONFIG).write_text('keep_age = "30d"\n')

    with pytest.raises(errors.BadInput) as caught:
        settings.limits(tmp_path, {"BIREME_KEEP_SIZE": "20"})

    assert caught.value.where == "BIREME_KEEP_SIZE"


def test_nothing_and_a_size_in_bytes_need_no_unit(tmp_path: Path) -> None:
    found = settings.limits(tmp_path, {"BIREME_KEEP_SIZE": "21474836480", "BIREME_KEEP_AGE": "0"})

    assert found == Limits(age=0.0, size=20 * 2**30)
