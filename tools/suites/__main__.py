"""`python -m tools.suites check` is the quick loop, `python -m tools.suites test` all that CI runs."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from tools.suites import running
from tools.suites.plans import PLANS
from tools.suites.times import Times


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.suites", description=__doc__)
    parser.add_argument("plan", choices=PLANS)
    plan = PLANS[parser.parse_args().plan]
    root = Path(__file__).resolve().parents[2]
    os.chdir(root)
    times = Times.read(
        Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "bireme" / "suites.json"
    )
    print(plan.introduction(times), flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ended = running.run(plan, root / "build" / "suites", times)
    print(running.summary(plan, ended), flush=True)
    return 0 if all(suite.passed for suite in ended) and len(ended) == len(plan.suites) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
