"""What a person sees on a terminal: pure functions of values."""
