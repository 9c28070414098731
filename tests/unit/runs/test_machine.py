"""Is a machine measured by what affinity and cgroups leave of it."""

from __future__ import annotations

import os
from pathlib import Path

from bireme.runs import machine
from bireme.runs.machine import Accelerators

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MIB = 1024**2


def tree(root: Path, files: dict[str, str]) -> Path:
    """Makes what the kernel would show."""
    shown = {"proc/meminfo": "MemTotal:        2048 kB\nMemFree: 1 kB\n", **files}
    for name, text in shown.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_this_machine_has_something_to_give() -> None:
    found = machine.capacity()

    assert 1 <= found.cpu <= CORES * 1000
    assert found.memory > 100 * MIB
    assert found.devices == {}
    assert machine.this_machine() == machine.this_machine()
    assert machine.this_machine().host


def test_without_limits_the_whole_machine_counts(tmp_path: Path) -> None:
    found = machine.capacity(root=tree(tmp_path, {}))

    assert (found.cpu, found.memory) == (CORES * 1000, 2 * MIB)


def test_a_platform_that_tells_nothing_still_has_cores_and_memory(tmp_path: Path) -> None:
    found = machine.capacity(root=tmp_path)

    assert found.cpu == CORES * 1000
    assert found.memory > 100 * MIB
    assert machine.this_machine(tmp_path).boot == ""


def test_the_smallest_limit_of_the_unified_hierarchy_holds(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user.slice/job.scope\n",
            "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/user.slice/cpu.max": "50000 100000\n",
            "sys/fs/cgroup/user.slice/job.scope/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/memory.max": "max\n",
            "sys/fs/cgroup/user.slice/job.scope/memory.max": "1048576\n",
        },
    )

    found = machine.capacity(root=root)

    assert (found.cpu, found.memory) == (500, MIB)


def test_the_older_hierarchies_are_read_too(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n",
            "proc/self/mountinfo": (
                "31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                "32 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            ),
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "25000\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1048576\n",
        },
    )

    found = machine.capacity(root=root)

    assert (found.cpu, found.memory) == (250, MIB)


def test_a_container_that_sees_a_part_of_the_hierarchy_finds_its_limit(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "2:memory:/docker/abc\n",
            "proc/self/mountinfo": "32 25 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup c rw,memory\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "1048576\n",
        },
    )

    assert machine.capacity(root=root).memory == MIB


def test_accelerators_are_what_the_caller_finds() -> None:
    found = machine.capacity(Accelerators({"nvidia.com/gpu": ("0", "1")}, {"nvidia.com/gpu": ("1",)}))

    assert found.devices == {"nvidia.com/gpu": ("0", "1")}
    assert found.busy == {"nvidia.com/gpu": ("1",)}


def test_a_folder_on_a_network_is_shared(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/mountinfo": (
                "20 1 8:1 / / rw - ext4 /dev/vda rw\n"
                "21 20 0:9 / /home rw - nfs4 server:/home rw\n"
                "22 21 0:7 / /home/local\\040disk rw - xfs /dev/vdb rw\n"
            )
        },
    )

    assert machine.is_shared(Path("/home/ann"), root)
    assert not machine.is_shared(Path("/srv"), root)
    assert not machine.is_shared(Path("/home/local disk/x"), root)
