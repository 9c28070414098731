"""The loop that carries decisions out; the only reader of the clock."""
