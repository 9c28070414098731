"""How a job and its code get into a cluster."""
