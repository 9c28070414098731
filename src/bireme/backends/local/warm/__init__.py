"""Warm starts: ranks forked from zygotes that have their modules imported already."""
