"""Runs jobs on a Kubernetes cluster: the client, the objects, and the backend over them.

The modules that speak HTTP need the extra `bireme[kubernetes]`; importing one without it says so.
"""
