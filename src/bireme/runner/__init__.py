"""The entry point of a local job: the engine of one run, with the guard that restarts it."""
