"""A Kubernetes API client: access, requests, watches, exec."""
