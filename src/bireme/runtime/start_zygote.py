"""Starts a zygote: `python start_zygote.py --socket PATH --preload a,b,c --idle SECONDS --memory BYTES`.

It imports the modules, then forks ranks for runners that connect to the socket (see wire.py), and ends by
itself when no runner needed it for a while. Of several started for one socket, one serves, the others end.
Exit status: 0 fine, 2 bad folder or arguments, 3 an import made forking unsafe, or it holds more than
BYTES (also told in PATH.refused).
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    _started = frozenset(sys.modules)
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    if not __package__:
        # Run by path; start_rank.py says why the name is a private one.
        _package = type(sys)("_bireme_runtime")
        _package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
        __package__ = _package.__name__
        sys.modules[__package__] = _package
    from .zygote import zygote_main

    sys.exit(zygote_main.main(sys.argv[1:], _started))
