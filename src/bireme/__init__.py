"""Runs distributed training jobs on this machine or on a cluster."""

__version__ = "0.1.0"
