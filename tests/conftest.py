"""What holds for every test, however the tests were started."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Generator

import pytest

Report = pytest.TestReport | pytest.CollectReport

# A shell that starts the tests in the background, or nohup, has them ignore these signals, and every process
# of theirs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _one in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_one, signal.SIG_DFL)

LESS = "BIREME_TEST_LESS"
"""Set by people who want to run what their machine has, and to skip the rest."""
_MAY_INSTALL = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("apt-get") is not None
_CANNOT_BE_INSTALLED = ("this machine has no IPv6",)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Report, Report]:
    return _not_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Report, Report]:
    return _not_skipped((yield))


def _not_skipped(report: Report) -> Report:
    """Makes a skip a failure where what is missing could have been installed: skips hide a broken set-up."""
    if report.outcome != "skipped" or not _MAY_INSTALL or os.environ.get(LESS) or hasattr(report, "wasxfail"):
        return report
    why = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(reason in why for reason in _CANNOT_BE_INSTALLED):
        report.outcome = "failed"
        report.longrepr = f"{why}: `make frameworks` and `make cluster` install it; {LESS}=1 allows skips"
    return report
