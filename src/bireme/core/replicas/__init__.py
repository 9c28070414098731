"""Decides which replicas are started and stopped, and what each one runs."""
