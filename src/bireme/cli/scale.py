"""`bireme scale`: change how many replicas a role has."""

from __future__ import annotations

import click

from bireme import errors
from bireme.cli.opening import as_json, one_name, opened, print_json, say


@click.command("scale", short_help="Change how many replicas a role has.")
@one_name
@click.argument("counts", nargs=-1, required=True, metavar="ROLE=COUNT...")
@as_json
def command(name: str, counts: tuple[str, ...], as_json: bool) -> None:
    """Changes how many replicas roles have, such as: bireme scale mnist worker=4"""
    wanted = dict(_count(one) for one in counts)
    job = opened().find(name)
    before = {role.name: role.replicas for role in job.view().roles}
    view = job.scale(**wanted)
    for role, count in wanted.items():
        say(f"{view.id}: {role} from {before.get(role, 0)} to {count}")
    if as_json:
        print_json(view)


def _count(written: str) -> tuple[str, int]:
    role, mark, count = written.partition("=")
    if not mark or not role or not count.isdecimal():
        raise errors.BadInput(
            f"{written!r} is not of the form ROLE=COUNT", hint="bireme scale mnist worker=4"
        )
    return role.lower(), int(count)
