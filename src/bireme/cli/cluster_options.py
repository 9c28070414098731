"""Holds what the verbs share that administer a cluster: their options, and how they ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import click

from bireme import errors
from bireme.kinds import SERVED
from bireme.operator.install import operator_objects

T = TypeVar("T")

home = click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    default=operator_objects.NAMESPACE,
    help=f"Where the operator lives.  [default: {operator_objects.NAMESPACE}]",
)
context = click.option(
    "--context", metavar="NAME", help="The context of the kubeconfig.  [default: the current one]"
)
kubeconfig = click.option(
    "--kubeconfig", metavar="FILE", help="As kubectl takes it.  [default: what kubectl uses]"
)


def kinds(chosen: tuple[str, ...]) -> tuple[str, ...]:
    """The kinds that were named, in whatever case; all that an operator serves where none was."""
    known = {kind.lower(): kind for kind in SERVED}
    for word in chosen:
        if word.lower() not in known:
            raise errors.BadInput(
                f"{word} is not a kind that the operator serves",
                hint="choose among " + ", ".join(SERVED),
            )
    wanted = {word.lower() for word in chosen}
    return tuple(kind for name, kind in known.items() if name in wanted) or SERVED


def carry_out(asking: Coroutine[Any, Any, T]) -> T:  # Any: what a coroutine yields is asyncio's affair
    """Waits for what a cluster answers; its refusals become our errors."""
    from bireme.backends.kubernetes.client.api import ApiError  # here, because they need an extra
    from bireme.backends.kubernetes.client.error_hints import explained

    try:
        return asyncio.run(asking)
    except ApiError as error:
        raise explained(error) from error
