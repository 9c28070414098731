"""Says where a verb acts: here or in a cluster. These options may stand anywhere before `--`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from bireme.sdk.client import Client

Command = TypeVar("Command", bound=Callable[..., Any])  # Any: click calls it with what its options say

OPTIONS = ("--on", "--context", "--namespace", "--kubeconfig")
VERBS = frozenset(
    (
        "run",
        "ps",
        "logs",
        "show",
        "stacks",
        "checkpoints",
        "wait",
        "stop",
        "resume",
        "scale",
        "rm",
        "check",
        "doctor",
    )
)
"""The verbs that these options are for; others may have options of the same names."""
EPILOG = "Where: --on, --context, --namespace and --kubeconfig; `bireme --help` explains them."

as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead, as docs/cli.md describes it."
)


class Chosen(NamedTuple):
    """The values of the options; an empty text leaves one open."""

    on: str = ""
    context: str = ""
    namespace: str = ""
    kubeconfig: str = ""

    @property
    def names_a_cluster(self) -> bool:
        return bool(self.context or self.namespace or self.kubeconfig)

    @property
    def words(self) -> list[str]:
        """The options as they would be written."""
        return [word for pair in zip(OPTIONS, self, strict=True) if pair[1] for word in pair]

    def client(self) -> Client:
        from bireme.sdk.client import Client  # here, because `bireme --help` needs none of it

        return Client(on=self.on, context=self.context, namespace=self.namespace, kubeconfig=self.kubeconfig)


def options(command: Command) -> Command:
    """Adds the options to the program itself."""
    for option in reversed(
        (
            click.option("--on", metavar="PLACE", help="Where: local or kubernetes.  [default: $BIREME_ON]"),
            click.option("--context", metavar="NAME", help="The cluster.  [default: kubectl's]"),
            click.option("--namespace", metavar="NAME", help="Its namespace.  [default: the context's]"),
            click.option("--kubeconfig", metavar="FILE", help="As kubectl takes it."),
        )
    ):
        command = option(command)
    return command


def chosen() -> Chosen:
    """The choice of the user of the verb that runs now."""
    context = click.get_current_context(silent=True)
    found = context.find_root().obj if context is not None else None
    return found if isinstance(found, Chosen) else Chosen()


def hoisted(args: Sequence[str]) -> list[str]:
    """The words with these options moved before the verb, where the program itself reads them."""
    front: list[str] = []
    rest: list[str] = []
    words = list(args)
    verb = ""
    while words:
        word = words.pop(0)
        name, mark, _ = word.partition("=")
        if word == "--" or (verb and verb not in VERBS):
            return [*front, *rest, word, *words]
        if name in OPTIONS:
            front.append(word)
            if not mark and words:
                front.append(words.pop(0))
            continue
        if not verb and not word.startswith("-"):
            verb = word
        rest.append(word)
    return [*front, *rest]
