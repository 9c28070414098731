"""Finds the Python of a job: the active environment's, unless another is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from bireme import errors


def find(environ: Mapping[str, str], chosen: str = "") -> str:
    """The interpreter of the user's code, as an absolute path."""
    path = environ.get("PATH", os.defpath)
    if chosen:
        found = shutil.which(chosen, path=path)
        if found is None and os.path.isdir(chosen):
            found = shutil.which(os.path.join(chosen, "bin", "python"))
        if found is None:
            raise errors.BadInput(
                f"there is no interpreter {chosen}", hint="give --python an executable file"
            )
        return os.path.abspath(found)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = environ.get(variable)
        if prefix:
            python = os.path.join(prefix, "bin", "python")
            if os.access(python, os.X_OK):
                return python
    found = shutil.which("python3", path=path) or shutil.which("python", path=path)
    if found is None:
        raise errors.BadInput("there is no python3 on PATH", hint="--python /path/to/python")
    return os.path.abspath(found)


def search_path(environ: Mapping[str, str], python: str) -> str:
    """Where programs of a job are looked for: beside its interpreter first."""
    return os.pathsep.join([os.path.dirname(python), environ.get("PATH", os.defpath)])
