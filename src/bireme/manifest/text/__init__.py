"""Text of a manifest as trees of values that know their file, line and column."""
