"""Brings a job and its code into a cluster."""
