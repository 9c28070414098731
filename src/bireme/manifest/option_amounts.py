"""Checks the numbers and amounts that the command line gives to a script; what is wrong names its option."""

from __future__ import annotations

from bireme.errors import BadInput
from bireme.kinds.contract import MOST_REPLICAS
from bireme.model import quantities


def at_least(least: int, option: str, value: int) -> int:
    if not least <= value <= MOST_REPLICAS:
        raise BadInput(f"{option} must be from {least} to {MOST_REPLICAS}, got {value}")
    return value


def quantity(option: str, written: str) -> str:
    if not written:
        return ""
    try:
        value = quantities.parse(written)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from error
    if value < 0:
        raise BadInput(f"{option} must not be negative, got {written}")
    return written


def memory(option: str, written: str) -> str:
    amount = quantity(option, written)
    if amount and (wrong := quantities.too_little_memory(amount)):
        sentence, _, guess = wrong.partition("; ")
        raise BadInput(f"{option} {sentence}", hint=guess)
    return amount
