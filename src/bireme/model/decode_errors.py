"""What decoding may raise where the bytes are of others."""

from __future__ import annotations

import msgspec

# Beside its own errors msgspec raises Python's: one for texts that are not UTF-8, one for deep nesting.
DAMAGED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
