"""`bireme uninstall`: takes the operator and the definitions out of a cluster."""

from __future__ import annotations

import random
import time

import click

from bireme import errors
from bireme.cli import cluster_options
from bireme.cli.invocation import as_json, print_json, print_lines
from bireme.cli.render import render_cluster
from bireme.cli.terminal import this_terminal
from bireme.operator.install.operator_objects import OperatorSettings


@click.command("uninstall", short_help="Take the operator and the job kinds out of a cluster.")
@cluster_options.home
@click.option("--keep-crds", is_flag=True, help="Leave the definitions of the job kinds, and all jobs.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before jobs are deleted.")
@cluster_options.context
@cluster_options.kubeconfig
@as_json
def command(
    namespace: str, keep_crds: bool, yes: bool, context: str | None, kubeconfig: str | None, as_json: bool
) -> None:
    """Deletes what `bireme install` made.

    With the definitions of the job kinds go all jobs, so it refuses while there are any.
    """
    from bireme.backends.kubernetes.client import access, api  # here, because they need an extra
    from bireme.operator.install import installing

    async def every() -> list[installing.Done]:
        done = []
        async with api.Api(
            access.find(time, random.SystemRandom(), kubeconfig=kubeconfig, context=context)
        ) as cluster:
            jobs = [] if keep_crds or yes else await installing.jobs(cluster)
            listed = render_cluster.first_names(jobs)
            if jobs and not this_terminal().stdin:
                hint = (
                    "to delete them too: bireme uninstall --yes; to keep them: bireme uninstall --keep-crds"
                )
                raise errors.BadInput(f"there are jobs, which would be deleted: {listed}", hint=hint)
            if jobs and not click.confirm(f"This deletes the jobs too: {listed}. Continue?", err=True):
                raise errors.Interrupted("nothing was deleted")
            settings = OperatorSettings(namespace)
            async for outcome in installing.uninstall(cluster, settings, keep_crds=keep_crds):
                done.append(outcome)
                if not as_json:
                    print_lines([render_cluster.installed_line(outcome)])
        return done

    done = cluster_options.carry_out(every())
    if as_json:
        print_json(installing.InstallView(tuple(done)))
