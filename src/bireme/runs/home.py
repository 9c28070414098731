"""The folder that holds all runs of a user."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from bireme import errors
from bireme.runs.storage import files

VARIABLE = "BIREME_HOME"


def home(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Returns the folder that holds all runs of this user, and makes it if it is missing."""
    path = place(environ, platform)
    if path.exists() and not path.is_dir():
        raise errors.BadInput(f"{path} is not a folder", hint=f"set {VARIABLE} to a folder for your runs")
    with files.explained(path):
        path.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
    return path


def place(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Returns where that folder is: `BIREME_HOME`, or in the platform's folder for data."""
    if chosen := environ.get(VARIABLE):
        return Path(chosen).expanduser().absolute()
    user = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    if platform == "darwin":
        return user / "Library" / "Application Support" / "bireme"
    data = Path(environ.get("XDG_DATA_HOME", ""))
    # The XDG specification says that a relative path is to be ignored.
    return (data if data.is_absolute() else user / ".local" / "share") / "bireme"
