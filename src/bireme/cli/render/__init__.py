"""Turns values into the text that a person sees on a terminal. Pure."""
