"""`bireme install`: put the definitions and the operator into a cluster."""

from __future__ import annotations

import click

from bireme.cli import cluster_options, render_install
from bireme.cli.opening import as_json, print_json, print_lines, say
from bireme.operator import installation
from bireme.operator.installation import Settings


@click.command("install", short_help="Install the operator and the job kinds into a cluster.")
@cluster_options.home
@click.option("--image", metavar="IMAGE", help=f"Of the operator.  [default: {installation.IMAGE}]")
@click.option("--kind", "chosen", multiple=True, metavar="KIND", help="Serve only this kind; repeatable.")
@click.option("--network-policy", is_flag=True, help="Keep others away from the operator's ports.")
@click.option("--crds-only", is_flag=True, help="Only the definitions of the job kinds, no operator.")
@click.option("--adopt", is_flag=True, help="Take over what somebody else has defined or changed.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check everything, and change nothing.")
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
    context: str | None,
    kubeconfig: str | None,
    as_json: bool,
) -> None:
    """Installs the job kinds and the operator that serves them, and says what became of each object.

    It may be repeated: what is there is renewed. Where Kubeflow's own operator runs, nothing is changed.
    """
    from bireme.backends.kubernetes import access, api  # here, because they need an extra
    from bireme.operator import installing

    kinds = cluster_options.kinds(chosen)
    settings = Settings(namespace, image or installation.IMAGE, kinds, network_policy)
    wish = installing.Wish(settings, crds_only=crds_only, adopt=adopt, dry_run=dry_run)

    async def every() -> list[installing.Done]:
        done = []
        async with api.Api(access.find(kubeconfig=kubeconfig, context=context)) as cluster:
            async for one in installing.install(cluster, wish):
                done.append(one)
                if not as_json:
                    print_lines([render_install.line(one, dry_run=dry_run)])
        return done

    done = cluster_options.carry_out(every())
    if as_json:
        print_json(installing.InstallView(tuple(done), dry_run))
    elif not dry_run and not crds_only:
        say(f"the operator is in namespace {namespace}; how it fares: bireme doctor --on kubernetes")
