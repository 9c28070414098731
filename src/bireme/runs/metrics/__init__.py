"""Reads what the ranks of a run reported, and shows it to TensorBoard."""
