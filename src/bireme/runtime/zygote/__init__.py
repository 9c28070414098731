"""A warm interpreter that has heavy modules imported and forks ranks on demand."""
