"""What is in the operator's image where no Docker builds it: the files of a layer over a Python 3.11 image.

The Dockerfile says the same for those who have Docker; a test compares the two.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.testcluster import images
from tools.testcluster.layouts import PATH, Start

from bireme.operator.install import operator_objects

# With a place of its own before it: a bare name would be looked for in a public registry.
REFERENCE = f"bireme.test/{operator_objects.IMAGE}"
ROOT = "/app"
USER = "65532:65532"
ENTRYPOINT = ["python3", "-m", "bireme.cli"]
COMMAND = ["operator", "--leader-elect"]
ENVIRONMENT = {"PYTHONPATH": ROOT, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}

SOURCE = Path(__file__).resolve().parents[2] / "src"


def layer() -> dict[str, Path]:
    """The file behind every path of the layer: Bireme, and the packages that the operator needs."""
    ours = {f"{ROOT}/{path.relative_to(SOURCE)}": path for path in sorted((SOURCE / "bireme").rglob("*"))}
    found = {name: path for name, path in ours.items() if path.is_file() and "__pycache__" not in path.parts}
    for package in packages():
        found |= _files(package)
    return found


def build(path: Path) -> Path:
    """Writes the image as a tar file that containerd can import."""
    environ = [PATH, *(f"{name}={value}" for name, value in ENVIRONMENT.items())]
    start = Start(ENTRYPOINT, COMMAND, USER, environ=environ)
    return images.make(path, REFERENCE, layer(), start)


def packages() -> list[Distribution]:
    """The installed packages that Bireme needs with its extra for Kubernetes."""
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["project"]
    waiting = [*project["dependencies"], *project["optional-dependencies"]["kubernetes"]]
    found: dict[str, Distribution] = {}
    while waiting:
        wanted = Requirement(waiting.pop())
        name = canonicalize_name(wanted.name)
        if name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found[name] = distribution(name)
            waiting += found[name].requires or []
    return [package for _, package in sorted(found.items())]


def _files(package: Distribution) -> dict[str, Path]:
    found = {}
    for file in package.files or []:
        # Programs lie outside of the packages' folder, and bytecode is of this machine.
        if ".." not in file.parts and "__pycache__" not in file.parts:
            found[f"{ROOT}/{file}"] = Path(str(package.locate_file(file)))
    return found
