"""Lets `python -m bireme.cli` be `bireme`."""

from bireme.cli.main import main

main()
