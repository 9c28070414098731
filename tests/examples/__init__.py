"""Every example, run as its README says."""
