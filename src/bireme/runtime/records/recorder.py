"""Records what a training script reports: in a few microseconds, and safe from a kill of the process.

Nothing here raises into the training or waits for a disk. What cannot be kept is said once and counted.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
import struct
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, Mapping, Optional, Set, Tuple, Union  # Any: see `scalars`

from . import framework_values
from .framework_values import DeviceCopy
from .record_file import RecordFile
from .record_format import (
    LARGEST,
    FileOpened,
    Histogram,
    Image,
    Params,
    ScalarsLayout,
    Text,
    encode,
    encode_name,
)

RETRY_AFTER = 5.0
"""Seconds until a disk that was full, or a folder that was not writable, is tried again."""
MOST_COPIES = 10_000
_MOST_FORMS = 4096

_living: weakref.WeakSet[Recorder] = weakref.WeakSet()
_hooked = False


class Recorder:
    """Writes what one rank reports; several threads may use it, and forked processes.

    When `scalars` returns, plain numbers outlive a kill -9. Numbers that an accelerator has not computed yet
    are recorded, in their order, by the first call after they were copied, or by `close`.
    """

    def __init__(
        self,
        folder: str,
        rank: int,
        attempt: int,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.not_finite: Optional[Tuple[str, int]] = None
        """The name and step of the first number that was not finite."""
        self.dropped = 0
        """Records that could not be kept."""
        self.path = ""
        """The file that holds the records; empty while there is none."""
        self._folder, self._rank, self._attempt = folder, rank, attempt
        self._tell = tell
        self._clock = clock
        self._lock = threading.RLock()
        # A signal's handler runs in the middle of anything, and may report too: it has to wait its turn.
        self._busy = False
        self._later: Deque[Callable[[], None]] = deque()
        self._copies: Deque[Tuple[Tuple[DeviceCopy, ...], Callable[..., None]]] = deque()
        self._space: Optional[RecordFile] = None
        self._resting: Optional[RecordFile] = None
        self._retry_at = -math.inf
        self._closed = False
        self._names: Dict[str, int] = {}
        self._forms: Dict[Tuple[object, ...], ScalarsLayout] = {}
        self._told: Set[str] = set()
        global _hooked
        _living.add(self)
        if not _hooked:
            _hooked = True
            os.register_at_fork(after_in_child=_after_fork)

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Records numbers of a step: Python's own, numpy's, and tensors that hold one number."""
        with self._lock:
            # This is the way of every usual call; whatever is unusual about it goes the long way.
            form = self._forms.get(tuple(values))
            if form is not None and not self._busy and not self._copies:
                for value in values.values():
                    kind = value.__class__
                    # Only of a finite number the difference is 0.
                    if (kind is not float and kind is not int) or value - value:
                        break
                else:
                    if self._put_quickly(form, step, values):
                        return
        now, kept = self._clock(), dict(values)

        def record() -> None:
            at = _whole(step)
            plain: Dict[str, float] = {}
            copies: Dict[str, DeviceCopy] = {}
            for name, value in kept.items():
                try:
                    copy = None if isinstance(value, (float, int)) else framework_values.begun(value)
                    if copy is None:
                        plain[name] = framework_values.number(value)
                    else:
                        copies[name] = copy
                except Exception as error:  # an accelerator that failed raises its own kinds
                    self._say(f"{name} is not recorded: {_sentence(error)}", about=name)
            self._put_scalars(at, now, plain)

            def copied(*found: Any) -> None:
                self._put_scalars(at, now, dict(zip(copies, map(framework_values.number, found))))

            if copies:
                self._await(tuple(copies.values()), copied)

        self._guarded(record)

    def histogram(self, step: int, name: str, values: Any) -> None:
        """Records how values are distributed: a list, an array or a tensor of any shape."""
        from . import histogram  # here, because few scripts have histograms, and each import costs its start

        now = self._clock()

        def count(values: Any) -> None:
            counts, edges = histogram.counted(values)
            self._keep(Histogram(_whole(step), now, str(name), counts, edges))

        self._guarded(lambda: self._when_copied(str(name), values, count))

    def image(self, step: int, name: str, data: Any) -> None:
        """Records an image; `png.encoded` says which."""
        from . import png  # here, as above

        now = self._clock()

        def encode(data: Any) -> None:
            content, width, height = png.encoded(data)
            self._keep(Image(_whole(step), now, str(name), content, width, height))

        self._guarded(lambda: self._when_copied(str(name), data, encode))

    def text(self, step: int, name: str, text: str) -> None:
        now = self._clock()
        self._guarded(lambda: self._keep(Text(_whole(step), now, str(name), str(text))))

    def params(self, values: Mapping[str, object]) -> None:
        """Records what the run was started with; what JSON does not know is kept as its text."""
        now = self._clock()
        self._guarded(lambda: self._keep(Params(now, {str(key): value for key, value in values.items()})))

    def look_after(self) -> None:
        """Begins a new file if the old one was removed; to be called now and then."""

        def renew() -> None:
            if self._space is None or not self._space.is_removed():
                return
            removed, self._space = self._space, None
            self._forget_names()
            removed.abandon()
            self._say(f"what was reported is lost: {self._folder} was removed; it is made again")

        self._guarded(renew)

    def close(self) -> None:
        """Waits for numbers that are still being computed, and ends the file."""

        def end() -> None:
            self._settle(wait=True)
            self._closed = True
            space = self._space or self._resting
            self._space = self._resting = None
            if space is not None:
                space.close()

        self._guarded(end)
        _living.discard(self)

    def _put_quickly(self, form: ScalarsLayout, step: int, values: Mapping[str, Any]) -> bool:
        """Returns whether it is dealt with, for good or bad."""
        space = self._space
        if space is None:
            return False
        self._busy = True
        try:
            space.put(form.pack(form.head, step, self._clock(), *values.values()))
        except (struct.error, OverflowError, TypeError):
            return False
        except OSError as error:
            self._lost(error)
        finally:
            self._busy = False
        if self._later:
            self._guarded(lambda: None)  # what a signal's handler reported meanwhile
        return True

    def _guarded(self, work: Callable[[], None]) -> None:
        """Does it now, or right after what this very thread is doing, and says what went wrong.

        The lock keeps threads apart. It is no help against a signal's handler, which runs in the thread that
        holds it: hence `_busy`, and the queue.
        """
        with self._lock:
            if self._busy:
                self._later.append(work)
                return
            self._busy = True
            try:
                self._settle()
                self._try(work)
                while self._later:
                    self._try(self._later.popleft())
            finally:
                self._busy = False

    def _try(self, work: Callable[..., None], *values: object) -> None:
        try:
            work(*values)
        except Exception as error:  # the script's own objects may raise anything when they are looked at
            self._say(f"this is not recorded: {_sentence(error)}")

    def _when_copied(self, name: str, value: Any, then: Callable[[Any], None]) -> None:
        def named(value: Any) -> None:
            try:
                then(value)
            except Exception as error:
                self._say(f"{name} is not recorded: {_sentence(error)}", about=name)

        copy = framework_values.begun(value)
        if copy is None:
            named(value)
        else:
            self._await((copy,), named)

    def _await(self, copies: Tuple[DeviceCopy, ...], then: Callable[..., None]) -> None:
        self._copies.append((copies, then))
        if len(self._copies) > MOST_COPIES:
            self._copies.popleft()
            self.dropped += 1
            self._say(f"more than {MOST_COPIES} reported values are not computed yet: the oldest are dropped")
        self._settle()

    def _settle(self, wait: bool = False) -> None:
        """Records what was copied meanwhile, in order: a value that is ready waits for those before it."""
        while self._copies:
            copies, then = self._copies[0]
            try:
                if not wait and not all(copy.ready() for copy in copies):
                    return
                found = [copy.result() for copy in copies]
            except Exception as error:
                self._copies.popleft()
                self._say(f"a reported value is not recorded: {_sentence(error)}")
                continue
            self._copies.popleft()
            self._try(then, *found)

    def _put_scalars(self, step: int, now: float, values: Dict[str, float]) -> None:
        if not values:
            return
        for name, value in values.items():
            if not math.isfinite(value) and self.not_finite is None:
                self.not_finite = (str(name), step)
                self._say(f"{name} is {value} at step {step}")

        def put(space: RecordFile) -> None:
            names = tuple(values)
            form = self._forms.get(names)
            if form is None:
                if len(self._forms) >= _MOST_FORMS:
                    self._forms.clear()
                for name in map(str, names):
                    if name not in self._names:
                        # In the file first: a number whose name could not be written must not be used.
                        space.put(encode_name(len(self._names), name))
                        self._names[name] = len(self._names)
                form = self._forms[names] = ScalarsLayout([self._names[str(name)] for name in names])
            space.put(form.pack(form.head, step, now, *values.values()))

        self._put(put)

    def _keep(self, record: Union[Histogram, Image, Text, Params]) -> None:
        payload = encode(record)
        if len(payload) > LARGEST:
            raise ValueError(f"it has {len(payload)} bytes, and at most {LARGEST} are kept")
        self._put(lambda space: space.put(payload))

    def _put(self, put: Callable[[RecordFile], None]) -> None:
        if self._closed:
            self._say("what is reported after the run was closed is not recorded")
        # The lower bound: a clock that was set back must not delay the next try for longer.
        if self._space is None and (
            self._closed or self._retry_at - RETRY_AFTER <= self._clock() < self._retry_at
        ):
            self.dropped += 1
            return
        try:
            if self._space is None:
                if self._resting is None:
                    self._resting = RecordFile(self._folder, self._rank, self._attempt)
                    self.path = self._resting.path
                self._resting.put(encode(FileOpened(self._clock(), os.getpid())))
                self._space, self._resting = self._resting, None
                if self.dropped:
                    kept = f"what is reported is kept again in {self._folder}"
                    self._say(f"{kept}; {self.dropped} records are lost")
                    self._told.clear()
            put(self._space)
        except OSError as error:
            self._lost(error)

    def _lost(self, error: OSError) -> None:
        """Does without the file for a while, and gives the names anew afterwards."""
        self.dropped += 1
        self._resting, self._space = self._space or self._resting, None
        self._forget_names()
        self._retry_at = self._clock() + RETRY_AFTER
        why = error.strerror or str(error)
        self._say(
            f"what is reported cannot be kept in {self._folder}: {why}; training continues",
            about=self._folder,
        )

    def _forked(self) -> None:
        """Starts over in a forked child: the file is its parent's, and a thread may have held the lock."""
        for space in (self._space, self._resting):
            if space is not None:
                with contextlib.suppress(OSError, BufferError):
                    space.abandon()
        self._space = self._resting = None
        self._lock, self._busy = threading.RLock(), False
        self._later.clear()
        self._copies.clear()
        self._forget_names()

    def _forget_names(self) -> None:
        """Another file, or a file that is opened again, does not have the names of this one."""
        self._names.clear()
        self._forms.clear()

    def _say(self, sentence: str, about: str = "") -> None:
        key = about or sentence
        if key in self._told:
            return
        self._told.add(key)
        try:
            self._tell(sentence)
        except Exception:
            return  # nothing is left to tell it with


def _whole(step: object) -> int:
    if isinstance(step, float) and step.is_integer():
        return int(step)
    try:
        found = operator.index(step)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"a step is a whole number, not {step!r}") from None
    if not -(2**63) <= found < 2**63:
        raise ValueError(f"step {found} is too large")
    return found


def _sentence(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _after_fork() -> None:
    for recorder in list(_living):
        recorder._forked()
