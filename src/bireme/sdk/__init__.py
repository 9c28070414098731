"""The Python face of Bireme: what the command line does, as a class, with the same values and errors."""
