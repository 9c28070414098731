"""What goes wrong in a simulated cluster, and how often."""

from __future__ import annotations

from enum import StrEnum
from random import Random

from msgspec import Struct

from bireme.backends.kubernetes.objects.pod_groups import VOLCANO


class Misfortune(StrEnum):
    """Something that happens to jobs, pods, nodes or operators from outside."""

    EVICT = "evict a pod"
    PREEMPT = "preempt a pod"
    DELETE_POD = "delete a pod"
    FORCE_DELETE_POD = "force-delete a pod"
    RELABEL = "take the attempt from a pod"
    CUT_NODE = "cut off a node"
    KILL_NODE = "switch off a node"
    REMOVE_NODE = "remove a node"
    SUSPEND = "suspend or resume a job"
    SCALE = "scale a job"
    TOUCH = "touch a job"
    DELETE_JOB = "delete a job"
    QUOTA = "allow no more pods"
    COMPACT = "compact the history"
    KILL = "kill an operator"
    PARTITION = "cut off an operator"
    NO_LEASE = "refuse an operator its lease"


class Leaders(StrEnum):
    """Who leads."""

    ALONE = "one operator without a lease"
    LEASE = "two operators that share a lease"
    OVERLAP = "a new operator begins while the old one still acts"


class Profile(Struct, frozen=True):
    """How a cluster treats its jobs while there is chaos; afterwards everything goes well."""

    jobs: int
    chaos: float
    """Seconds of it."""
    misfortunes: tuple[Misfortune, ...]
    pause: float
    """Mean seconds between two misfortunes."""
    leaders: Leaders
    nodes: int
    work: float
    """Mean seconds that a program runs."""
    latency: float
    """Longest seconds that a request takes on each of its ways."""
    lag: float
    """Longest seconds until a watch tells."""
    watch: float
    """Mean seconds that a watch lives; 0 means until it ends by itself."""
    old_lists: float
    """Seconds by which a list of any version may be behind."""
    crash: float
    """Probabilities from here on."""
    hang: float
    no_image: float
    finalizer: float
    too_many: float
    fails_before: float
    fails_after: float
    stall: float
    """That a watch tells nothing for a long time, and then all."""
    repeat: float
    kill: float
    """That an operator dies with a request."""
    scheduler: str = ""
    """The gang scheduler, if there is one."""

    def is_exact_for_losses(self) -> bool:
        """Whether no user changes who is wanted, so that every replacement must have been counted."""
        return not {Misfortune.SCALE, Misfortune.SUSPEND, Misfortune.DELETE_JOB} & set(self.misfortunes)


def draw(rng: Random) -> Profile:
    """A cluster at random; most of its dangers are absent, so that each is met alone and in company."""

    def some(chance: float, most: float) -> float:
        return rng.random() * most if rng.random() < chance else 0.0

    few = rng.choice((1, 2, 3, 4, 15))
    leaders = rng.choice((Leaders.ALONE, Leaders.ALONE, Leaders.LEASE, Leaders.OVERLAP))
    always = {Leaders.OVERLAP: (Misfortune.KILL,), Leaders.LEASE: (Misfortune.KILL, Misfortune.NO_LEASE)}
    return Profile(
        jobs=rng.choice((1, 1, 2, 3)),
        chaos=rng.choice((60.0, 150.0, 400.0)),
        misfortunes=tuple(
            one for one in Misfortune if rng.random() * 15 < few or one in always.get(leaders, ())
        ),
        pause=rng.choice((3.0, 10.0, 30.0)),
        leaders=leaders,
        nodes=rng.choice((1, 2, 3)),
        work=rng.choice((5.0, 20.0, 60.0, 200.0)),
        latency=rng.choice((0.005, 0.005, 0.1, 1.0)),
        lag=rng.choice((0.01, 0.01, 0.5, 4.0)),
        watch=rng.choice((0.0, 0.0, 10.0, 60.0)),
        old_lists=some(0.5, 10.0),
        crash=some(0.7, 0.9),
        hang=some(0.3, 0.4),
        no_image=some(0.2, 0.5),
        finalizer=0.3 if rng.random() < 0.15 else 0.0,
        too_many=some(0.2, 0.2),
        fails_before=some(0.3, 0.2),
        fails_after=some(0.4, 0.2),
        stall=some(0.3, 0.1),
        repeat=some(0.3, 0.3),
        kill=some(0.4, 0.05),
        scheduler=_scheduler(rng),
    )


def _scheduler(rng: Random) -> str:
    """Drawn beside the others, so that a seed without a gang scheduler lives as it would without this."""
    beside = Random()
    beside.setstate(rng.getstate())
    return beside.choice(("", "", "", VOLCANO, "scheduler-plugins-scheduler"))
