"""Derives the states of replicas from watched pods and nodes, by pure functions."""
