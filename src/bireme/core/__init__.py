"""Decides what happens next, in pure functions: one decision per file.

Values in, values out. Time is an argument; nothing here reads a clock, a file, a variable or the network.
"""
