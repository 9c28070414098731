"""What is true of a pod, whatever the API server knows of it."""

from __future__ import annotations

from typing import Any

from bireme.backends.kubernetes.objects.job_objects import ATTEMPT
from bireme.backends.kubernetes.observe.pod_diagnosis import NO_TRACE
from tests.simulation.operator.server import Key, Tree, key_of, owner_of

EVICTED = "Evicted"


class Body:
    """One pod that was made: its program, and what befell it."""

    def __init__(self, pod: Tree) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        self.uid: str = metadata["uid"]
        self.key: Key = key_of(pod)
        self.job = owner_of(pod)
        self.attempt = int(metadata["labels"][ATTEMPT])
        self.policy: str = spec["restartPolicy"]
        self.container: str = spec["containers"][0]["name"]
        self.endless = _serves(pod)
        self.node = ""
        self.turned_away = ""
        """Since when its scheduler finds no place for it."""
        self.started = self.ready = False
        self.alive = False
        """Whether its program may be running."""
        self.runs = 0
        self.exit: int | None = None
        """How its program ended last, if it does not run."""
        self.phase = "Pending"
        self.is_settled = True
        """Whether its kubelet has told the phase that follows from its program's end."""
        self.reason = ""
        self.waits_for = ""
        """Why its program does not run yet."""
        self.disrupted = ""
        self.gone = False
        """Whether the API server has forgotten it."""
        self.stopping = False
        self.restarts = 0
        self.fell = False
        """Whether it ended by an error of its own, for good."""
        self.taken = False
        """Whether something other than its own exit and the operators' wish befell it."""
        self.forced = False
        """Whether it was struck off while its program may have been running."""
        self.unlabelled = False
        """Whether its label does not tell its attempt any more."""
        self.recorded = False
        """Whether a job's status told of it."""

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def losses(self) -> int:
        """How often it was truly lost."""
        return self.restarts + (self.fell or self.taken)

    @property
    def succeeded(self) -> bool:
        return self.phase == "Succeeded"

    def status(self) -> Tree:
        """What its kubelet tells of it."""
        conditions = [{"type": "Ready", "status": "True" if self.ready else "False"}]
        if self.node:
            conditions.append({"type": "PodScheduled", "status": "True"})
        elif self.turned_away:
            no_place = {"status": "False", "reason": "Unschedulable", "lastTransitionTime": self.turned_away}
            conditions.append({"type": "PodScheduled", **no_place})
        if self.disrupted:
            conditions.append({"type": "DisruptionTarget", "status": "True", "reason": self.disrupted})
        told: Tree = {"phase": self.phase if self.is_settled else "Running", "conditions": conditions}
        if self.reason:
            told["reason"] = self.reason
        if self.started:
            told["podIP"] = f"10.0.0.{self.uid.removeprefix('uid-')}"
        if self.node:
            told["containerStatuses"] = [
                {
                    "name": self.container,
                    "restartCount": max(0, self.runs - 1),
                    "ready": self.ready,
                    "state": self._state(),
                }
            ]
        return told

    def _state(self) -> dict[str, Any]:  # as the API writes it
        if self.alive:
            return {"running": {}}
        if self.waits_for:
            return {"waiting": {"reason": self.waits_for}}
        if self.exit is None:
            return {"waiting": {"reason": "ContainerCreating"}}
        reason = self.reason if self.reason == NO_TRACE else "Error" if self.exit else "Completed"
        return {"terminated": {"exitCode": self.exit, "reason": reason}}


def _serves(pod: Tree) -> bool:
    """Whether its program runs until it is stopped: parameter servers, and workers of MPI."""
    owner = pod["metadata"]["ownerReferences"][0]
    name: str = pod["metadata"]["name"]
    return "-ps-" in name or (owner["kind"] == "MPIJob" and "-worker-" in name)
