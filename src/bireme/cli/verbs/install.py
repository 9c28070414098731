"""`bireme install`: puts the definitions and the operator into a cluster."""

from __future__ import annotations

import random
import time

import click

from bireme.cli import cluster_options
from bireme.cli.invocation import as_json, print_json, print_lines, say
from bireme.cli.render import render_cluster
from bireme.operator.install.operator_objects import OperatorSettings


@click.command("install", short_help="Install the operator and the job kinds into a cluster.")
@cluster_options.home
@click.option("--image", metavar="IMAGE", help="Of the operator.  [default: the one that is installed]")
@click.option("--kind", "chosen", multiple=True, metavar="KIND", help="Serve only this kind; repeatable.")
@click.option("--network-policy", is_flag=True, help="Keep others away from the operator's ports.")
@click.option("--crds-only", is_flag=True, help="Only the definitions of the job kinds, no operator.")
@click.option("--adopt", is_flag=True, help="Take over what others have defined or changed.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check everything, and change nothing.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the operator works.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for it.",
)
@cluster_options.context
@cluster_options.kubeconfig
@as_json
def command(
    namespace: str,
    image: str | None,
    chosen: tuple[str, ...],
    network_policy: bool,
    crds_only: bool,
    adopt: bool,
    dry_run: bool,
    no_wait: bool,
    timeout: float,
    context: str | None,
    kubeconfig: str | None,
    as_json: bool,
) -> None:
    """Installs the job kinds and the operator that serves them, and waits until it works.

    It may be repeated: what is there is renewed. Where Kubeflow's own operator runs, nothing is changed.
    """
    from bireme.backends.kubernetes.client import access, api  # here, because they need an extra
    from bireme.operator.install import installing, readiness

    kinds = cluster_options.kinds(chosen)
    settings = OperatorSettings(namespace, image or "", kinds, network_policy)
    wish = installing.InstallRequest(settings, crds_only=crds_only, adopt=adopt, dry_run=dry_run)
    waits = not (no_wait or crds_only or dry_run)

    async def every() -> installing.InstallView:
        done = []
        async with api.Api(
            access.find(time, random.SystemRandom(), kubeconfig=kubeconfig, context=context)
        ) as cluster:
            async for step in installing.install(cluster, wish):
                done.append(step)
                if not as_json:
                    print_lines([render_cluster.installed_line(step, dry_run=dry_run)])
            if not waits:
                return installing.InstallView(tuple(done), dry_run)
            say(f"waiting until the operator works, at most {timeout:.0f} s")
            standing = await readiness.until_it_works(cluster, namespace, timeout)
        return installing.InstallView(tuple(done), dry_run, standing)

    view = cluster_options.carry_out(every())
    if as_json:
        print_json(view)
    if view.operator is not None and not view.operator.works:
        raise readiness.failure(view.operator, timeout)
    if not as_json and not dry_run and not crds_only:
        say(render_cluster.installed(view.operator, namespace))
