"""Makes the README's picture of a terminal from a real run."""
