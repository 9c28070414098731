"""Notices whether a script ever asked which rank it is, and answers torch and Lightning in time.

Reads made while a third-party module is being imported do not count: `import torch` alone copies the whole
environment (tqdm looks for its own settings) and starts a program (ldconfig). A copy made later does count,
and so does a program that is looked up on the PATH later, since it inherits the variables. The report finds
other programs in the text of the script's own files. Nothing here can fail a script.

A script that was written for torchrun reads its variables, also where there is one rank. Lightning takes the
same variables for a promise that something else starts all of its processes, and refuses `devices=2`. So in
the only rank of a job they stay until Lightning itself asks what has launched the script, and are gone from
then on: the processes that it starts would else take this rank's number for theirs.
"""

from __future__ import annotations

import os

from . import environment_reads, rendezvous_wait

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from types import FrameType

_RANK = frozenset(("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "TF_CONFIG"))
_OTHERS = ("PATH", "MASTER_PORT", "TORCHELASTIC_RUN_ID")

_LAUNCHED = "TORCHELASTIC_RUN_ID"
"""What tells, by being there, that torchrun has launched a process."""

_LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
_OF_TORCHRUN = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"),
)
_ELASTIC = "TORCHELASTIC_"
_NEAR = 8
"""How many callers up Lightning is found, behind torch and `os`."""


class RankReads:
    """Whether a rank's variables were read so far in this process; it is watched from now on."""

    def __init__(self) -> None:
        self.seen = False
        self._watch = environment_reads.Watch(self._on_read, _RANK.union(_OTHERS))
        self._watch.install()

    def _on_read(self, name: str, frame: FrameType) -> None:
        try:
            # Behind the method `get` of mappings: `os.get_exec_path`, which `subprocess` asks for a program.
            is_program = name == "PATH" and frame.f_back and frame.f_back.f_code is os.get_exec_path.__code__
            if name in _RANK or is_program:
                self.seen = self.seen or environment_reads.third_party_import(frame) is None
            elif name == "MASTER_PORT":
                rendezvous_wait.before_answer(frame, self._watch.unseen("RANK", "MASTER_ADDR", "MASTER_PORT"))
            elif name == _LAUNCHED:
                callers = environment_reads.callers(frame, _NEAR)
                packages = {str(caller.f_globals.get("__name__")).partition(".")[0] for caller in callers}
                if packages.isdisjoint(_LIGHTNING) or self._watch.unseen("WORLD_SIZE") != {"WORLD_SIZE": "1"}:
                    return
                for gone in [key for key in os.environ if key in _OF_TORCHRUN or key.startswith(_ELASTIC)]:
                    del os.environ[gone]
        except Exception:
            # Better no advice than a wrong one; the script is answered as it would be without us.
            self.seen = True
