"""The cluster entry point: one process that runs every job of a cluster."""
