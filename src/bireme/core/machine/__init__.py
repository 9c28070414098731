"""Decisions about a whole machine: which jobs start, which runs are kept, what is shown as progress."""
