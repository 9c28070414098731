"""From the text a user writes to jobs, with file, line and column in every diagnostic."""
