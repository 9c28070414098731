"""A real Kubernetes on one machine, for tests and benchmarks: `python -m tools.testcluster up`."""
