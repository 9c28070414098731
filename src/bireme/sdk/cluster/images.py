"""Chooses an image for a script: the configured one, or one with what is installed here."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bireme import errors
from bireme.sdk import frameworks, settings

VARIABLE = "BIREME_IMAGE"

_PACKAGES = {
    "torch": ("torch", "lightning", "pytorch_lightning", "torchvision", "transformers", "accelerate"),
    "tensorflow": ("tensorflow", "keras"),
    "paddlepaddle": ("paddle",),
    "jax": ("jax", "flax"),
}
"""By which imports a script is known to need a framework."""
_ASK_CUDA = """
import importlib.util, pathlib, re
folder = importlib.util.find_spec("torch").submodule_search_locations[0]
found = re.search(r"cuda[^=]*= *'([0-9.]+)'", pathlib.Path(folder, "version.py").read_text())
print(found[1] if found else "")
"""
_PATIENCE = 10.0
_USUAL_CUDA = "12.8"
"""For a torch without CUDA: the image works on nodes without GPUs too."""


def configured(home: Path, environ: Mapping[str, str]) -> str:
    """The image that BIREME_IMAGE or the file config.toml in the home names; empty if none does."""
    return settings.given(home, environ, "image")[0]


def missing(script: Path, environ: Mapping[str, str]) -> errors.BadInput:
    """The error for a script without an image, with one that fits."""
    image = suggested(script, environ)
    return errors.BadInput(
        "a script needs an image to run in a cluster: it brings Python and the framework",
        hint=f"add --image {image}\nto use it always: export {VARIABLE}={image}",
    )


def suggested(script: Path, environ: Mapping[str, str]) -> str:
    """An image with the framework that the script imports, in the version that is installed here."""
    here = frameworks.interpreter(environ, "")
    if here is None:
        return "python:3"
    installed = {name.removesuffix("-cpu"): version for name, version in here.frameworks.items()}
    wanted = _framework(script)
    framework = wanted if wanted in installed else next((name for name in _PACKAGES if name in installed), "")
    version = installed.get(framework, "").partition("+")[0]
    match framework if not wanted or wanted == framework else "":
        case "torch":
            cuda = ""
            with suppress(OSError, subprocess.SubprocessError):
                words = [here.path, "-c", _ASK_CUDA]
                answer = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, check=False)
                cuda = answer.stdout.strip()
            return f"pytorch/pytorch:{version}-cuda{cuda or _USUAL_CUDA}-cudnn9-runtime"
        case "tensorflow":
            return f"tensorflow/tensorflow:{version}"
        case "paddlepaddle":
            return f"paddlepaddle/paddle:{version}"
        case _:
            return f"python:{'.'.join(here.version.split('.')[:2]) or '3'}"


def _framework(script: Path) -> str:
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ""
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.partition(".")[0])
    return next((name for name, roots in _PACKAGES.items() if imported & set(roots)), "")
