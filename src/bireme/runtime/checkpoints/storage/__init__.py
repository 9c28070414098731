"""Where checkpoints are stored, in which format, and which run owns the place."""
