"""What the ranks of a run reported, and how TensorBoard reads it."""
