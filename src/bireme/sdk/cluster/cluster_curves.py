"""Reads what the ranks of a cluster's job reported from the logs of its pods."""

from __future__ import annotations

from bireme.runs.logs.log_metrics import EchoedRecords, Picker, SeriesLimit
from bireme.runs.metrics.metric_reader import Reported
from bireme.sdk.cluster.cluster_follower import ClusterWatch


class ClusterFeed:
    """What ranks reported, and the numbers in what they printed; a feed of `Metrics`."""

    def __init__(self, watch: ClusterWatch) -> None:
        self._watch = watch
        self.room = SeriesLimit()
        self._picker = Picker(watch.job, self.room)
        self._echoed = EchoedRecords(self.room)
        self._watch.echoes()  # from now on they are kept
        self._reads_on = False

    def poll(self) -> list[Reported]:
        lines = self._watch.poll() if self._reads_on else list(self._watch.drain())
        self._reads_on = True
        starts = self._watch.starts() if self._picker and lines else {}
        picked = [one for line in lines for one in self._picker.reported(line, starts)]
        lines = sorted(self._watch.echoes(), key=lambda line: line.time)
        told = [one for line in lines for one in self._echoed.reported(line.text)]
        # An attempt before the next one, from whichever pod it was heard first: what is said last counts.
        return [*picked, *sorted(told, key=lambda one: one.life)]
