"""The run as a training script sees it: report, save, restore, and iterate over its data."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, Mapping, Optional, Tuple, Type, Union

from ..checkpoints.values import Owner, Restored
from ..records.recorder import Recorder
from . import notes, rank_env, restored_state
from .complaints import Complaint, NotFinite, mistaken
from .graceful_stop import GracefulStop
from .rank_env import RankEnv
from .restored_state import Accumulation
from .run_settings import RunSettings, origin
from .save_schedule import SaveSchedule, interval, whole
from .step_agreement import open_page

if TYPE_CHECKING:  # imported when they are used: a script that only reports does not wait for them
    from ..checkpoints.manager import Checkpoints
    from ..data.positions import Position
    from ..data.step_iterator import Shard, Steps
    from .echo import Echo

TOTAL = "total_steps"
"""The parameter from which `bireme ps` shows how far a run is; a script with its own loop may set it."""
LEFT = 128 + signal.SIGTERM
"""The exit status of a rank that was asked to end, saved its work and did."""

Values = Any  # numbers, arrays and tensors of any library


class StartStep(int):
    """The step to begin with; `values` holds each part that was restored, by its name."""

    values: Dict[str, Any]

    def __new__(cls, step: int, values: Optional[Dict[str, Any]] = None) -> StartStep:
        made = super().__new__(cls, step)
        made.values = values or {}
        return made


class Run:
    """One rank's part of a run; made by `bireme.init()`."""

    def __init__(self, env: RankEnv, folder: str, settings: RunSettings) -> None:
        self.env = env
        self.folder = folder
        self._settings = settings
        self._tell = env.tell
        metrics = settings.metrics or os.path.join(folder, "metrics")
        self._recorder = Recorder(metrics, env.rank, env.attempt, self._tell)
        self._echo: Optional[Echo] = None
        if settings.echoes:
            from .echo import Echo

            self._echo = Echo(metrics, env, lambda: self._recorder.path)
            self._echo.start()
        self._page = open_page(env, folder, self._tell)
        self._schedule = SaveSchedule(
            interval(settings.every), env.rank, env.world_size, self._page, time.monotonic
        )
        self._stop = GracefulStop(self._schedule, self._wait_for_writes)
        self._checkpoints: Optional[Checkpoints] = None
        self._restored: Optional[Restored] = None
        self._steps: Optional[Steps] = None
        self._walk: Union[Steps, Shard, None] = None
        """The iteration over the training data, which has its position."""
        self._offered: Optional[Tuple[int, Dict[str, Any]]] = None
        """The last step that `save` was called with, and its parts; None once it is saved."""
        self._last: Dict[str, Any] = {}  # Any: numbers of any library
        self._accumulation = Accumulation(self._tell)
        self._is_checked = False
        """Whether the parts of the first `save` were looked at, due or not."""
        self._closed = False
        self.progress = notes.RankProgress()

    # --- Which rank this is -------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        return self.env.rank

    @property
    def local_rank(self) -> int:
        return self.env.local_rank

    @property
    def world_size(self) -> int:
        return self.env.world_size

    @property
    def role(self) -> str:
        return self.env.role

    @property
    def attempt(self) -> int:
        return self.env.attempt

    @property
    def device(self) -> str:
        """`cuda:N`, `mps` or `cpu`, for `torch.device(run.device)`."""
        return rank_env.device_name(self.env.local_rank)

    @property
    def epoch(self) -> int:
        """The epoch that `steps` is in."""
        return self._steps.epoch if self._steps is not None else 0

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def lost(self) -> str:
        """What rank 0 could not save, as a sentence without its subject; empty if its work is on disk."""
        return self._checkpoints.lost if self._checkpoints is not None else ""

    @property
    def is_leaving(self) -> bool:
        """Whether the run was asked to end; the next `save` saves, and ends it."""
        return self._stop.is_asked

    # --- Reporting ----------------------------------------------------------------------------------------

    def report(self, step: int, **scalars: Values) -> None:
        """Records numbers of a step: microseconds, never blocks, survives a kill as soon as it returned."""
        self._recorder.scalars(step, scalars)
        self.progress.step = step
        # Detached from the graph that they were computed by: it would stay in memory until the next report.
        self._last = {
            name: x.detach() if x.__class__ is not float and hasattr(x, "detach") else x
            for name, x in scalars.items()
        }
        if self._recorder.not_finite is not None and self._settings.stop_on_nan:
            name, where = self._recorder.not_finite
            raise NotFinite(
                f"{name} is not finite at step {where}",
                "lower the learning rate and continue from an earlier step, or init(stop_on_nan=False)",
            )

    def histogram(self, step: int, **values: Values) -> None:
        """Records how the values of arrays are distributed."""
        for name, value in values.items():
            self._recorder.histogram(step, name, value)

    def image(self, step: int, **images: Values) -> None:
        """Records images: PNG bytes, or arrays of height x width, with three channels or without."""
        for name, value in images.items():
            self._recorder.image(step, name, value)

    def text(self, step: int, **texts: str) -> None:
        """Records texts."""
        for name, value in texts.items():
            self._recorder.text(step, name, value)

    def params(self, **values: Values) -> None:
        """Records what the run was started with, such as its learning rate."""
        self._recorder.params(values)

    # --- Checkpoints --------------------------------------------------------------------------------------

    def restore(self, **parts: Values) -> StartStep:
        """Loads the newest good checkpoint into the parts; returns the step to begin with, 0 without one."""
        self._accumulation.watch()
        found = self._manager().restore(dict(parts))
        # `--from` counts only until the run has a checkpoint of its own: a restart must not go back to it.
        if found is None and self._settings.origin:
            where, step = origin(self._settings.origin)
            found = self._manager().restore_from(where, dict(parts), step)
            if found is None:
                wanted = "" if step is None else f" of step {step}"
                raise Complaint(
                    f"there is no good checkpoint{wanted} in {where}", "list them: bireme checkpoints JOB"
                )
        if found is None:
            return StartStep(0)
        self._restored = found
        self._schedule.continue_after(found.step)
        self._accumulation.restored(parts, found, self.env)
        if "random" in found.own:
            restored_state.restore_random(found.own["random"])
        if self.rank == 0:
            self._tell(f"continues after step {found.step}, from {found.name}")
        return StartStep(found.step + 1, found.values)

    def save(self, step: int, **parts: Values) -> None:
        """Saves the parts if a checkpoint is due; call it at the end of each step.

        It writes in the background: the loop waits only until the parts are copied. When the run was asked to
        end, this saves the last step and raises SystemExit.
        """
        here = whole(step)
        if not self.env.trains:
            return  # a parameter server or an evaluator: the workers save
        self._stop.listen()
        self._accumulation.forget()
        if not self._is_checked:
            self._is_checked = True
            self._check(parts)
        self.progress.step = here
        self._offered = (here, parts)
        # Asked first: a step that is both the last and due must end the run.
        if self._schedule.is_last(here):
            self.save_now(here, **parts)
            self._manager().wait()
            self.close()
            raise SystemExit(LEFT)
        if self._schedule.is_due(here):
            self.save_now(here, **parts)
        self._accumulation.watch()

    def save_now(self, step: int, **parts: Values) -> None:
        """Saves the parts, due or not; every rank must call it with the same step."""
        here = whole(step)
        if not self.env.trains:
            return
        self._recorder.look_after()
        own: Dict[str, Any] = {"random": restored_state.capture_random()}
        if self._walk is not None:
            own["position"] = self._walk.position.state()
            own["seed"] = self._settings.seed
        own.update(self._accumulation.own(parts))
        metrics = {}
        for name, value in self._last.items():
            with contextlib.suppress(TypeError, ValueError, RuntimeError):
                metrics[name] = float(value)
        self._manager().save(here, parts, own, metrics)
        self._schedule.saved()
        self._offered = None
        self.progress.step = here
        self.progress.tell()

    # --- Data ---------------------------------------------------------------------------------------------

    def steps(
        self, data: Values, start: Optional[int] = None, epochs: Optional[int] = 1
    ) -> Iterator[Tuple[int, Any]]:
        """Yields (step, batch): this rank's share, reshuffled in each epoch, from the exact sample on.

        `start` is what `restore` returned; without it, as for an evaluation, the data starts at its first
        sample, and the position of the training stays as it is. `data` is a torch DataLoader, a sequence of
        batches, or what `shard` returned. A loader that shuffles still does; it needs no DistributedSampler.
        """
        from ..data import step_iterator
        from ..data.positions import Position

        is_training = start is not None or (self._walk is None and self._restored is None)
        here = Position() if start is None else self._position()
        first = 0 if start is None else whole(start)
        made = step_iterator.Steps(data, self.env, first, here, epochs, self._settings.seed)
        if is_training:
            if self._steps is not None and first < self._steps.step:
                self._tell(f"run.steps starts again at step {first}; it covers all epochs itself: epochs=10")
            self._walk = self._steps = made
            if made.total is not None and self.rank == 0 and self.env.trains:
                self._recorder.params({TOTAL: made.total})
        elif self._walk is None:
            self._tell(
                "run.steps starts at the first sample; to continue the training: run.steps(..., start=start)"
            )
        if start is not None and self._restored is not None and "random" in self._restored.own:
            # Again: what the script drew since `restore` must not change what the loop draws from here on.
            restored_state.restore_random(self._restored.own["random"])
        if start is not None:
            self._accumulation.restore_again()
        return iter(made)

    def shard(self, data: Iterable[Any], shuffle: bool = True, start: Optional[int] = None) -> Iterable[Any]:
        """This rank's elements of a sequence or a stream; exactly one rank gets each of them.

        With `start` from `restore`, a loop over them continues where it was; without, as for an evaluation,
        it starts at the first element. `run.steps(run.shard(data), start=start)` counts the steps.
        """
        from ..data import step_iterator
        from ..data.positions import Position

        here = Position() if start is None else self._position()
        made = step_iterator.Shard(data, self.env, here, self._settings.seed, shuffle)
        if start is not None:
            self._walk = made
        return made

    # --- The end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Waits until everything is on disk; `with` does it."""
        self._close(has_failed=False)

    def _close(self, has_failed: bool) -> None:
        if self._closed:
            return
        self._closed = True
        if has_failed:
            self.progress.tell()
        if self._steps is not None:
            self._steps.close()
        if self._checkpoints is not None:
            self._checkpoints.close(has_failed)
        self._recorder.close()
        if self._echo is not None:
            self._echo.close()
        if self._page is not None:
            self._page.close()
        self._stop.stop()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            if kind is None and self._offered is not None:
                # The end of the training is worth keeping, whether it fell on the interval or not.
                step, parts = self._offered
                self.save_now(step, **parts)
        finally:
            self._close(has_failed=kind is not None and not issubclass(kind, SystemExit))

    # --- Inside -------------------------------------------------------------------------------------------

    def _manager(self) -> Checkpoints:
        if self._checkpoints is not None:
            return self._checkpoints
        from ..checkpoints.manager import Checkpoints

        env, where = self.env, self._settings.checkpoints
        # What does not train takes no part in what the ranks agree on.
        world_size = env.world_size if env.trains else 1
        owner = Owner(env.run or where, env.rank, world_size, env.attempt, env.launch)
        made = Checkpoints(where, owner, self._settings.keep, self._tell)
        folder = env.folder if env.rank == 0 else ""
        made.on_saved = lambda step: self.progress.note_saved(folder, env.attempt, step)
        self._checkpoints = made
        if folder:
            notes.note_checkpoints(folder, where)
        return made

    def _check(self, parts: Mapping[str, Any]) -> None:
        """Finds at the first `save`, due or not, what would otherwise fail at the first one that is due."""
        self._manager().check(parts)
        if self.env.rank == 0 and (told := mistaken(parts)):
            self._tell(told)
        if self._settings.origin and not self._manager().is_meant and self.env.rank == 0:
            self._tell(
                f"--from has no effect: the script never calls run.restore, which would continue from "
                f"{self._settings.origin}"
            )

    def _position(self) -> Position:
        return restored_state.resume_position(self._restored, self.env, self._settings.seed, self._tell)

    def _wait_for_writes(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.wait()
