"""Opens the run of a script: `bireme.init()`."""

from __future__ import annotations

import os
import sys
from typing import Any, Mapping, Optional, Union

from ..checkpoints.values import Keep
from . import notes
from .complaints import Complaint
from .rank_env import RankEnv, read_rank_env
from .run import Run
from .run_settings import RunSettings
from .save_schedule import Every

_open: Optional[Run] = None


def init(
    *,
    checkpoints: Union[str, os.PathLike[str]] = "",
    every: Every = 100,
    keep: int = 3,
    best: str = "",
    seed: int = 0,
    stop_on_nan: bool = False,
) -> Run:
    """Returns this process's part of the run, whichever launcher started it.

    checkpoints: a folder, or an object store such as `s3://bucket/prefix`; by default the run's own.
    every: when `save` saves: a number of steps, or a time such as "30s" where all ranks share a machine.
    keep: how many of the newest checkpoints are kept.
    best: also keeps the best ones by a reported number: `"loss:min"`, `"accuracy:max"`, `"loss:min:2"`.
    seed: orders the data.
    stop_on_nan: end the script with an error when a reported number is not finite.

    Called again while the run is open, it returns the same run.
    """
    global _open
    if _open is not None and not _open.is_closed:
        return _open
    here = read_rank_env(os.environ)
    folder = run_folder(here, os.environ, sys.argv[0])
    where = os.fspath(checkpoints) or given_checkpoints(os.environ)
    if "://" in where:
        from ..checkpoints.storage import locations

        locations.check(where)  # at once, rather than at the first save
    else:
        where = os.path.expanduser(where)
    echoes = os.environ.get("BIREME_ECHO", "0") not in ("", "0")
    settings = RunSettings(
        checkpoints=where or notes.default_checkpoints(folder),
        every=every,
        keep=_keep(keep, best),
        seed=seed,
        stop_on_nan=stop_on_nan,
        origin=os.environ.get("BIREME_FROM", ""),
        metrics=metrics_folder(here, where) or (writable(folder) if echoes else ""),
        echoes=echoes,
    )
    _open = Run(here, folder, settings)
    return _open


def run_folder(here: RankEnv, environ: Mapping[str, str], script: str) -> str:
    """The run's directory; outside of Bireme a folder beside the work, named after the script."""
    if here.folder:
        return here.folder
    name = _bare(script).strip("-") or "python"
    if name == "__main__":  # python -m package
        name = _bare(os.path.dirname(script)) or name
    elif name == "ipykernel_launcher":
        name = _bare(environ.get("JPY_SESSION_NAME", "")) or "notebook"
    return os.path.abspath(os.path.join(environ.get("BIREME_RUNS", "bireme-runs"), name))


def metrics_folder(here: RankEnv, checkpoints: str) -> str:
    """Where records outlive a pod that may be lost: beside the checkpoints from which the next one resumes.

    Empty where they stay in the run's own folder: on one machine, or where checkpoints are not files.
    """
    if here.folder or not here.run or not checkpoints or "://" in checkpoints:
        return ""
    folder = os.path.join(checkpoints, "metrics", here.run.replace(os.sep, "-"))
    return folder if here.trains else os.path.join(folder, here.role)  # ranks are counted among their like


def writable(folder: str) -> str:
    """Where records are kept that are printed, too: the folder of the run, or one elsewhere.

    The file system of a container may be read-only.
    """
    own = os.path.join(folder, "metrics")
    elsewhere = f"bireme-{os.getpid()}"
    others = (os.environ.get("TMPDIR", "/tmp"), "/dev/shm")
    for candidate in (own, *(os.path.join(other, elsewhere) for other in others)):
        try:
            os.makedirs(candidate, exist_ok=True)
        except OSError:
            continue
        if os.access(candidate, os.W_OK | os.X_OK):
            return candidate
    return own


def given_checkpoints(environ: Mapping[str, str]) -> str:
    """The job's own setting of where checkpoints are kept; empty without one."""
    given = environ.get("BIREME_CHECKPOINTS", "")
    # Where no claim can be mounted, its folder is named instead.
    volume = environ.get("BIREME_VOLUME_CHECKPOINTS", "")
    return volume if volume and not os.path.isdir(given) else given


def _bare(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _keep(last: Any, best: Any) -> Keep:  # Any: whatever the script gave
    if not isinstance(last, int) or last < 1:
        raise Complaint(
            f"keep is {last!r}, and at least one checkpoint must be kept", "keep=1 keeps the newest"
        )
    if not best:
        return Keep(last=last)
    metric, _, rest = str(best).partition(":")
    mode, _, count = rest.partition(":")
    if mode not in ("min", "max") or not (count or "1").isdecimal():
        raise Complaint(
            f"best is {best!r}, which is not METRIC:min or METRIC:max",
            'write best="loss:min" or best="accuracy:max:2"',
        )
    return Keep(last=last, best=int(count or 1), metric=metric, mode=mode)
