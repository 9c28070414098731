"""Which kinds are there: one module each, registered here by one line."""

from __future__ import annotations

from bireme.kinds import batch, jax, mpi, paddle, pytorch, tensorflow, xgboost
from bireme.kinds.contract import KindModule
from bireme.model.job import Kind

MODULES: dict[Kind, KindModule] = {
    Kind.PYTORCH: pytorch,
    Kind.TENSORFLOW: tensorflow,
    Kind.MPI: mpi,
    Kind.JAX: jax,
    Kind.XGBOOST: xgboost,
    Kind.PADDLE: paddle,
    Kind.BATCH: batch,
}


def module(kind: Kind) -> KindModule:
    return MODULES[kind]
