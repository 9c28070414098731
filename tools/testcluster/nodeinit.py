"""What does the first process of a node do: arrange its private world, then keep its programs running.

It runs as a plain script inside new namespaces, so it imports nothing but the standard library. Its death is
the node's power loss: the kernel ends everything else in its process namespace.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any  # what the starter wrote is JSON

# What the kubelet wants to be so. These belong to the whole machine, so it gets files of its own to write to.
KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
}
PAUSE = 0.5
"""Seconds until a program that ended is started again."""


def main(path: str) -> None:
    plan = json.loads(Path(path).read_text())
    # /proc is still the machine's, so this is the number by which the machine knows us.
    scratch = Path(plan["pid_file"] + ".new")
    scratch.write_text(os.readlink("/proc/self"))
    scratch.rename(plan["pid_file"])
    socket.sethostname(plan["name"])
    _own_mounts(plan)
    _own_network(plan["network"])
    _keep_running(plan["programs"], Path(plan["logs"]))


def _own_mounts(plan: dict[str, Any]) -> None:
    _run("mount", "-t", "proc", "proc", "/proc")
    _run("mount", "-t", "sysfs", "sysfs", "/sys")
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    if plan["cgroups"] == "v2":
        _cgroups_v2()
    elif plan["cgroups"]:
        _cgroups_v1(plan["cgroups"])
    for inside, outside in plan["binds"].items():
        os.makedirs(inside, exist_ok=True)
        os.makedirs(outside, exist_ok=True)
        _run("mount", "--bind", outside, inside)
    if plan["cpus"]:
        _kernel_settings(Path("/run/kernel"))
        _processors(Path("/run/processors"), plan["cpus"])
    _run("mount", "--make-rshared", "/")


def _cgroups_v1(hierarchies: dict[str, str]) -> None:
    """Mount each hierarchy as this node sees it: its own group is the root."""
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/sys/fs/cgroup")
    for folder, controllers in hierarchies.items():
        path = f"/sys/fs/cgroup/{folder}"
        os.mkdir(path)
        option = f"none,{controllers}" if controllers.startswith("name=") else controllers
        _run("mount", "-t", "cgroup", "-o", option, "cgroup", path)


def _cgroups_v2() -> None:
    _run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
    # A group that hands controllers to its children may hold no process itself.
    Path("/sys/fs/cgroup/init").mkdir()
    Path("/sys/fs/cgroup/init/cgroup.procs").write_text("0")
    controllers = Path("/sys/fs/cgroup/cgroup.controllers").read_text().split()
    Path("/sys/fs/cgroup/cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in controllers))


def _kernel_settings(folder: Path) -> None:
    for name, value in KERNEL.items():
        own = folder / name
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(f"{value}\n")
        _run("mount", "--bind", str(own), f"/proc/sys/{name}")


def _processors(folder: Path, wanted: int) -> None:
    """Show more processors than the machine has, so that pods may ask for more; all share the real ones."""
    real = Path("/sys/devices/system/cpu")
    folder.mkdir()
    # A made-up `online` ends the kubelet.
    shutil.copyfile(real / "online", folder / "online")
    for number in range(max(wanted, os.cpu_count() or 1)):
        own = folder / f"cpu{number}" / "topology"
        own.parent.mkdir()
        if (real / f"cpu{number}").exists():
            own.mkdir()
            for fact in ("core_id", "physical_package_id"):
                shutil.copyfile(real / f"cpu{number}" / "topology" / fact, own / fact)
    _run("mount", "--bind", str(folder), str(real))
    (folder.parent / "none").mkdir()
    if Path("/sys/devices/system/node").exists():
        _run("mount", "--bind", str(folder.parent / "none"), "/sys/devices/system/node")


def _own_network(network: dict[str, Any]) -> None:
    _run("ip", "link", "set", "lo", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    device = network["device"]
    if network["bridge"]:
        _run("ip", "link", "add", device, "type", "bridge")
    # The starter puts one end of a cable here, from within the control plane's namespace.
    while not Path(f"/sys/class/net/{device}").exists():
        time.sleep(0.01)
    _run("ip", "address", "add", network["address"], "dev", device)
    _run("ip", "link", "set", device, "up")
    for target, hop in network["routes"].items():
        _run("ip", "route", "add", target, *(["via", hop] if hop else ["dev", device]))


def _keep_running(programs: dict[str, dict[str, Any]], logs: Path) -> None:
    # Blocked, the signal waits until we ask for it: no death is missed, and no time is spent on looking.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    running: dict[int, str] = {}
    due = dict.fromkeys(programs, 0.0)
    while True:
        for name in [
            one for one, when in due.items() if when <= time.monotonic() and _can_start(programs[one])
        ]:
            running[_start(programs[name]["argv"], logs / f"{name}.log")] = name
            del due[name]
        # Orphans of the namespace end up here too, and are reaped with the rest.
        pid, _ = os.waitpid(-1, os.WNOHANG) if running else (0, 0)
        if pid in running:
            due[running.pop(pid)] = time.monotonic() + PAUSE
        elif pid == 0:
            signal.sigtimedwait({signal.SIGCHLD}, 0.05 if due else 60.0)


def _can_start(program: dict[str, Any]) -> bool:
    return not program["after"] or os.path.exists(program["after"])


def _start(argv: list[str], log: Path) -> int:
    return os.posix_spawnp(
        argv[0],
        argv,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
    )


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


if __name__ == "__main__":
    main(sys.argv[1])
