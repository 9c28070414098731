"""Keeps a training's state: asynchronous, atomic, checksummed, without pickle."""

from __future__ import annotations
