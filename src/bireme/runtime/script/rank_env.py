"""The rank of this process, and of how many: read from the environment, whichever launcher set it.

Launchers nest (a torchrun on each node of an mpirun, everything inside of Slurm): the innermost, which knows
the ranks, comes first.
"""

from __future__ import annotations

import contextlib
import json
import sys
import zlib
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

Environ = Mapping[str, str]

# Rank, world size, local rank, local world size, as each launcher names them.
_LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    (
        "mpirun",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("jax", "PROCESS_ID", "NUM_PROCESSES", "", ""),
    ("jax", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "", ""),
    ("paddle", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "", ""),
)
# What a launcher gives to all of its ranks alike. Not MASTER_ADDR, which is localhost for the master of some
# operators, nor TF_CONFIG, in which a dynamic worker sees itself alone.
_SHARED = (
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "HOROVOD_GLOO_RENDEZVOUS_PORT",
    "PMIX_NAMESPACE",
    "SLURM_JOB_ID",
    "SLURM_RESTART_COUNT",
)
# Where the first rank listens if all of them are on this machine.
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TRAINING_ROLES = ("chief", "master", "worker")
# Steps of Slurm that are not an `srun`: the batch script itself, an interactive shell, and the like.
_SLURM_SPECIAL_STEPS = 0xFFFFFFF0


class RankEnv(NamedTuple):
    """Which rank a process is, of which run and attempt."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    role: str = "worker"
    trains: bool = True
    """Whether it is one of the ranks; a parameter server or an evaluator is not."""
    attempt: int = 0
    launcher: str = "nothing"
    run: str = ""
    """The run's name; empty outside of Bireme."""
    folder: str = ""
    """The run's directory, if Bireme gave one."""
    launch: str = ""
    """What all ranks of a launch have in common, where run or attempt is not given; else empty."""

    @property
    def is_on_one_machine(self) -> bool:
        """Whether all ranks are known to share this machine."""
        # A run directory is on this machine, and so is every rank that was given it.
        return self.local_world_size == self.world_size or bool(self.folder)

    def tell(self, words: str) -> None:
        """Prints a message of ours on standard error, which the script may have closed."""
        name = f"bireme (rank {self.rank})" if self.world_size > 1 else "bireme"
        with contextlib.suppress(OSError, ValueError):
            print(f"{name}: {words}", file=sys.stderr, flush=True)


def read_rank_env(environ: Environ) -> RankEnv:
    """Reads the environment; a process that no launcher started is the only rank."""
    launcher, ranks = _launched(environ)
    rank, world_size, local_rank, local_world_size = ranks
    role, trains = environ.get("BIREME_ROLE", "worker").lower(), True
    if launcher == "tensorflow":
        role = _task(environ)[0]
        trains = role in _TRAINING_ROLES
    if role == "launcher" and launcher in ("horovodrun", "mpirun"):
        role = "worker"  # it hands its own environment on to the ranks
    run = environ.get("BIREME_RUN", "").rpartition("/")[0]
    launch = ""
    if not run or _number(environ, "BIREME_ATTEMPT") is None:
        told = "\n".join(f"{name}={environ.get(name, '')}" for name in _SHARED)
        launch = f"{zlib.crc32(told.encode('utf-8', 'surrogateescape')):08x}"
    return RankEnv(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=local_world_size,
        role=role,
        trains=trains,
        attempt=_number(environ, "BIREME_ATTEMPT", _number(environ, "TORCHELASTIC_RESTART_COUNT", 0)),
        launcher="bireme" if "BIREME_ATTEMPT" in environ else launcher,
        run=run,
        folder=environ.get("BIREME_RUN_DIR", ""),
        launch=launch,
    )


Ranks = Tuple[int, int, int, int]


def _launched(environ: Environ) -> Tuple[str, Ranks]:
    for name, rank, size, local_rank, local_size in _LAUNCHERS:
        here, total = _number(environ, rank), _number(environ, size)
        if here is not None and total is not None and 0 <= here < total:
            return name, (here, total, *_local(environ, local_rank, local_size))
    if environ.get("TF_CONFIG"):
        found = _of_tensorflow(environ)
        if found is not None:
            return "tensorflow", found
    if _number(environ, "SLURM_STEP_ID", _SLURM_SPECIAL_STEPS) < _SLURM_SPECIAL_STEPS:
        here, total = _number(environ, "SLURM_PROCID"), _number(environ, "SLURM_NTASKS")
        if here is not None and total is not None:
            return "slurm", (here, total, *_local(environ, "SLURM_LOCALID", ""))
    if environ.get("NODE_RANK") == "0" and environ.get("MASTER_ADDR") in _LOOPBACK:
        # A process that Lightning has started beside its first one: it is told nothing else of its rank.
        # With several nodes the size is that of all, and how many are on this one is not said.
        here, total = _number(environ, "LOCAL_RANK"), _number(environ, "WORLD_SIZE")
        if here is not None and total is not None and 0 <= here < total:
            return "lightning", (here, total, here, total)
    return "nothing", (0, 1, 0, 1)


def _local(environ: Environ, rank_name: str, size_name: str) -> Tuple[int, int]:
    """The rank on this machine, and how many there are; a lone process where the launcher does not say."""
    local_rank = _number(environ, rank_name, 0)
    known = _number(environ, size_name)
    return local_rank, known if known is not None else 1


def _of_tensorflow(environ: Environ) -> Optional[Ranks]:
    """Chief and master come before the workers; other roles count among themselves."""
    role, index = _task(environ)
    found = _config(environ).get("cluster")
    cluster = found if isinstance(found, dict) else {}
    is_training = role in _TRAINING_ROLES
    counted = _TRAINING_ROLES if is_training else (role,)
    # The addresses of a role are a list, or a dict by number.
    addresses = [cluster.get(name) for name in counted]
    sizes = [len(given) if isinstance(given, (list, dict)) else 0 for given in addresses]
    if not is_training and not sizes[0]:
        sizes = [index + 1]  # an evaluator is no part of the cluster
    if not 0 <= index < sizes[counted.index(role)]:
        return None
    rank = sum(sizes[: counted.index(role)]) + index
    return (rank, sum(sizes), *_local(environ, "", ""))


def _task(environ: Environ) -> Tuple[str, int]:
    found = _config(environ).get("task")
    task = found if isinstance(found, dict) else {}
    index = str(task.get("index", 0))
    return str(task.get("type", "worker")), int(index) if index.isdecimal() else -1


def _config(environ: Environ) -> Dict[str, Any]:  # Any: what JSON holds
    try:
        found = json.loads(environ.get("TF_CONFIG", "") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _number(environ: Environ, name: str, default: Any = None) -> Any:  # Any: an int, or the default
    text = environ.get(name, "") if name else ""
    return int(text) if text.isdecimal() else default


def device_name(local_rank: int) -> str:
    """`cuda:N`, `mps` or `cpu`, as torch sees it; `cpu` where the script has not imported torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return "cpu"
    if torch.cuda.is_available():
        # A launcher that shows each rank its own device only leaves no other number than 0.
        return f"cuda:{local_rank % torch.cuda.device_count()}"
    backends = getattr(torch, "backends", None)
    mps = getattr(backends, "mps", None)
    if mps is not None and mps.is_available():
        return "mps"
    return "cpu"
