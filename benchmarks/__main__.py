"""Runs every benchmark, one after the other."""

from benchmarks import cli, launch, overhead, restart

for one in (cli, launch, restart, overhead):
    print(f"\n== {one.__name__}", flush=True)
    one.main()
