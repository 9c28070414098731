"""One file for each verb: it parses, calls the Python face, and renders what it returns."""
