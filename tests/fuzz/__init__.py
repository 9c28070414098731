"""Everything that reads what others wrote, fed with what nobody should have written."""
