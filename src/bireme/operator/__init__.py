"""The cluster entry point: one process that carries on every job of a cluster."""
