"""Horovod, compiled for the torch of this environment."""
