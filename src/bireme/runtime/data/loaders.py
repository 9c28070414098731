"""Reads the options of a torch DataLoader, and rebuilds it to read what a rank is given."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Optional, Sequence

from ..script.complaints import Complaint
from .epoch_order import derived
from .positions import WalkPlan

Torch = Any  # torch's classes: imported by the script, never here


@dataclass(frozen=True)
class LoaderOptions:
    """How the user's loader orders its samples, and makes batches of them."""

    batch: Optional[int]
    """None: each sample is handed out as it is."""
    drop_last: bool
    shuffle: bool
    chosen: Optional[Sequence[int]] = None
    """The samples that the sampler was restricted to."""


def is_loader(data: object) -> bool:
    """Whether it is a DataLoader; torch is not imported to find out."""
    kinds: Torch = sys.modules.get("torch.utils.data")
    return kinds is not None and isinstance(data, kinds.DataLoader)


def is_stream(data: object) -> bool:
    """Whether it is an IterableDataset, of torch or of Hugging Face."""
    kinds: Torch = sys.modules.get("torch.utils.data")
    if kinds is not None and isinstance(data, kinds.IterableDataset):
        return True
    return type(data).__module__.startswith("datasets.") and not hasattr(data, "__getitem__")


def has_state(data: object) -> bool:
    """Whether it keeps its own position."""
    return callable(getattr(data, "state_dict", None)) and callable(getattr(data, "load_state_dict", None))


def is_in_worker() -> bool:
    """Whether this process is one that a DataLoader started."""
    kinds: Torch = sys.modules.get("torch.utils.data")
    return kinds is not None and kinds.get_worker_info() is not None


def check(loader: Torch) -> None:
    """Rejects a loader that reads in its own way."""
    plain: Torch = sys.modules["torch.utils.data"].DataLoader
    kind = type(loader)
    if kind.__iter__ is not plain.__iter__ or kind._get_iterator is not plain._get_iterator:
        raise Complaint(
            f"{kind.__module__}.{kind.__qualname__} reads in its own way, which cannot be split among ranks",
            "use a plain DataLoader, or one with state_dict and load_state_dict",
        )


def loader_options(loader: Torch) -> LoaderOptions:
    """Reads the order off a loader over a map dataset."""
    kinds: Torch = sys.modules["torch.utils.data"]
    sampler, batch, drop_last = loader.sampler, loader.batch_size, loader.drop_last
    if batch is None and loader.batch_sampler is not None:
        if type(loader.batch_sampler) is not kinds.BatchSampler:
            raise _unknown(loader.batch_sampler, "batch_sampler")
        sampler, batch = loader.batch_sampler.sampler, loader.batch_sampler.batch_size
        drop_last = loader.batch_sampler.drop_last
    if type(sampler) is kinds.SubsetRandomSampler:
        return LoaderOptions(batch, drop_last, True, list(sampler.indices))
    # Only samplers are known that go through the whole dataset, each sample once.
    is_random = type(sampler) is kinds.RandomSampler
    if is_random or type(sampler) is kinds.SequentialSampler:
        is_whole = not (is_random and sampler.replacement) and len(sampler) == len(loader.dataset)
    else:
        is_shared = type(sampler) is kinds.distributed.DistributedSampler
        is_whole = is_shared and len(sampler.dataset) == len(loader.dataset)
    if not is_whole:
        raise _unknown(sampler, "sampler")
    shuffle = is_random or bool(getattr(sampler, "shuffle", False))
    return LoaderOptions(batch, drop_last, shuffle)


def rebuilt(
    loader: Torch,
    dataset: object,
    picks: Optional[Iterable[object]],
    collate: Callable[..., object],
    way: WalkPlan,
) -> Torch:
    """A loader with the same workers, which gets `picks` one by one, or the elements of a stream."""
    torch: Torch = sys.modules["torch"]
    # Making an iterator draws a number; from this generator, so that the script's own are left alone.
    generator = torch.Generator()
    generator.manual_seed(derived(way.seed, "workers", way.rank) % 2**63)
    more = {}
    if loader.num_workers:
        more = {
            "worker_init_fn": WorkerInit(loader.worker_init_fn),
            "multiprocessing_context": loader.multiprocessing_context,
            "prefetch_factor": loader.prefetch_factor,
        }
    if loader.pin_memory_device:
        more["pin_memory_device"] = loader.pin_memory_device
    return torch.utils.data.DataLoader(
        dataset,
        batch_size=None,
        sampler=picks,
        num_workers=loader.num_workers,
        collate_fn=collate,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        generator=generator,
        **more,
    )


class WorkerInit:
    """What a worker does first; then it calls the user's own function."""

    def __init__(self, users: Optional[Callable[[int], None]]) -> None:
        self._users = users

    def __call__(self, worker: int) -> None:
        kinds: Torch = sys.modules["torch.utils.data"]
        info = kinds.get_worker_info()
        seen = info.dataset.begin(worker, info.num_workers)
        for name, value in seen.items():
            # The record is meant to be constant; ours stands in for the one that the user's code expects.
            object.__setattr__(info, name, value)
        if self._users is not None:
            self._users(worker)


def _unknown(sampler: object, role: str) -> Complaint:
    return Complaint(
        f"the {role} {type(sampler).__name__} has its own order, which cannot be split among ranks",
        "leave it out (shuffle=True shuffles, each rank gets its share), or give it state_dict and "
        "load_state_dict: then it is used as it is, and must give each rank its share",
    )
