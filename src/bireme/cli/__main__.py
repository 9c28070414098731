"""The entry point of `bireme` and of `python -m bireme.cli`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence

from bireme.runner import standby


def main() -> None:
    """Runs the command line; where it starts a job here, its standby imports its own modules meanwhile."""
    if starts_a_job_here(sys.argv[1:], os.environ) and len(os.sched_getaffinity(0)) > 1:
        standby.prepare()
    gc.disable()  # What an import makes is kept, so that a collection meanwhile finds nothing.
    from bireme.cli import main as command_line  # after the fork: the standby does without it

    gc.enable()
    command_line.main()


def starts_a_job_here(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether these words can only be a job on this machine; in doubt not, and `bireme run` asks again."""
    elsewhere = any(word in ("-h", "--help") or word.startswith("--on") for word in words)
    return words[:1] == ["run"] and not elsewhere and environ.get("BIREME_ON") in (None, "", "local")


if __name__ == "__main__":
    main()
