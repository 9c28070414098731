"""What the documents say, done."""
