"""By which way is a program started: as a new process, or as a fork of a warm one."""

from __future__ import annotations

from typing import Protocol

from bireme.backends.local.processes import Output, Process, Program, spawn


class Launcher(Protocol):
    """Starts programs."""

    async def launch(self, program: Program, output: Output, label: str) -> Process:
        """Start a program, known by a label in reports; raises NotStarted."""


class ColdLauncher:
    """Starts every program as a new process."""

    async def launch(self, program: Program, output: Output, label: str) -> Process:
        return spawn(program, output)
