"""Admits runs to a machine as whole gangs, and tells each other run what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bireme.model.decisions import Demand
from bireme.model.pods import GPU_SUFFIXES
from bireme.model.quantities import show_cpu, show_memory

PATIENCE = 300.0
"""Seconds after which what a waiting job needs is set aside for it."""
CPU_WHEN_UNSAID = 1000
"""Millicores that a replica counts with when it asks for no cpu at all."""

_CPU = "cpu"
_MEMORY = "memory"
_MOST_NAMES = 5

Amounts = dict[str, int]
"""How much of each resource: `cpu` in millicores, `memory` in bytes, devices by their own name."""
Devices = dict[str, dict[str, tuple[str, ...]]]
"""The ids of the devices that each replica has, by replica and by resource name."""


class Capacity(Struct, frozen=True):
    """The resources of a machine."""

    cpu: int
    """Millicores."""
    memory: int
    """Bytes."""
    devices: dict[str, tuple[str, ...]] = {}
    """Ids by resource name, such as `nvidia.com/gpu`; busy ones included."""
    busy: dict[str, tuple[str, ...]] = {}
    """Ids that programs use now; those that no run holds are not free."""


class Want(Struct, frozen=True):
    """A run that asks for the resources of its whole gang."""

    run: str
    since: float
    demands: tuple[Demand, ...]


class Held(Struct, frozen=True):
    """The resources that a run holds."""

    run: str
    cpu: int
    memory: int
    devices: Devices = {}

    @property
    def amounts(self) -> Amounts:
        counted: Amounts = {_CPU: self.cpu, _MEMORY: self.memory}
        for by_resource in self.devices.values():
            for resource, ids in by_resource.items():
                counted[resource] = counted.get(resource, 0) + len(ids)
        return counted


class AdmissionVerdict(Struct, frozen=True):
    """The runs that have room now with what each of them gets, and for each other a sentence why it waits."""

    admitted: tuple[Held, ...] = ()
    waiting: dict[str, str] = {}

    def granted(self, run: str) -> Held | None:
        return next((held for held in self.admitted if held.run == run), None)


def decide(capacity: Capacity, held: Iterable[Held], queue: Iterable[Want], now: float) -> AdmissionVerdict:
    """Admits whole gangs in the order of their waiting.

    A run that asks for no more than it holds keeps it. A later run that fits passes one that does not; but
    once a run has waited for PATIENCE, all that it needs is set aside, and others get only what is left.
    """
    ledger = _Ledger(capacity, {holder.run: holder for holder in held})
    ordered = sorted(queue, key=lambda want: (want.since, want.run))
    # Holders first, in a pass of their own: what is set aside for a run that waits must not count against
    # one that was admitted before.
    admitted = [ledger.admit(want) for want in ordered if ledger.keeps(want)]
    kept = {holder.run for holder in admitted}
    waiting: dict[str, str] = {}
    for want in ordered:
        if want.run in kept:
            continue
        short = ledger.shortage(want)
        if short:
            behind = f"; behind {_listed(list(waiting))} in the queue" if waiting else ""
            waiting[want.run] = short + behind
            ledger.wait(want, now)
        else:
            admitted.append(ledger.admit(want))
    return AdmissionVerdict(tuple(admitted), waiting)


def capped(capacity: Capacity, demands: tuple[Demand, ...]) -> tuple[tuple[Demand, ...], str]:
    """Returns demands whose cpu fits the machine, and one sentence if that changed something.

    More ranks than cores is slow but works, so cpu is shared; memory and devices cannot be.
    """
    asked = amounts(demands)[_CPU]
    if asked <= capacity.cpu:
        return demands, ""
    shares = []
    for demand in demands:
        share = replace(demand.resources, cpu=_cpu(demand) * capacity.cpu // asked)
        shares.append(replace(demand, resources=share))
    whole = _number(_CPU, capacity.cpu)
    text = f"asks for {_show(_CPU, asked)}, this machine has {whole}: its replicas share {whole}"
    return tuple(shares), text


def never_fits(capacity: Capacity, demands: Iterable[Demand]) -> str:
    """Returns a sentence about what the machine does not have at all, or an empty text."""
    lacks = []
    for resource, asked in amounts(demands).items():
        whole = _total(capacity, resource)
        if resource != _CPU and asked > whole:
            lacks.append(f"needs {_show(resource, asked)}, this machine has {_number(resource, whole)}")
    return "; ".join(lacks)


def amounts(demands: Iterable[Demand]) -> Amounts:
    """Adds up what all replicas count with."""
    counted: Amounts = {_CPU: 0, _MEMORY: 0}
    for demand in demands:
        counted[_CPU] += _cpu(demand)
        counted[_MEMORY] += demand.resources.memory or 0
        for resource, count in demand.resources.devices.items():
            counted[resource] = counted.get(resource, 0) + count
    return counted


class _Ledger:
    """The runs that hold or wait for resources, while a queue is worked through."""

    def __init__(self, capacity: Capacity, holders: dict[str, Held]) -> None:
        self._capacity = capacity
        self._holders = holders
        self._uses = {run: holder.amounts for run, holder in holders.items()}
        self._set_aside: dict[str, tuple[Amounts, float]] = {}

    def keeps(self, want: Want) -> bool:
        own = self._holders.get(want.run)
        if own is None:
            return False
        # Devices that the machine no longer has do not count: a run that held one must be given another.
        devices = {
            replica: {
                resource: tuple(id for id in ids if id in self._capacity.devices.get(resource, ()))
                for resource, ids in by_resource.items()
            }
            for replica, by_resource in own.devices.items()
        }
        has = replace(own, devices=devices).amounts
        return all(asked <= has.get(resource, 0) for resource, asked in amounts(want.demands).items())

    def admit(self, want: Want) -> Held:
        asked = amounts(want.demands)
        free = {name: self._free_ids(name, want.run) for name in asked if name not in (_CPU, _MEMORY)}
        own = self._holders.get(want.run)
        devices = _dealt(want.demands, free, own.devices if own else {})
        granted = Held(want.run, asked[_CPU], asked[_MEMORY], devices)
        self._holders[want.run] = granted
        self._uses[want.run] = granted.amounts
        return granted

    def wait(self, want: Want, now: float) -> None:
        waited = now - want.since
        if waited >= PATIENCE:
            has = self._uses.get(want.run, {})
            more = {name: max(0, asked - has.get(name, 0)) for name, asked in amounts(want.demands).items()}
            self._set_aside[want.run] = (more, waited)

    def shortage(self, want: Want) -> str:
        """Says what is short and which runs have it; an empty text means that everything fits."""
        parts = []
        for resource, asked in amounts(want.demands).items():
            if resource in (_CPU, _MEMORY):
                used = sum(uses.get(resource, 0) for run, uses in self._uses.items() if run != want.run)
                free = _total(self._capacity, resource) - used
            else:
                free = len(self._free_ids(resource, want.run))
            free -= sum(more.get(resource, 0) for more, _ in self._set_aside.values())
            if asked > max(free, 0):
                parts.append(self._sentence(want.run, resource, asked, max(free, 0)))
        return "; ".join(parts)

    def _free_ids(self, resource: str, run: str) -> list[str]:
        own = _ids([self._holders[run]] if run in self._holders else [], resource)
        taken = _ids((holder for name, holder in self._holders.items() if name != run), resource)
        # A device that this run holds is busy with its own program, and is free for it.
        taken |= set(self._capacity.busy.get(resource, ())) - own
        return [id for id in self._capacity.devices.get(resource, ()) if id not in taken]

    def _sentence(self, run: str, resource: str, asked: int, free: int) -> str:
        text = f"needs {_show(resource, asked)}, {_number(resource, free)} free"
        uses = {name: used.get(resource, 0) for name, used in self._uses.items() if name != run}
        if held := _named(resource, uses):
            text += f"; held by {held}"
        if foreign := set(self._capacity.busy.get(resource, ())) - _ids(self._holders.values(), resource):
            text += f"; {len(foreign)} busy with other programs"
        reserved = {name: more.get(resource, 0) for name, (more, _) in self._set_aside.items()}
        if aside := _named(resource, reserved):
            longest = max(waited for _, waited in self._set_aside.values())
            text += f"; set aside for {aside} after {longest / 60:.0f} minutes of waiting"
        return text


def _dealt(demands: Sequence[Demand], free: Mapping[str, list[str]], own: Devices) -> Devices:
    """Gives each replica its devices, the ones that it had before if they are free."""
    # What each replica keeps is settled for all of them before any new device is dealt: otherwise the first
    # replica could be dealt a device that a later one had.
    kept: Devices = {}
    for demand in demands:
        kept[demand.replica] = {
            resource: tuple(
                id for id in own.get(demand.replica, {}).get(resource, ()) if id in free[resource]
            )[:count]
            for resource, count in demand.resources.devices.items()
        }
    left = {
        resource: [id for id in ids if not any(id in devices.get(resource, ()) for devices in kept.values())]
        for resource, ids in free.items()
    }
    dealt: Devices = {}
    for demand in demands:
        mine: dict[str, tuple[str, ...]] = {}
        for resource, count in demand.resources.devices.items():
            had = kept[demand.replica][resource]
            mine[resource] = had + tuple(left[resource].pop(0) for _ in range(count - len(had)))
        if mine:
            dealt[demand.replica] = mine
    return dealt


def _ids(holders: Iterable[Held], resource: str) -> set[str]:
    return {
        id
        for holder in holders
        for by_resource in holder.devices.values()
        for id in by_resource.get(resource, ())
    }


def _total(capacity: Capacity, resource: str) -> int:
    if resource == _CPU:
        return capacity.cpu
    return capacity.memory if resource == _MEMORY else len(capacity.devices.get(resource, ()))


def _cpu(demand: Demand) -> int:
    return CPU_WHEN_UNSAID if demand.resources.cpu is None else demand.resources.cpu


def _named(resource: str, uses: Mapping[str, int]) -> str:
    """Lists the runs that use it, the largest first, because those are worth waiting for or stopping."""
    largest = sorted((-amount, name) for name, amount in uses.items() if amount)
    return _listed([f"{name} ({_number(resource, -amount)})" for amount, name in largest])


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _show(resource: str, amount: int) -> str:
    number = _number(resource, amount)
    if resource == _MEMORY:
        return f"{number} of memory"
    name = "GPU" if resource.endswith(GPU_SUFFIXES) else resource
    return f"{number} {name}s" if name in (_CPU, "GPU") and number != "1" else f"{number} {name}"


def _number(resource: str, amount: int) -> str:
    if resource == _MEMORY:
        return show_memory(amount)
    return show_cpu(amount).removesuffix(" cpu") if resource == _CPU else str(amount)
