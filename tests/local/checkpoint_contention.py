"""Processes that contend for one folder of checkpoints, and what must hold: each keeps and resumes its own.

Each of them runs where no other can see whether it lives, as pods on several nodes do: in a namespace of
process numbers of its own. So only the marks in the place tell.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bireme.runtime.checkpoints.manager import listed
from bireme.runtime.checkpoints.storage import checkpoint_reader, locations
from bireme.runtime.checkpoints.storage.checkpoint_format import CheckpointHead
from tests.local.checkpoint_processes import begun, words

WITHOUT_LOCKS = """
import errno, fcntl

def refused(*given):
    raise OSError(errno.ENOLCK, "No locks available")

fcntl.lockf = fcntl.flock = refused
"""
# Saves for ever; what is restored says whose it was.
TRAINING = """
from bireme.runtime.checkpoints.consensus import Patience

run, attempt, rank, world = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
owner = Owner(run, rank, world, attempt)
checkpoints = Checkpoints(sys.argv[1], owner, Keep(last=2), tell, Patience(heartbeat=0.3, silence=3.0))
restored = checkpoints.restore({})
print("restored", *((restored.values["run"], restored.step) if restored else ("nothing", 0)), flush=True)
step = restored.step if restored else 0
while True:
    step += 1
    try:
        checkpoints.save(step, {"run": run, "x": os.urandom(200_000)}, {}, {})
    except Complaint as complaint:
        print("refused", complaint, flush=True)
        break
    checkpoints.wait()
    print("saved", step, flush=True)
"""


class Trainer:
    """A process that trains for ever, and what it has said."""

    def __init__(
        self, where: str, run: str, attempt: int, rank: int = 0, world: int = 1, apart: bool = True
    ) -> None:
        command = words(WITHOUT_LOCKS + TRAINING, where, run, attempt, rank, world)
        if apart and os.geteuid() == 0:
            command = ["unshare", "--pid", "--fork", "--kill-child", *command]
        self.run = run
        self.process = begun(command)
        self.said: list[str] = []

    def next(self, word: str) -> str:
        """The next line that begins so, without it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break
            self.said.append(line.rstrip("\n"))
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(f"ended without {word!r}: {self.said}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        assert self.process.stdout is not None
        left = self.process.stdout.read()
        self.said += left[: left.rfind("\n") + 1].splitlines()  # without a line that was cut by the kill
        self.process.communicate()

    @property
    def saved(self) -> int:
        return max((int(line.split()[1]) for line in self.said if line.startswith("saved")), default=0)


@contextmanager
def ended(*trainers: Trainer) -> Iterator[None]:
    try:
        yield
    finally:
        for one in trainers:
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGCONT)
                one.process.kill()
            one.process.communicate()


@dataclass
class Contest:
    """Two runs on one place. In each round one lives, and the other is refused until it dies."""

    where: str
    chance: random.Random
    attempts: dict[str, int] = field(default_factory=lambda: {"first": 0, "second": 0})
    last: dict[str, int] = field(default_factory=dict)
    owner: Trainer | None = None

    def play(self) -> None:
        owner = self.owner or self._started("first")
        other = successor = None
        try:
            for _ in range(self.chance.randrange(1, 3)):
                owner.next("saved")
            other = self._started("second" if owner.run == "first" else "first")
            refusal = other.next("refused")
            assert f"is being written by run {owner.run} (process " in refusal, refusal
            self._check_restored(other)
            other.process.communicate()
            before = self._kept(other.run)
            owner.next("saved")
            time.sleep(self.chance.uniform(0, 0.05))  # anywhere in a save
            owner.kill()
            self._check_alone(owner)
            self.last[owner.run] = owner.saved
            assert self._kept(other.run) == before
            before = self._kept(owner.run)

            successor = self._started(other.run)
            for _ in range(4):
                successor.next("saved")
            self._check_restored(successor)
            assert self._kept(owner.run) == before
            self.owner = successor
        finally:
            for one in (owner, other, successor):
                if one is not None and one is not self.owner and one.process.poll() is None:
                    one.kill()

    def end(self) -> None:
        if self.owner is not None and self.owner.process.poll() is None:
            self.owner.kill()

    def _started(self, run: str) -> Trainer:
        self.attempts[run] += 1
        return Trainer(self.where, run, self.attempts[run])

    def _check_restored(self, trainer: Trainer) -> None:
        """Its own, up to the last one that it has saved; the other's only where it has none."""
        (said,) = [line for line in trainer.said if line.startswith("restored")]
        _, run, step = said.split()
        last = self.last.get(trainer.run)
        if last is not None:
            assert run == trainer.run, trainer.said
            assert last <= int(step) <= last + 1, (last, trainer.said)

    def _check_alone(self, trainer: Trainer) -> None:
        assert not [line for line in trainer.said if "was not saved" in line], trainer.said

    def _kept(self, run: str) -> list[str]:
        """The good checkpoints of a run that has ended."""
        return sorted(one.name for one in listed(self.where) if one.run == run and one.is_good)


def contest(where: str, rounds: int, chance: random.Random) -> None:
    contest = Contest(where, chance)
    try:
        for number in range(rounds):
            contest.play()
            print(f"round {number}: {contest.attempts}, last saved {contest.last}", flush=True)
    finally:
        contest.end()


def zombies(where: str, rounds: int, chance: random.Random) -> None:
    late = 0
    for number in range(rounds):
        late += zombie_round(where, 2 * number, chance)
        print(f"round {number}: {late} commits that were on their way when the attempt was stopped")
    # A process can be stopped between its last look at the mark and its commit. That does no harm: it comes
    # after nothing that the new attempt has saved.
    assert late <= 1 + rounds // 10


def zombie_round(where: str, attempt: int, chance: random.Random) -> int:
    """An attempt is stopped behind a partition, replaced, and comes back; how many commits it made then."""
    old = [Trainer(where, "run", attempt, rank, 2, apart=False) for rank in range(2)]
    with ended(*old):
        for _ in range(chance.randrange(1, 3)):
            old[0].next("saved")
        time.sleep(chance.uniform(0, 0.05))  # anywhere in a save
        for one in old:
            one.signal(signal.SIGSTOP)
        before = _heads(where)
        new = [Trainer(where, "run", attempt + 1, rank, 2, apart=False) for rank in range(2)]
        with ended(*new):
            restored = {one.next("restored") for one in new}
            # A request that was on its way when the process was stopped may still have arrived.
            assert restored in [{f"run {before[0].step + more}"} for more in (0, 1)], (before[0], restored)
            new[0].next("saved")
            for one in chance.sample(old, 2):
                one.signal(signal.SIGCONT)
            while "another run or a later attempt writes here now" not in old[0].next("TOLD"):
                pass
            for _ in range(3):
                new[0].next("saved")
            for one in (*new, *old):
                one.kill()
    assert not [line for one in new for line in one.said if "TOLD" in line], [one.said for one in new]
    after, last = _heads(where), new[0].saved
    assert after[0].attempt == attempt + 1
    assert last <= after[0].step <= last + 1, (after[0], new[0].said)
    known = {head.nonce for head in before}
    return sum(head.attempt == attempt and head.nonce not in known for head in after)


def _heads(where: str) -> list[CheckpointHead]:
    """All good checkpoints, the newest first."""
    return [
        head
        for _, head in checkpoint_reader.newest_first(locations.store(where).snapshot())
        if head is not None
    ]
