"""Starts an export: `python start_export.py SOURCE TARGET PART FORCE`, in any interpreter that has torch."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    if not __package__:
        # Run by path; start_rank.py says why the name is a private one.
        _package = type(sys)("_bireme_runtime")
        _package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
        __package__ = _package.__name__
        sys.modules[__package__] = _package
    from .checkpoints import exporting

    sys.exit(exporting.main(sys.argv[1:]))
