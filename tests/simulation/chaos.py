"""What happens to a simulated job from outside, and when it stops happening."""

from __future__ import annotations

from msgspec.structs import replace

from tests.simulation import jobs
from tests.simulation.engine import START, Engine
from tests.simulation.place import Place
from tests.simulation.profiles import Misfortune


class Chaos:
    """One misfortune after the other, until calm."""

    def __init__(self, place: Place, engine: Engine) -> None:
        self._place, self._engine = place, engine
        self._clock, self._rng, self._profile = place.clock, place.rng, place.profile
        self.over = self._relents = False
        self._clock.after(self._profile.chaos, self.calm)
        if self._profile.misfortunes:
            self._clock.after(self._pause(), self._strike)

    def relent(self) -> None:
        """The job has ended: its remains need not suffer for long."""
        if not self._relents:
            self._relents = True
            self._clock.after(40.0, self.calm)

    def calm(self) -> None:
        """From now on everything goes well, and whoever was put aside comes back."""
        if self.over:
            return
        place = self._place
        self.over = place.calm = place.kubelet.calm = True
        for node in sorted(place.cut_off):
            place.mend(node)
        for body in place.living():
            place.kubelet.hurry(body)
        if place.job.policy.suspend:
            self._suspend(False)
        # What was late to be seen is seen, and no wake-up is lost any more.
        self._clock.after(self._profile.lag + 1.0, self._engine.wake)

    def _strike(self) -> None:
        if self.over:
            return
        self._clock.after(self._pause(), self._strike)
        misfortune = self._rng.choice(self._profile.misfortunes)
        self._engine.tell(misfortune)
        match misfortune:
            case Misfortune.EVICT | Misfortune.VANISH | Misfortune.DELETE:
                self._strike_one(misfortune)
            case Misfortune.PARTITION:
                self._partition()
            case Misfortune.POWER_CUT:
                for body in self._place.living():
                    self._place.vanish(body)
                self._engine.die()
            case Misfortune.WAKE:
                for _ in range(3):
                    self._engine.wake(self._rng.random())
            case Misfortune.SUSPEND:
                self._suspend(not self._place.job.policy.suspend)
            case Misfortune.SCALE:
                self._place.edit(jobs.scaled(self._rng, self._place.job))
            case Misfortune.RESUME:
                self._resume()
            case Misfortune.JUMP:
                # A job is never hidden early, so a time to live may be stretched by as much as a day.
                back = -300.0 if self._place.job.policy.ttl is not None else -86_400.0
                self._engine.offset = START + self._rng.choice((back, -300.0, -5.0, 5.0, 300.0))

    def _strike_one(self, misfortune: Misfortune) -> None:
        place = self._place
        reachable = [one for one in place.living() if one.node not in place.cut_off and not one.stopping]
        if not reachable:
            return
        body = self._rng.choice(reachable)
        match misfortune:
            case Misfortune.EVICT:
                place.evict(body)
            case Misfortune.VANISH:
                place.vanish(body)
            case _:
                place.delete(body)

    def _partition(self) -> None:
        node = self._rng.randrange(self._profile.nodes)
        if node in self._place.cut_off:
            self._place.mend(node)
        else:
            self._place.cut(node)

    def _suspend(self, suspend: bool) -> None:
        job = self._place.job
        self._place.edit(replace(job, policy=replace(job.policy, suspend=suspend)))

    def _resume(self) -> None:
        """The user lets the job go on, perhaps after its failure, and perhaps for nothing."""
        job = self._place.job
        self._place.edit(replace(job, policy=replace(job.policy, resumes=job.policy.resumes + 1)))

    def _pause(self) -> float:
        return self._rng.expovariate(1 / self._profile.pause)
