"""Which programs can be built, and from which exact sources."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tools.testcluster.places import HERE, cache

KUBERNETES_VERSION = "v1.35.8"
_STAMP = "k8s.io/component-base/version"


@dataclass(frozen=True)
class Recipe:
    """How one program is built: from a folder of ours, or from a module of the Go module proxy."""

    name: str
    version: str
    package: str = "."
    folder: Path | None = None
    module: str = ""
    checksum: str = ""
    """Of the module's files, as in go.sum; a folder of ours has a go.sum of its own."""
    flags: str = "-s -w"
    aliases: tuple[str, ...] = ()
    """Other names that the program is called by."""

    @property
    def key(self) -> str:
        """Name the result, so that whatever changes it is built anew."""
        told = [self.package, self.module, self.checksum, self.flags]
        if self.folder:
            told += [file.read_text() for file in sorted(self.folder.iterdir())]
        return f"{self.name}-{self.version}-{hashlib.sha256(chr(0).join(told).encode()).hexdigest()[:10]}"

    @property
    def program(self) -> Path:
        return cache() / "programs" / self.key / self.name


PAUSE = Recipe(name="pause", version="1", folder=HERE / "pause")

KUBERNETES = Recipe(
    name="kubernetes",
    version=KUBERNETES_VERSION,
    folder=HERE / "kubernetes",
    aliases=("kubectl",),
    flags=f"-s -w -X {_STAMP}.gitVersion={KUBERNETES_VERSION} -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor=35"
    f" -X {_STAMP}.gitTreeState=clean",
)

KWOK = Recipe(
    name="kwok",
    version="v0.8.0",
    package="./cmd/kwok",
    module="sigs.k8s.io/kwok",
    checksum="h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=",
)

TRAINING_OPERATOR = Recipe(
    name="training-operator",
    version="v1.9.3",
    package="./cmd/training-operator.v1",
    module="github.com/kubeflow/training-operator",
    checksum="h1:aaSHqskOtCY8Dn8sVd+l9p5XAczW6O0nYMPjVLAw/lc=",
)

KUEUE = Recipe(
    name="kueue",
    version="v0.14.0",
    package="./cmd/kueue",
    module="sigs.k8s.io/kueue",
    checksum="h1:lDR34L42/k17opLfkZbZ+taymLaPpryj3ZBbvKqs/N4=",
)

SCHEDULER_PLUGINS = Recipe(
    name="scheduler-plugins",
    version="v0.34.1-devel",
    package="./cmd/scheduler",
    module="sigs.k8s.io/scheduler-plugins",
    checksum="h1:tT0/rFgjM7+VVDTKkcjA/XxhpYgRyq+RV0P7QW1Pxvo=",
)

VOLCANO = Recipe(
    name="volcano",
    version="v1.10.0",
    package="./cmd/scheduler",
    module="volcano.sh/volcano",
    checksum="h1:+GzQinGgeV0j58WpWpxByOXgF+YfUPW55zghM8GqjF0=",
)

MPI_OPERATOR = Recipe(
    name="mpi-operator",
    version="v0.6.0",
    package="./cmd/mpi-operator",
    module="github.com/kubeflow/mpi-operator",
    checksum="h1:RzzG03oyQIiHe/SH2k19N+Hp4QkxEsG2l9G1T7US+ys=",
)

RECIPES = {
    one.name: one
    for one in (KUBERNETES, PAUSE, KWOK, TRAINING_OPERATOR, KUEUE, SCHEDULER_PLUGINS, VOLCANO, MPI_OPERATOR)
}
