"""Which images do tests have: Python, Open MPI, and Open MPI with an ssh server, made from Debian packages.

Frameworks are in none of them: nodes see the machine's files, so a pod mounts the test environment's own.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.testcluster import debian
from tools.testcluster.building import Tell, build, tell
from tools.testcluster.layouts import Start, lay_out, write_image, write_layer
from tools.testcluster.places import ClusterError, cache, locked

RECIPE = "1"
"""Raised when what is done here changes what an image holds."""
PYTHON = "bireme.test/python:3.11"
OPEN_MPI = "bireme.test/openmpi:4"
OPEN_MPI_SSH = "bireme.test/openmpi-ssh:4"
PAUSE = "bireme.test/pause:1"


@dataclass(frozen=True)
class Stage:
    """One layer of packages, on top of the stages before it, and the image that ends with it."""

    name: str
    reference: str
    packages: Sequence[str]
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    commands: Sequence[Sequence[str]] = ()
    """Run inside, once the packages are unpacked."""
    without: Sequence[str] = ()
    """Packages that others ask for and that shall not be there."""
    command: Sequence[str] = ("/bin/bash",)


_SSHD = """Port 22
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
HostKey /etc/ssh/ssh_host_ed25519_key
"""
_SSH = """Host *
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
"""
_COMPILE = ("python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")

STAGES = (
    Stage(
        "python",
        PYTHON,
        ("python3", "python3-pip", "libgomp1", "libquadmath0", "libstdc++6", "bash", "coreutils", "dash",
         "grep", "sed", "hostname", "procps", "base-files", "base-passwd", "netbase", "libc-bin"),
        files={"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n"},
        links={"usr/bin/python": "python3", "usr/bin/sh": "dash", "usr/bin/which": "which.debianutils"},
        commands=(
            ("cp", "/usr/share/base-passwd/passwd.master", "/etc/passwd"),
            ("cp", "/usr/share/base-passwd/group.master", "/etc/group"),
            # As in the usual Python images: pip may install.
            ("rm", "-f", "/usr/lib/python3.11/EXTERNALLY-MANAGED"),
            (*_COMPILE, "-x", "lib2to3|/test/", "/usr/lib/python3.11", "/usr/lib/python3"),
        ),
        command=("python3",),
    ),
    Stage(
        "openmpi",
        OPEN_MPI,
        ("openmpi-bin", "python3-mpi4py", "python3-numpy", "libhwloc15"),
        links={"usr/bin/mpirun": "orterun", "usr/bin/mpiexec": "orterun"},
        commands=(
            # Scripts of the packages would put these libraries where they are looked for.
            ("sh", "-c", "cd /usr/lib/*-linux-gnu && ln -s blas/libblas.so.3 lapack/liblapack.so.3 ."),
            ("sh", "-c", "rm /usr/lib/*/openmpi/lib/openmpi3/mca_mtl_psm.so"),
            ("python3", "-c", "import numpy, mpi4py"),
            (*_COMPILE, "/usr/lib/python3"),
        ),
        without=("openssh",),
    ),
    Stage(
        "openmpi-ssh",
        OPEN_MPI_SSH,
        ("openssh-server", "openssh-client"),
        files={"etc/ssh/sshd_config": _SSHD, "etc/ssh/ssh_config": _SSH},
        commands=(
            ("sh", "-c", "echo sshd:x:100:65534::/run/sshd:/usr/sbin/nologin >> /etc/passwd"),
            ("mkdir", "-p", "-m", "755", "/run/sshd"),
            ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/etc/ssh/ssh_host_ed25519_key"),
        ),
        command=("/usr/sbin/sshd", "-De"),
    ),
)  # fmt: skip
NAMES = ("pause", *(stage.name for stage in STAGES))


def image(name: str, tell: Tell = tell) -> Path:
    """Return the tar file of an image, which is made first where it is not yet."""
    path = _folder() / f"{name}.tar"
    if name not in NAMES:
        raise ClusterError(f"no image is called {name}; there are {', '.join(NAMES)}")
    if path.exists():
        return path
    with locked(_folder().with_suffix(".lock")):
        if not path.exists():
            _folder().mkdir(parents=True, exist_ok=True)
            _make_pause(path, tell) if name == "pause" else _make_stages(tell)
    return path


def make(
    path: Path, reference: str, files: dict[str, Path], start: Start, tell: Tell = tell, base: str = "python"
) -> Path:
    """Make an image of one's own: the Python image, or another of ours, with some files laid over it."""
    image(base, tell)
    names = [stage.name for stage in STAGES]
    below = [_folder() / f"{name}.layer" for name in names[: names.index(base) + 1]]
    with tempfile.TemporaryDirectory() as scratch:
        lay_out(Path(scratch, "root"), files)
        write_layer(Path(scratch, "layer"), Path(scratch, "root"))
        write_image(path, reference, [*below, Path(scratch, "layer")], start)
    return path


def _folder() -> Path:
    key = hashlib.sha256(repr((RECIPE, STAGES)).encode()).hexdigest()[:10]
    return cache() / "images" / key


def _make_pause(path: Path, tell: Tell) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        lay_out(Path(scratch, "root"), {"pause": build("pause", tell)})
        write_layer(Path(scratch, "layer"), Path(scratch, "root"))
        write_image(path, PAUSE, [Path(scratch, "layer")], Start(("/pause",)))


def _make_stages(tell: Tell) -> None:
    tell("making the images from Debian packages, once")
    layers: list[Path] = []
    with tempfile.TemporaryDirectory(dir=_folder()) as scratch:
        root = Path(scratch, "root")
        debian.make_root(root)
        before: set[tuple[object, ...]] = set()
        archives = debian.Archives(Path(scratch))
        for stage in STAGES:
            _fill(stage, archives, root)
            layer = _folder() / f"{stage.name}.layer"
            write_layer(layer, root, lambda file, before=before: _mark(file) not in before)  # type: ignore[misc]
            before = {_mark(file) for file in root.rglob("*")}
            layers.append(layer)
            write_image(
                _folder() / f"{stage.name}.tar", stage.reference, layers, Start(command=stage.command)
            )


def _fill(stage: Stage, archives: debian.Archives, root: Path) -> None:
    archives.unpack(stage.packages, root, without=stage.without)
    for path, content in stage.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    for link, target in stage.links.items():
        (root / link).unlink(missing_ok=True)
        (root / link).symlink_to(target)
    # Programs want one to be there; a real one comes with the container.
    (root / "dev/null").touch()
    for command in stage.commands:
        answer = subprocess.run(["chroot", root, *command], capture_output=True, text=True)
        if answer.returncode != 0:
            told = (answer.stderr or answer.stdout).strip()[-600:]
            raise ClusterError(f"image {stage.name}: {' '.join(command)} failed: {told}")
    (root / "dev/null").unlink()


def _mark(file: Path) -> tuple[object, ...]:
    """Tell a file from what it was before."""
    found = file.lstat()
    # A folder changes whenever something is added to it, and need not be in the layer for that.
    changes = () if file.is_dir() and not file.is_symlink() else (found.st_mtime_ns, found.st_size)
    return (str(file), found.st_mode, found.st_uid, *changes)
