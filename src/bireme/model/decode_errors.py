"""Names the errors that decoding raises for bytes that others wrote."""

from __future__ import annotations

import msgspec

# Beside its own errors msgspec raises Python's: one for texts that are not UTF-8, one for deep nesting.
DAMAGED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
