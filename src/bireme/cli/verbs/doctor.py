"""`bireme doctor`: says what this machine, or a cluster, offers."""

from __future__ import annotations

import os

import click

from bireme.cli.invocation import as_json, opened, print_json, print_lines, say
from bireme.cli.render import render_cluster, render_machine
from bireme.sdk.backends import BackendName
from bireme.sdk.local import machine_checks, systemd_units, warm_interpreters


@click.command("doctor", short_help="Say what this machine or a cluster offers, and what is missing.")
@click.option("--python", metavar="PROGRAM", help="The interpreter.  [default: the active environment's]")
@click.option("--end-warm", is_flag=True, help="End the warm interpreters, and give their memory back.")
@click.option("--install-unit", is_flag=True, help="Have systemd resume jobs after a reboot.")
@click.option("--remove-unit", is_flag=True, help="Undo that.")
@click.option("--resume-only", is_flag=True, help="Resume jobs whose runner died, and do nothing else.")
@as_json
def command(
    python: str | None,
    end_warm: bool,
    install_unit: bool,
    remove_unit: bool,
    resume_only: bool,
    as_json: bool,
) -> None:
    """Says what this machine offers: cpu, memory, GPUs, cgroups, MPI, frameworks, and what is missing.

    With --on kubernetes: what a cluster offers, which operator runs its jobs, and what stands in their way.
    """
    client = opened()
    if client.places.backend is BackendName.KUBERNETES:
        from bireme.sdk.cluster import cluster_health  # here, because it needs an extra

        cluster = cluster_health.examine(client.places.cluster())
        if as_json:
            print_json(cluster)
        else:
            print_lines(render_cluster.shown(cluster))
        return
    if resume_only:
        return  # What was left dead is resumed by whatever opens the home.
    if install_unit or remove_unit:
        plan = systemd_units.plan(client.home, os.environ)
        if remove_unit:
            done = systemd_units.remove(plan)
            say(f"removed {plan.path}" if done else "there is no unit that resumes jobs at boot")
            return
        for line in render_machine.installed(systemd_units.install(plan)):
            say(line)
        return
    if end_warm:
        count = warm_interpreters.end(client.home)
        say(f"ended {count} warm interpreter{'' if count == 1 else 's'}")
    view = machine_checks.examine(client.home, os.environ, python or "")
    if as_json:
        print_json(view)
    else:
        print_lines(render_machine.shown(view))
