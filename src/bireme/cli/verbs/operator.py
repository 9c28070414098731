"""`bireme operator`: runs the operator."""

from __future__ import annotations

import random
import time

import click

from bireme.cli import cluster_options


@click.command(name="operator")
@click.option(
    "--kubeconfig", metavar="FILE", help="The cluster's access; inside a pod it is found by itself."
)
@click.option("--context", metavar="NAME", help="The context of the kubeconfig.")
@click.option(
    "--namespace", "namespaces", multiple=True, metavar="NAME", help="Watch only this one; repeatable."
)
@click.option("--kind", "chosen", multiple=True, metavar="KIND", help="Serve only this kind; repeatable.")
@click.option("--leader-elect/--no-leader-elect", default=True, help="Act only while holding the lease.")
@click.option("--lease-namespace", default="bireme-system", show_default=True, metavar="NAME")
@click.option(
    "--gang-scheduler-name", default="", metavar="NAME", help="`volcano`, or a scheduler with plugins."
)
@click.option("--cluster-domain", default="", metavar="DOMAIN", help="Written into qualified names if given.")
@click.option(
    "--health-port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="0 for none."
)
@click.option("--health-bind", default="127.0.0.1", show_default=True, metavar="ADDRESS")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 for none."
)
@click.option("--metrics-bind", default="127.0.0.1", show_default=True, metavar="ADDRESS")
def command(
    kubeconfig: str | None,
    context: str | None,
    namespaces: tuple[str, ...],
    chosen: tuple[str, ...],
    leader_elect: bool,
    lease_namespace: str,
    gang_scheduler_name: str,
    cluster_domain: str,
    health_port: int,
    health_bind: str,
    metrics_port: int,
    metrics_bind: str,
) -> None:
    """Run the operator of a cluster until it is stopped."""
    from bireme.backends.kubernetes.client import access  # here, because they need an extra
    from bireme.backends.kubernetes.pod_backend import Settings
    from bireme.operator import process
    from bireme.operator.controller import Scope
    from bireme.operator.health_server import Listens

    options = process.Options(
        scope=Scope(namespaces, cluster_options.kinds(chosen)),
        settings=Settings(cluster_domain, gang_scheduler_name),
        lead=leader_elect,
        lease_namespace=lease_namespace,
        health=Listens(health_bind, health_port),
        metrics=Listens(metrics_bind, metrics_port),
    )
    process.serve(access.find(time, random.SystemRandom(), kubeconfig=kubeconfig, context=context), options)
