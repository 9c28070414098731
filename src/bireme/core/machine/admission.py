"""Who may start now, and what does everyone else wait for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

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
    """What a machine has."""

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
    """What a run has."""

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
    """Who has room now and what each of them gets, and for everyone else a sentence why it waits."""

    admitted: tuple[Held, ...] = ()
    waiting: dict[str, str] = {}

    def granted(self, run: str) -> Held | None:
        return next((one for one in self.admitted if one.run == run), None)


def decide(capacity: Capacity, held: Iterable[Held], queue: Iterable[Want], now: float) -> AdmissionVerdict:
    """Admits whole gangs in the order of their waiting.

    Who asks for no more than it holds keeps it. A later run that fits passes one that does not; but once a
    run has waited for PATIENCE, all that it needs is set aside, and others get only what is left beside it.
    """
    hall = _Hall(capacity, {one.run: one for one in held})
    ordered = sorted(queue, key=lambda want: (want.since, want.run))
    admitted = [hall.enter(want) for want in ordered if hall.keeps(want)]
    kept = {one.run for one in admitted}
    waiting: dict[str, str] = {}
    for want in ordered:
        if want.run in kept:
            continue
        short = hall.shortage(want)
        if short:
            waiting[want.run] = _behind(short, waiting)
            hall.wait(want, now)
        else:
            admitted.append(hall.enter(want))
    return AdmissionVerdict(tuple(admitted), waiting)


def capped(capacity: Capacity, demands: tuple[Demand, ...]) -> tuple[tuple[Demand, ...], str]:
    """Returns demands whose cpu fits the machine, and one sentence if that changed something.

    More ranks than cores is slow but works, so cpu is shared; memory and devices cannot be.
    """
    asked = amounts(demands)[_CPU]
    if asked <= capacity.cpu:
        return demands, ""
    shares = tuple(_with_cpu(one, _cpu(one) * capacity.cpu // asked) for one in demands)
    whole = _number(_CPU, capacity.cpu)
    return shares, f"asks for {_show(_CPU, asked)}, this machine has {whole}: its replicas share {whole}"


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


class _Hall:
    """Who is in, while a queue is worked through."""

    def __init__(self, capacity: Capacity, holders: dict[str, Held]) -> None:
        self._capacity = capacity
        self._holders = holders
        self._uses = {run: one.amounts for run, one in holders.items()}
        self._set_aside: dict[str, tuple[Amounts, float]] = {}

    def keeps(self, want: Want) -> bool:
        own = self._holders.get(want.run)
        if own is None:
            return False
        has = _still_there(self._capacity, own).amounts
        return all(asked <= has.get(resource, 0) for resource, asked in amounts(want.demands).items())

    def enter(self, want: Want) -> Held:
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
        """Says what is short and who has it; an empty text means that everything fits."""
        parts = []
        for resource, asked in amounts(want.demands).items():
            free = self._free(resource, want.run)
            if asked > max(free, 0):
                parts.append(self._sentence(want.run, resource, asked, max(free, 0)))
        return "; ".join(parts)

    def _free(self, resource: str, run: str) -> int:
        reserved = sum(one.get(resource, 0) for one, _ in self._set_aside.values())
        if resource in (_CPU, _MEMORY):
            used = sum(one.get(resource, 0) for name, one in self._uses.items() if name != run)
            return _total(self._capacity, resource) - used - reserved
        return len(self._free_ids(resource, run)) - reserved

    def _free_ids(self, resource: str, run: str) -> list[str]:
        own = _ids([self._holders[run]] if run in self._holders else [], resource)
        taken = _ids((one for name, one in self._holders.items() if name != run), resource)
        taken |= set(self._capacity.busy.get(resource, ())) - own
        return [one for one in self._capacity.devices.get(resource, ()) if one not in taken]

    def _sentence(self, run: str, resource: str, asked: int, free: int) -> str:
        text = f"needs {_show(resource, asked)}, {_number(resource, free)} free"
        uses = {name: one.get(resource, 0) for name, one in self._uses.items() if name != run}
        if held := _named(resource, uses):
            text += f"; held by {held}"
        if busy := self._busy_with_others(resource):
            text += f"; {busy} busy with other programs"
        if aside := _named(
            resource, {name: one.get(resource, 0) for name, (one, _) in self._set_aside.items()}
        ):
            longest = max(waited for _, waited in self._set_aside.values())
            text += f"; set aside for {aside} after {longest / 60:.0f} minutes of waiting"
        return text

    def _busy_with_others(self, resource: str) -> int:
        ours = _ids(self._holders.values(), resource)
        return len(set(self._capacity.busy.get(resource, ())) - ours)


def _dealt(demands: Sequence[Demand], free: Mapping[str, list[str]], own: Devices) -> Devices:
    """Gives each replica its devices, the ones that it had before if they are free."""
    kept: Devices = {}
    for demand in demands:
        kept[demand.replica] = {
            resource: tuple(
                one for one in own.get(demand.replica, {}).get(resource, ()) if one in free[resource]
            )[:count]
            for resource, count in demand.resources.devices.items()
        }
    left = {
        resource: [one for one in ids if not any(one in each.get(resource, ()) for each in kept.values())]
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


def _still_there(capacity: Capacity, held: Held) -> Held:
    """Leaves out devices that the machine no longer has."""
    devices = {
        replica: {
            resource: tuple(one for one in ids if one in capacity.devices.get(resource, ()))
            for resource, ids in by_resource.items()
        }
        for replica, by_resource in held.devices.items()
    }
    return msgspec.structs.replace(held, devices=devices)


def _ids(holders: Iterable[Held], resource: str) -> set[str]:
    return {
        one
        for holder in holders
        for by_resource in holder.devices.values()
        for one in by_resource.get(resource, ())
    }


def _total(capacity: Capacity, resource: str) -> int:
    if resource == _CPU:
        return capacity.cpu
    return capacity.memory if resource == _MEMORY else len(capacity.devices.get(resource, ()))


def _cpu(demand: Demand) -> int:
    return CPU_WHEN_UNSAID if demand.resources.cpu is None else demand.resources.cpu


def _with_cpu(demand: Demand, cpu: int) -> Demand:
    return msgspec.structs.replace(demand, resources=msgspec.structs.replace(demand.resources, cpu=cpu))


def _behind(sentence: str, ahead: Iterable[str]) -> str:
    names = list(ahead)
    return f"{sentence}; behind {_listed(names)} in the queue" if names else sentence


def _named(resource: str, uses: Mapping[str, int]) -> str:
    """Lists who has how much, the largest first, because those are worth waiting for or stopping."""
    largest = sorted((one for one in uses.items() if one[1]), key=lambda one: (-one[1], one[0]))
    return _listed([f"{name} ({_number(resource, amount)})" for name, amount in largest])


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
