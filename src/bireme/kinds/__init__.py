"""Lists the kinds: one module each, registered here by one line."""

from __future__ import annotations

import msgspec
from msgspec import structs

from bireme.kinds import batch, jax, mpi, mxnet, paddle, pytorch, tensorflow, xgboost
from bireme.kinds.contract import Kind
from bireme.model.job import Job

# In the order in which messages name them. A script without a kind is of the first.
KINDS: tuple[Kind, ...] = (
    pytorch.KIND,
    tensorflow.KIND,
    mpi.KIND,
    jax.KIND,
    xgboost.KIND,
    paddle.KIND,
    mxnet.KIND,
    batch.KIND,
)

BY_NAME = {kind.name: kind for kind in KINDS}
SERVED = tuple(kind.name for kind in KINDS if not kind.native)
"""The names of the kinds that our operator serves in a cluster."""
OF_SCRIPTS = KINDS[0]
OF_PODS = next(kind for kind in KINDS if not kind.specs)
"""The kind that runs a bare Pod: its spec is its only role."""


def typed(job: Job) -> Job:
    """A job as it was decoded, with the options of its kind. Raises ValueError if there is no such kind."""
    kind = BY_NAME.get(job.kind)
    if kind is None:
        raise ValueError(f"{job.kind!r} is no kind of job")
    if isinstance(job.options, kind.Options):
        return job
    return structs.replace(job, options=msgspec.convert(job.options or {}, kind.Options))


def of(job: Job) -> Kind:
    return BY_NAME[job.kind]


def named(name: str) -> Kind:
    return BY_NAME[name]
