"""What is taken from Debian: the programs that a node needs, and the content of the images."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.testcluster.building import Tell
from tools.testcluster.places import ClusterError, Missing

# Each program that a node needs, and the package that brings it.
PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "nft": "nftables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
# Scripts of packages are never run in an image, so what only they need stays out.
UNUSED = (
    "perl",
    "libperl",
    "usrmerge",
    "debconf",
    "dpkg",
    "adduser",
    "libtext-",
    "libfile-",
    "libnumber-",
    "ucf",
)
LEFT_OUT = (
    "./usr/share/doc",
    "./usr/share/man",
    "./usr/share/locale",
    "./usr/share/lintian",
    "./usr/share/info",
)
MERGED = ("bin", "sbin", "lib", "lib64")


def missing() -> list[str]:
    """Name the packages that a node needs and this machine lacks."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return sorted({package for program, package in PROGRAMS.items() if not shutil.which(program, path=path)})


def install_missing(tell: Tell) -> None:
    """Install what a node needs, where this user may."""
    packages = missing()
    if not packages:
        return
    wanted = " ".join(packages)
    if os.geteuid() != 0:
        raise Missing(f"a cluster with nodes needs root, and these packages: {wanted}")
    if not shutil.which("apt-get"):
        raise Missing(f"this machine has no apt-get; install what Debian calls {wanted}")
    tell(f"installing {wanted}")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *packages]):
        # Another install on this machine may hold the lock for a while.
        command = ["apt-get", "-o", "DPkg::Lock::Timeout=300", *words]
        answer = subprocess.run(command, env=environ, capture_output=True, text=True)
        if answer.returncode != 0:
            raise ClusterError(f"apt-get {words[0]} failed: {answer.stderr.strip()[-600:]}")


def make_root(root: Path) -> None:
    """Make the folders that packages are unpacked into."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in ("dev", "etc", "proc", "root", "run", "sys", "tmp", "var/tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    (root / "root").chmod(0o700)


class Archives:
    """Brings packages for one folder; each is unpacked there once."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._unpacked: set[str] = set()

    def unpack(self, packages: Sequence[str], root: Path, *, without: Sequence[str] = ()) -> None:
        """Unpack packages and all they depend on; none of their scripts is run."""
        for archive in self._download(packages):
            if archive.name not in self._unpacked and not archive.name.startswith((*UNUSED, *without)):
                _extract(archive, root)
                self._unpacked.add(archive.name)

    def _download(self, packages: Sequence[str]) -> list[Path]:
        folder = self._scratch / "archives"
        (folder / "partial").mkdir(parents=True, exist_ok=True)
        # As if nothing were installed, so that every dependency comes too.
        (self._scratch / "status").touch()
        options = {
            "Dir::State::status": self._scratch / "status",
            "Dir::Cache::archives": folder,
            "Debug::NoLocking": 1,
            "APT::Install-Recommends": 0,
            "APT::Sandbox::User": "root",
            "pkgCacheGen::ForceEssential": ",",
        }
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        command = ["apt-get", *words, "install", "--download-only", "-y", "-qq", *packages]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode != 0:
            raise ClusterError(
                f"apt-get could not bring {' '.join(packages)}: {answer.stderr.strip()[-600:]}"
            )
        return sorted(folder.glob("*.deb"))


def _extract(archive: Path, root: Path) -> None:
    skipped = [f"--exclude={path}" for path in LEFT_OUT]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as source:
        tar = ["tar", "-x", "-C", str(root), "--keep-directory-symlink", *skipped]
        answer = subprocess.run(tar, stdin=source.stdout, capture_output=True, text=True)
    if source.returncode != 0 or answer.returncode != 0:
        raise ClusterError(f"{archive.name} could not be unpacked: {answer.stderr.strip()}")
