"""Jobs in a cluster: found, followed and changed through the API server."""
