"""Starts a rank: `python start_rank.py [-m] TARGET args...` runs as `python [-m] TARGET args...` would.

With BIREME_REPORT naming a file, a report is left there. With BIREME_RUNTIME_ZIP, `import bireme` works.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    _started = frozenset(sys.modules)
    if not getattr(sys.flags, "safe_path", False):
        # Our own folder (or, for -m, the current one, which the target's run puts back).
        del sys.path[0]
    if not __package__:
        # Run by path. Our modules get a package of a private name: `bireme` may be another version here,
        # and the names of our files must not shadow the script's.
        _package = type(sys)("_bireme_runtime")
        _package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
        __package__ = _package.__name__
        sys.modules[__package__] = _package
    if len(sys.argv) < 2:
        sys.exit("usage: start_rank.py [-m] TARGET args...")
    from .rank import run_target

    run_target.run(sys.argv[1:], _started)
