"""Runs the checks and the tests, two suites at a time, and says how long each one takes."""
