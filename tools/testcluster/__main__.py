"""Which words does the tool take: one verb, few options; `python -m tools.testcluster --help`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.testcluster import building, clusters
from tools.testcluster.clusters import Wish
from tools.testcluster.places import ClusterError, Home, Missing
from tools.testcluster.recipes import RECIPES


def main() -> int:
    words = _parser().parse_args()
    try:
        words.verb(words)
    except ClusterError as error:
        print(f"testcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _up(words: argparse.Namespace) -> None:
    if words.control_plane_only:
        wish = Wish(nodes=0, controller_manager=words.controller_manager)
    else:
        wish = Wish(nodes=words.nodes)
    if not clusters.up(words.name, wish):
        building.tell(f"cluster {words.name} runs already")
    print(f"export KUBECONFIG={Home(words.name).kubeconfig}")


def _down(words: argparse.Namespace) -> None:
    if not clusters.down(words.name):
        building.tell(f"there is no cluster {words.name}")


def _kubeconfig(words: argparse.Namespace) -> None:
    path = Home(words.name).kubeconfig
    if not path.exists():
        raise ClusterError(
            f"there is no cluster {words.name}: python -m tools.testcluster up --name {words.name}"
        )
    print(path)


def _load_image(words: argparse.Namespace) -> None:
    clusters.load_images(words.name, words.images)


def _kill_node(words: argparse.Namespace) -> None:
    clusters.kill_node(words.name, words.node)


def _start_node(words: argparse.Namespace) -> None:
    clusters.start_node(words.name, words.node)


def _unplug_node(words: argparse.Namespace) -> None:
    clusters.switch_cable(words.name, words.node, on=False)


def _plug_node(words: argparse.Namespace) -> None:
    clusters.switch_cable(words.name, words.node, on=True)


def _status(words: argparse.Namespace) -> None:
    for name in clusters.names():
        print(*clusters.describe(name), sep="\n")


def _build(words: argparse.Namespace) -> None:
    for name in words.programs or ["kubernetes"]:
        print(building.build(name))


def _prepare(words: argparse.Namespace) -> None:
    """Where this machine cannot run a cluster, the tests that need one say so."""
    try:
        clusters.prepare_for_nodes()
        for name in words.programs:
            building.build(name)
    except Missing as missing:
        building.tell(str(missing))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.testcluster", description="A real Kubernetes on this machine."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default="default", help="which cluster (default: %(default)s)")

    verb = verbs.add_parser(
        "up", parents=[named], help="bring a cluster up, building first what is not built yet"
    )
    size = verb.add_mutually_exclusive_group()
    size.add_argument("--nodes", type=int, default=2, help="how many nodes (default: %(default)s)")
    size.add_argument(
        "--control-plane-only", action="store_true", help="etcd and API server only, without nodes"
    )
    verb.add_argument(
        "--controller-manager", action="store_true", help="with --control-plane-only: this one too"
    )
    verb.set_defaults(verb=_up)

    verb = verbs.add_parser("down", parents=[named], help="take a cluster down, leaving nothing")
    verb.set_defaults(verb=_down)

    verb = verbs.add_parser("kubeconfig", parents=[named], help="print the path of a cluster's kubeconfig")
    verb.set_defaults(verb=_kubeconfig)

    verb = verbs.add_parser("load-image", parents=[named], help="load images onto every node")
    verb.add_argument("images", nargs="+", type=Path, metavar="FILE", help="a tar file with images")
    verb.set_defaults(verb=_load_image)

    for word, action, told in (
        ("kill-node", _kill_node, "cut a node's power"),
        ("start-node", _start_node, "give a node its power back"),
        ("unplug-node", _unplug_node, "cut a node off from the others; what runs on it goes on"),
        ("plug-node", _plug_node, "connect a node again"),
    ):
        verb = verbs.add_parser(word, parents=[named], help=told)
        verb.add_argument("node", metavar="NODE", help="node1, node2, ...")
        verb.set_defaults(verb=action)

    verb = verbs.add_parser("status", help="say how every cluster is")
    verb.set_defaults(verb=_status)

    verb = verbs.add_parser("build", help="build programs and print their paths")
    verb.add_argument(
        "programs", nargs="*", metavar="PROGRAM", help=f"{', '.join(RECIPES)} (default: kubernetes)"
    )
    verb.set_defaults(verb=_build)

    verb = verbs.add_parser("prepare", help="build programs and images, and install what nodes need")
    verb.add_argument("programs", nargs="*", metavar="PROGRAM", default=["kubernetes"])
    verb.set_defaults(verb=_prepare)
    return parser


if __name__ == "__main__":
    sys.exit(main())
