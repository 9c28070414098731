"""What should happen next: decisions as pure functions, one question per file.

Values in, values out. Time is an argument; nothing here reads a clock, a file, a variable or the network.
"""
