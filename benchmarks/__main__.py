"""Runs every benchmark, one after the other."""

import importlib

from tools.testcluster.places import ClusterError

for name in (
    "cli",
    "launch",
    "restart",
    "overhead",
    "report",
    "checkpoint",
    "controller.__main__",
    "controller.crowding",
    "start.__main__",
):
    print(f"\n== benchmarks.{name.removesuffix('.__main__')}", flush=True)
    try:
        importlib.import_module(f"benchmarks.{name}").main()
    except ClusterError as error:
        print(f"left out: {error}", flush=True)
