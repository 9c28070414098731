"""Stores checkpoints: places, format, and the run that owns a place."""
