"""How does a new node have its images at once: each is unpacked one single time, and linked to.

What containerd keeps of an image never changes, so hard links to it are as good as copies, and cost neither
time nor space. Only its databases are written to, and are copied.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.testcluster import images, processes
from tools.testcluster.building import Tell, tell
from tools.testcluster.places import ClusterError, cache, locked

CONFIG = """version = 2
root = "{root}"
state = "{scratch}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = "{scratch}/socket"
[ttrpc]
address = "{scratch}/socket.ttrpc"
"""
STARTED_WITHIN = 30.0


def stock(tell: Tell = tell) -> Path:
    """Return containerd's folder with every image of ours in it, made first where it is not yet."""
    archives = [images.image(name, tell) for name in images.NAMES]
    version = subprocess.run(["containerd", "--version"], capture_output=True, text=True, check=True).stdout
    told = "\n".join([version, *map(str, archives)])
    folder = cache() / "stocks" / hashlib.sha256(told.encode()).hexdigest()[:10]
    if folder.exists():
        return folder
    with locked(folder.with_suffix(".lock")):
        if not folder.exists():
            tell("unpacking the images, once")
            _make(folder, archives)
    return folder


def give(source: Path, target: Path) -> None:
    """Give a node its own containerd folder, unless it has one from before a power loss."""
    if target.exists():
        return
    subprocess.run(["cp", "--archive", "--link", str(source), str(target)], check=True)
    for database in source.rglob("*.db"):
        own = target / database.relative_to(source)
        own.unlink()
        shutil.copyfile(database, own)


def _make(folder: Path, archives: list[Path]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        scratch = Path(name)
        (scratch / "config.toml").write_text(CONFIG.format(root=scratch / "root", scratch=scratch))
        # In a mount namespace of its own, so that what it mounts goes with it, whatever happens.
        words = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "containerd",
            "--config",
            str(scratch / "config.toml"),
        ]
        containerd = processes.spawn("containerd", words, scratch / "log")
        try:
            _import(scratch, archives)
        finally:
            processes.end([containerd])
        (scratch / "root").rename(folder)


def _import(scratch: Path, archives: list[Path]) -> None:
    ctr = ["ctr", "--address", str(scratch / "socket"), "--namespace", "k8s.io", "images"]
    if not processes.until(lambda: _succeeds([*ctr, "list"]), STARTED_WITHIN):
        raise ClusterError(
            f"containerd did not answer within {STARTED_WITHIN:.0f} s:\n{(scratch / 'log').read_text()}"
        )
    for archive in archives:
        answer = subprocess.run([*ctr, "import", str(archive)], capture_output=True, text=True)
        if answer.returncode != 0:
            raise ClusterError(f"{archive} could not be unpacked: {answer.stderr.strip()}")


def _succeeds(words: list[str]) -> bool:
    return subprocess.run(words, capture_output=True).returncode == 0
