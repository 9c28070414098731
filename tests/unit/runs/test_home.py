"""Is the home where the platform keeps data, and private."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme import errors
from bireme.runs.home import home, place


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({"BIREME_HOME": "/srv/runs", "HOME": "/home/ann"}, "linux", "/srv/runs"),
        ({"HOME": "/home/ann"}, "linux", "/home/ann/.local/share/bireme"),
        ({"HOME": "/home/ann", "BIREME_HOME": ""}, "linux", "/home/ann/.local/share/bireme"),
        ({"HOME": "/home/ann", "XDG_DATA_HOME": "/data"}, "linux", "/data/bireme"),
        ({"HOME": "/home/ann", "XDG_DATA_HOME": "relative"}, "linux", "/home/ann/.local/share/bireme"),
        ({"HOME": "/Users/ann"}, "darwin", "/Users/ann/Library/Application Support/bireme"),
    ],
)
def test_the_home_is_where_the_platform_keeps_data(
    environ: dict[str, str], platform: str, expected: str
) -> None:
    assert place(environ, platform) == Path(expected)


def test_the_home_is_made_for_its_user_alone(tmp_path: Path) -> None:
    made = home({"BIREME_HOME": str(tmp_path / "deep" / "home")})

    assert made.stat().st_mode & 0o777 == 0o700
    assert home({"BIREME_HOME": str(made)}) == made


def test_a_file_in_its_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")

    with pytest.raises(errors.BadInput, match="is not a folder"):
        home({"BIREME_HOME": str(tmp_path / "home")})
