"""How a script reaches a cluster: pure parts."""
