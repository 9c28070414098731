"""The state of a script (tensors, arrays, plain values) taken for a checkpoint and put back."""
