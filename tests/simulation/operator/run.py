"""How does a seed become the life of a cluster, with every request checked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import traceback
from collections.abc import Iterator
from random import Random

from msgspec import Struct

from bireme.model.status import Status
from tests.simulation.operator import profiles
from tests.simulation.operator.answering import Front
from tests.simulation.operator.chaos import Chaos, Cluster
from tests.simulation.operator.history import Story
from tests.simulation.operator.kubelet import Kubelet
from tests.simulation.operator.loop import VirtualLoop
from tests.simulation.operator.network import Network
from tests.simulation.operator.nodes import Nodes
from tests.simulation.operator.operators import Operators
from tests.simulation.operator.profiles import Leaders, Profile
from tests.simulation.operator.rules import Rules
from tests.simulation.operator.server import Server
from tests.simulation.operator.traffic import Traffic

PATIENCE = 3000.0
"""Seconds after the chaos in which every job must have ended."""
CLEAN_UP = 120.0
"""Seconds after the last end in which all is cleaned up."""
REST = 700.0
"""Seconds of rest, in which nobody may be busy."""


class Trace(Struct, frozen=True):
    """What came of one seed."""

    seed: int
    profile: Profile
    steps: int
    told: int
    digest: str
    fates: tuple[Status, ...]
    lines: tuple[str, ...]
    looks: int
    """Requests that were made by `see` of a backend."""
    violation: str = ""
    details: str = ""

    def report(self) -> Iterator[str]:
        """The story for people, with the command that tells it again."""
        yield from self.lines
        yield self.details
        yield f"{self.profile}"
        yield f"replay: python -m tests.simulation.operator --seed {self.seed}"
        yield f"seed {self.seed}: {self.violation or 'well'} ({self.steps} steps)"


def run(seed: int) -> Trace:
    """Live through one seed."""
    rng = Random(seed)
    profile = profiles.draw(rng)
    before = random.getstate()
    random.seed(seed)  # What the client and the caches spread their waits with.
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_live(seed, rng, profile))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        random.setstate(before)


async def _live(seed: int, rng: Random, profile: Profile) -> Trace:
    loop = asyncio.get_running_loop()
    story = Story(loop)
    loop.set_exception_handler(lambda _, context: fell(story, context))
    cluster = build(rng, profile, story)
    traffic = Traffic(cluster.server, cluster.network, cluster.operators, story)
    chaos = Chaos(cluster)
    with logs(story):
        chaos.begin()
        traffic.begin()
        await _until_the_end(chaos, cluster, story)
        if not story.violation:
            cluster.rules.check_end()
        for one in cluster.operators.living():
            one.kill()
        for one in cluster.operators.all:
            await one.wait()
    return Trace(
        seed,
        profile,
        int(cluster.operators.steps),
        story.count,
        story.digest,
        tuple(cluster.rules.fates.values()),
        tuple(story.lines),
        cluster.network.looks,
        story.violation,
        story.details,
    )


def build(rng: Random, profile: Profile, story: Story) -> Cluster:
    """Everything that a simulation consists of, at rest."""
    server = Server(lambda: story.now)
    nodes = Nodes(server, rng, story, profile.nodes)
    kubelet = Kubelet(server, nodes, rng, profile, story)
    cluster = Cluster(rng, profile, story, server, nodes, kubelet)
    cluster.rules = Rules(server, kubelet, nodes, story, lambda: cluster.operators)
    kubelet.can_meet = cluster.rules.has_services
    cluster.rules.exact = profile.is_exact_for_losses()
    front = Front(server, cluster.rules, cluster.may_create)
    cluster.network = Network(server, front, rng, profile, story)
    cluster.operators = Operators(cluster.network, story, lease=profile.leaders is Leaders.LEASE)
    return cluster


async def _until_the_end(chaos: Chaos, cluster: Cluster, story: Story) -> None:
    while not chaos.over and not story.violation:
        await _pause(story, 5.0)
    ends = story.now + PATIENCE
    while not cluster.rules.all_over() and story.now < ends and not story.violation:
        await _pause(story, 5.0)
    await _pause(story, CLEAN_UP + REST)


async def _pause(story: Story, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await story.broken.wait()


def fell(story: Story, context: dict[str, object]) -> None:
    """Take up what nobody caught."""
    error = context.get("exception")
    details = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
    story.breaks(f"something fell: {error or context.get('message')}", details)


class _Logs(logging.Handler):
    """What operators log is part of the story; a step that failed is its end."""

    def __init__(self, story: Story) -> None:
        super().__init__(logging.WARNING)
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        self._story.tell(f"    log: {record.getMessage()} {getattr(record, 'error', '')}")
        if record.exc_info and record.exc_info[1] is not None:
            details = "".join(traceback.format_exception(record.exc_info[1]))
            self._story.breaks(f"a step failed: {record.exc_info[1]!r}", details)


@contextlib.contextmanager
def logs(story: Story) -> Iterator[None]:
    """Let the story hear what operators log."""
    logger = logging.getLogger("bireme")
    handler, spreads = _Logs(story), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = spreads
        logger.removeHandler(handler)
