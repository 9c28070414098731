"""Checks and supplies what a job needs of this machine, before it starts."""
