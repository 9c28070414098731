"""`bireme logs`: prints what ranks printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice

import click
import msgspec

from bireme import errors
from bireme.cli import option_values
from bireme.cli.invocation import as_json, meant, one_name, opened, say, say_shortage
from bireme.cli.render import text
from bireme.cli.render.render_lines import Prefixes
from bireme.cli.terminal import this_terminal
from bireme.sdk.backends import Following, Pace
from bireme.sdk.views import LogLine, LogRecord

_BATCH = 1000


@click.command("logs", short_help="Print what a job's replicas printed.")
@one_name
@click.argument("replica", required=False)
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only of this rank.")
@click.option("-f", "--follow", is_flag=True, help="Continue with what comes, until the job has ended.")
@click.option("--since", metavar="TIME", help="Only what is newer: 10m, 2h30m, 2026-01-31T12:00.")
@click.option(
    "--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines, and what comes."
)
@as_json
def command(
    name: str | None,
    replica: str | None,
    rank: int | None,
    follow: bool,
    since: str | None,
    tail: int | None,
    as_json: bool,
) -> None:
    """Prints the lines of all ranks in the order of their times, or of one.

    One is chosen by --rank or, in a job with roles, by the name of its REPLICA, such as worker-1.

    Without a NAME, those of the newest job.
    """
    client = opened()
    say_shortage(client)
    from_time = None if since is None else option_values.moment(since, time.time(), "--since")
    if replica is not None and rank is not None:
        raise errors.BadInput(f"both {replica} and --rank {rank} are given", hint="leave one of them out")
    chosen = replica if rank is None else rank
    watch = client.watch(meant(client, name), chosen, since=from_time, tail=tail)
    here = this_terminal()
    prefixes = Prefixes([watch.job], colour=here.colour, terminal=here.stdout)
    show = _as_json if as_json else (prefixes.line if chosen is None else prefixes.bare)
    try:
        printed = _print(watch.drain(), show)
        if follow:
            _follow(watch, show)
            if watch.is_removed():
                say(f"{watch.id} was removed")
        elif not printed and (why := watch.silence()):
            say(why)
    except KeyboardInterrupt:
        sys.exit(errors.Interrupted.exit_status)
    finally:
        watch.close()


def _follow(watch: Following, show: Callable[[LogLine], str]) -> None:
    pace = Pace()
    while watch.exists() and not watch.is_over():
        lines = watch.poll()
        _print(lines, show)
        watch.revive()
        time.sleep(pace.pause(bool(lines)))
    _print(watch.drain(), show)


def _print(lines: Iterable[LogLine], show: Callable[[LogLine], str]) -> int:
    """Prints lines and returns how many there were."""
    left, count = iter(lines), 0
    while batch := list(islice(left, _BATCH)):
        count += len(batch)
        sys.stdout.write("".join(f"{show(line)}\n" for line in batch))
        sys.stdout.flush()
    return count


def _as_json(line: LogLine) -> str:
    record = LogRecord(
        time=line.time, replica=line.replica, container=line.container, stream=line.stream, text=line.text
    )
    return text.safe_json(msgspec.json.encode(record).decode())
