"""Adds up a vector over all ranks with a ring all-reduce written by hand.

Each rank cuts its vector into as many pieces as there are ranks. In the first half every piece travels
once around the ring and is added to on its way; in the second half the finished pieces travel around again.
So each rank sends about twice its vector, however many ranks there are.
"""

import sys

import numpy as np
from mpi4py import MPI

LENGTH = 1_000_000


def main() -> None:
    comm = MPI.COMM_WORLD
    values = np.random.default_rng(comm.rank).normal(size=LENGTH)  # each rank has its own
    expected = comm.allreduce(values)

    comm.Barrier()
    start = MPI.Wtime()
    ring_allreduce(comm, values)
    seconds = MPI.Wtime() - start

    correct = comm.allreduce(bool(np.allclose(values, expected)), op=MPI.LAND)
    print(f"rank {comm.rank} of {comm.size} on {MPI.Get_processor_name()}", flush=True)
    if comm.rank == 0:
        print(f"ring all-reduce of {LENGTH} numbers: correct={correct}, {seconds * 1000:.1f} ms", flush=True)
    sys.exit(0 if correct else 1)


def ring_allreduce(comm: MPI.Comm, values: np.ndarray) -> None:
    """Replaces `values` by their sum over all ranks, in place."""
    pieces = np.array_split(values, comm.size)  # views: writing to a piece writes to `values`
    for step in range(comm.size - 1):
        piece = pieces[(comm.rank - step - 1) % comm.size]
        piece += pass_on(comm, pieces[(comm.rank - step) % comm.size], like=piece)
    for step in range(comm.size - 1):
        piece = pieces[(comm.rank - step) % comm.size]
        piece[:] = pass_on(comm, pieces[(comm.rank - step + 1) % comm.size], like=piece)


def pass_on(comm: MPI.Comm, outgoing: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Sends a piece to the next rank and returns the one from the rank before, which is shaped `like`."""
    following, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    incoming = np.empty_like(like)
    sending = comm.Isend(outgoing, dest=following)  # not Send: if all ranks sent first, none would receive
    comm.Recv(incoming, source=before)
    sending.Wait()
    return incoming


if __name__ == "__main__":
    main()
