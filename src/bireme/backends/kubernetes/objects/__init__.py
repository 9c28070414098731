"""The objects of a cluster that we make and read: pure functions and typed values."""
