"""Measures how a tree of Python reads: its tails, its folders, its helpers, its names."""
