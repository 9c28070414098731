"""What is an object of a cluster before anybody gives it a type: plain values, as JSON holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Any: most of what passes through us is only understood by the API server.
Object = dict[str, Any]
Template = Mapping[str, Any]


def table(of: Template, field: str) -> Template:
    """A part of an object; an absent one and a null are the same as an empty one."""
    found: Template | None = of.get(field)
    return found or {}


def items(of: Template, field: str) -> list[Object]:
    found: list[Object] | None = of.get(field)
    return found or []
