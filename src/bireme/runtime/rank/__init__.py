"""Everything around a script while it runs as a rank: its start, its streams, its report."""
