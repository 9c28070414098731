"""This machine as a place to run jobs: replicas are process groups."""
