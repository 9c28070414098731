"""Reads what a script's command line and output say."""
