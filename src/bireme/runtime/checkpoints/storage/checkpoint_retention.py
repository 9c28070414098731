"""Decides which checkpoints are deleted: a pure function of those that are there."""

from __future__ import annotations

import math
from typing import Dict, List, Mapping, Sequence, Tuple

from ..values import Keep
from .checkpoint_format import CheckpointHead


def unwanted(good: Mapping[str, CheckpointHead], torn: Mapping[str, int], keep: Keep) -> List[str]:
    """The names to remove. `torn` ones, with their steps, go once enough good ones are newer."""
    by_age = sorted(good, key=lambda name: good[name].serial)
    last = max(keep.last, 1)
    stay = set(by_age[-last:]) | set(_best(by_age, good, keep))
    wanted = [name for name in by_age if name not in stay]
    if len(by_age) >= last:
        floor = min(good[name].step for name in by_age[-last:])
        wanted += sorted(name for name, step in torn.items() if step <= floor)
    # The same step saved again: the newer one replaces the older.
    newest: Dict[int, str] = {good[name].step: name for name in by_age}
    wanted += [name for name in by_age if name in stay and newest[good[name].step] != name]
    return wanted


def spare(good: Mapping[str, CheckpointHead], keep: Keep, missing: int) -> List[str]:
    """What may go before its time so that a newer one fits, the oldest first; nothing if that is in vain.

    The newest and the best stay: a disk may be too small for what was asked for, but is never left empty.
    """
    by_age = sorted(good, key=lambda name: good[name].serial)
    stay = {*by_age[-1:], *_best(by_age, good, keep)}
    found = [name for name in by_age if name not in stay]
    return found if sum(good[name].size for name in found) >= missing else []


def _best(by_age: Sequence[str], good: Mapping[str, CheckpointHead], keep: Keep) -> List[str]:
    if not keep.best or not keep.metric:
        return []
    sign = -1.0 if keep.mode == "max" else 1.0
    ranked: List[Tuple[float, int, str]] = []
    for name in by_age:
        value = good[name].metrics.get(keep.metric)
        if value is not None and not math.isnan(value):
            # Of equals the newer one is the better.
            ranked.append((sign * value, -good[name].serial, name))
    return [name for _, _, name in sorted(ranked)[: keep.best]]
