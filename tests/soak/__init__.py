"""Long hammering: `make soak` runs it, `make test` does not."""
