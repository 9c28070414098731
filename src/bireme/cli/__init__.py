"""The command line: one file per verb, which parses, calls the Python face, and renders what it returns."""
