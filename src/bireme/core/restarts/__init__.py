"""Decisions after a loss: what is counted, what is replaced, when the job fails."""
