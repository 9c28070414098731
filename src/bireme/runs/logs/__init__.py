"""The logs of a run: written, read, and searched for numbers."""
