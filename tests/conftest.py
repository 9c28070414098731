"""What holds for every test, however the tests were started."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background, or nohup, has them ignore these signals, and every process
# of theirs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _one in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_one, signal.SIG_DFL)
