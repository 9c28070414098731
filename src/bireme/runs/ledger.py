"""Grants parts of this machine to whole gangs, in turn and without a server.

The claim of a gang is one transaction: the living claims are read, the queue is read, the gang is weighed
against both, and its claim with all devices and ports is written, while no other runner reads or writes the
tables. Without that, three things go wrong. Two runners that look at the same moment both see the last GPU
free, and both grant it to themselves. Two gangs that claim replica by replica each get half of the machine
and wait for the other half for ever, since neither gives back what it holds. And a runner that is killed
halfway leaves a part of a gang, which counts as living as soon as the guard has started the next runner: no
rank can use it, and every other job waits for it. The file `claim.json` cannot be part of the transaction, so
it is written before the row: a crash between the two leaves a file that the next grant replaces, never a
claim that only the table knows and that would be lost with the table.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from bireme import errors
from bireme.core.machine import admission
from bireme.core.machine.admission import Capacity, Devices, Held, Want
from bireme.model.decisions import Demand
from bireme.model.decode_errors import DAMAGED
from bireme.model.replicas import Waiting
from bireme.runs import directory, index, machine
from bireme.runs.directory import RunDirectory
from bireme.runs.index import RunRow
from bireme.runs.run_files import Machine, RunId
from bireme.runs.storage import files
from bireme.runs.storage.database import Database

TICKET_GRACE = 60.0
"""Seconds for which a run keeps its place in the queue while it has no runner."""

Ports = dict[str, dict[str, int]]
"""The port behind each port name, by replica."""


class Grant(Struct, frozen=True):
    """What an attempt got."""

    attempt: int
    devices: Devices
    ports: Ports
    note: str = ""
    """A sentence for people if it is less cpu than was asked for."""


class MachineClaim(Struct, frozen=True):
    """What a run holds; also in its run directory, so that the ledger can be made again."""

    run: RunId
    machine: Machine
    since: float
    demands: tuple[Demand, ...]
    """As they were asked for."""
    held: Held
    grant: Grant


class Ticket(Struct, frozen=True):
    """A run's place in the queue."""

    run: RunId
    since: float
    seen: float
    """When its runner last asked."""
    demands: tuple[Demand, ...]


class Ledger:
    """The claims and the index of the runs in one home, on this machine.

    A claim lives while a process holds its run, or while `alive` says that ranks of the run live; what is
    dead is swept whenever a run asks. The run that asks counts as living, so its runner should hold it.
    """

    def __init__(
        self,
        home: Path,
        capacity: Callable[[], Capacity] = machine.capacity,
        alive: Callable[[RunId], bool] = lambda run: False,
        chance: random.Random | None = None,
    ) -> None:
        """`capacity` and `alive` are called for each question; `chance` says where ports are
        tried first, so that two users of a machine, whose ledgers are two, seldom meet."""
        self._home = home
        self._capacity = capacity
        self._alive = alive
        self._chance = chance
        self._here = machine.this_machine()
        self._database = Database(home, self._here, self._fill)

    def admit(self, run: RunId, attempt: int, demands: tuple[Demand, ...], now: float) -> Grant | Waiting:
        """Claims what a whole attempt needs, or nothing, and then says what it waits for.

        The same question has the same answer. Another attempt of the same run keeps what the run holds and
        gets fresh ports; to ask for it says that the ranks of the one before are gone, so if the new one
        needs more than there is, the old claim ends and the run queues with empty hands. More replicas within
        the same attempt are claimed in addition: those that stay keep their devices and ports.
        Raises NoRoom for what this machine can never give.
        """
        capacity = self._capacity()
        fitting, note = admission.capped(capacity, demands)
        if lack := admission.never_fits(capacity, fitting):
            raise errors.NoRoom(
                f"{run} {lack}", hint="ask for less, or let `bireme run --fit` shrink the job"
            )
        ask = _Ask(run, attempt, demands, fitting, note, now)
        woken: list[RunId] = []
        answer = self._database.run(lambda connection: self._answer(_Book(connection), ask, capacity, woken))
        self._wake(woken)
        return answer

    def lack(self, run: RunId, demands: tuple[Demand, ...], now: float) -> str:
        """Says what the run would wait for if its next attempt asked for this now; nothing is claimed."""
        capacity = self._capacity()
        fitting, _ = admission.capped(capacity, demands)
        others = (ticket for ticket in self.queue() if ticket.run != run)
        ahead = [Want(str(ticket.run), ticket.since, ticket.demands) for ticket in others]
        held = [claim.held for claim in self.holders()]
        verdict = admission.decide(capacity, held, [*ahead, Want(str(run), now, fitting)], now)
        return verdict.waiting.get(str(run), "")

    def release(self, run: RunId) -> None:
        """Ends the run's claim and its place in the queue, and wakes the runs that wait."""
        woken: list[RunId] = []

        def work(connection: sqlite3.Connection) -> None:
            book = _Book(connection)
            book.drop_ticket(run)
            self._drop_claim(book, run)
            woken[:] = [ticket.run for ticket in book.tickets()]

        self._database.run(work)
        self._wake(woken)

    def holders(self) -> tuple[MachineClaim, ...]:
        """Returns the living claims, the oldest first."""
        claims = self._database.run(lambda connection: _Book(connection).claims())
        living = (claim for claim in claims if self._lives(claim.run))
        return tuple(sorted(living, key=lambda claim: claim.since))

    def queue(self) -> tuple[Ticket, ...]:
        """Returns the tickets of the runs that wait, the first in the queue first."""
        tickets = self._database.run(lambda connection: _Book(connection).tickets())
        living = (ticket for ticket in tickets if self._lives(ticket.run))
        return tuple(sorted(living, key=lambda ticket: ticket.since))

    def runs(self) -> tuple[RunRow, ...]:
        """Returns all runs, the newest first, as their directories say."""
        try:
            return self._database.run(lambda connection: index.rows(connection, self._home))
        except errors.DiskFull:
            # SQLite writes even in order to read. The index only saves time; a full disk costs that.
            return index.scanned(self._home)

    def remove(self, run: RunId, unless: Callable[[], bool] = lambda: False) -> bool:
        """Deletes a run with everything that it left, `unless` it goes on again; whether it is gone.

        It is for the caller to see that no process holds it.
        """
        # Removing is how a user makes room, so a full disk must not prevent it: a claim whose run is gone
        # counts as dead, and is swept by the next one that asks.
        with suppress(errors.DiskFull):
            self.release(run)
        if not RunDirectory(self._home, run).delete(unless):
            return False
        with suppress(errors.DiskFull):  # then the next list forgets it
            self._database.run(lambda connection: index.forget(connection, run))
        return True

    def _answer(self, book: _Book, ask: _Ask, capacity: Capacity, woken: list[RunId]) -> Grant | Waiting:
        claims = {claim.run: claim for claim in book.claims()}
        own = claims.get(ask.run)
        if own and own.grant.attempt == ask.attempt and own.demands == ask.demands:
            book.drop_ticket(ask.run)
            return own.grant
        dead = [run for run in claims if run != ask.run and not self._lives(run)]
        for run in dead:
            self._drop_claim(book, run)
            del claims[run]
        tickets = self._tickets(book, ask)
        wants = [Want(str(ticket.run), ticket.since, ticket.demands) for ticket in tickets]
        verdict = admission.decide(capacity, [claim.held for claim in claims.values()], wants, ask.now)
        held = verdict.granted(str(ask.run))
        outdated = own is not None and own.grant.attempt != ask.attempt
        if dead or (held is None and outdated):
            woken[:] = [ticket.run for ticket in tickets if ticket.run != ask.run]
        if held is not None:
            book.drop_ticket(ask.run)
            return self._grant(book, ask, held, claims)
        if outdated:
            self._drop_claim(book, ask.run)
        return Waiting(ask.attempt, verdict.waiting[str(ask.run)])

    def _tickets(self, book: _Book, ask: _Ask) -> list[Ticket]:
        """Returns the queue with the run that asks in it, without those that have no runner."""
        queue = {ticket.run: ticket for ticket in book.tickets()}
        since = queue[ask.run].since if ask.run in queue else ask.now
        mine = Ticket(ask.run, since, ask.now, ask.fitting)
        book.put_ticket(mine)
        living = [mine]
        for ticket in queue.values():
            if ticket.run == ask.run:
                continue
            if self._lives(ticket.run):
                living.append(ticket)
            elif ask.now - ticket.seen > TICKET_GRACE:  # until then a resumed runner has its place again
                book.drop_ticket(ticket.run)
        return living

    def _grant(self, book: _Book, ask: _Ask, held: Held, claims: dict[RunId, MachineClaim]) -> Grant:
        own = claims.get(ask.run)
        known = own.grant.ports if own and own.grant.attempt == ask.attempt else {}
        taken = {
            port
            for claim in claims.values()
            for names in claim.grant.ports.values()
            for port in names.values()
        }
        pairs = [(demand.replica, name) for demand in ask.demands for name in demand.ports]
        missing = [(replica, name) for replica, name in pairs if name not in known.get(replica, {})]
        fresh = dict(zip(missing, machine.choose_ports(len(missing), taken, self._chance), strict=True))
        ports: Ports = {}
        for replica, name in pairs:
            port = fresh.get((replica, name)) or known[replica][name]
            ports.setdefault(replica, {})[name] = port
        grant = Grant(ask.attempt, held.devices, ports, ask.note)
        claim = MachineClaim(ask.run, self._here, own.since if own else ask.now, ask.demands, held, grant)
        # Before the ledger has it: a claim that only the ledger knew would be lost with the ledger.
        files.replace_quickly(RunDirectory(self._home, ask.run).claim_path, msgspec.json.encode(claim))
        book.put_claim(claim)
        return grant

    def _drop_claim(self, book: _Book, run: RunId) -> None:
        book.drop_claim(run)
        with suppress(OSError):
            RunDirectory(self._home, run).claim_path.unlink()

    def _lives(self, run: RunId) -> bool:
        return RunDirectory(self._home, run).is_held() or self._alive(run)

    def _wake(self, runs: Iterable[RunId]) -> None:
        for run in runs:
            RunDirectory(self._home, run).wake()

    def _fill(self, connection: sqlite3.Connection) -> None:
        """Puts into a new ledger what the run directories know."""
        book = _Book(connection)
        for run in directory.every(self._home):
            index.record(connection, run)
            try:
                claim = msgspec.json.decode(files.read(run.claim_path), type=MachineClaim)
            except (OSError, *DAMAGED):
                continue
            # A claim is ended by removing the file of the run that it names, so it must be this one.
            if claim.machine == self._here and claim.run == run.id:
                book.put_claim(claim)


class _Ask(Struct, frozen=True):
    run: RunId
    attempt: int
    demands: tuple[Demand, ...]
    fitting: tuple[Demand, ...]
    """The same with cpu capped to the machine."""
    note: str
    now: float


class _Book:
    """The tables of claims and tickets, within a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def claims(self) -> tuple[MachineClaim, ...]:
        found = self._connection.execute("SELECT record FROM claims")
        return tuple(msgspec.json.decode(record, type=MachineClaim) for (record,) in found)

    def put_claim(self, claim: MachineClaim) -> None:
        values = (claim.run.name, claim.run.number, msgspec.json.encode(claim))
        self._connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", values)

    def drop_claim(self, run: RunId) -> None:
        self._connection.execute("DELETE FROM claims WHERE name = ? AND number = ?", (run.name, run.number))

    def tickets(self) -> tuple[Ticket, ...]:
        found = self._connection.execute("SELECT name, number, since, seen, demands FROM tickets")
        return tuple(
            Ticket(RunId(name, number), since, seen, msgspec.json.decode(demands, type=tuple[Demand, ...]))
            for name, number, since, seen, demands in found
        )

    def put_ticket(self, ticket: Ticket) -> None:
        demands = msgspec.json.encode(ticket.demands)
        values = (ticket.run.name, ticket.run.number, ticket.since, ticket.seen, demands)
        self._connection.execute("INSERT OR REPLACE INTO tickets VALUES (?, ?, ?, ?, ?)", values)

    def drop_ticket(self, run: RunId) -> None:
        self._connection.execute("DELETE FROM tickets WHERE name = ? AND number = ?", (run.name, run.number))
