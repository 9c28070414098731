"""Decisions about replicas: which ones are started and stopped, and what each one runs."""
