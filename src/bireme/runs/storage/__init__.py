"""Files, locks and the database: what survives a crash and a full disk."""
