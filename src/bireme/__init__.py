"""Runs distributed training jobs on this machine or on a cluster.

Training scripts import this package too, in any interpreter from Python 3.9 on: so it imports nothing by
itself, and what needs an installed Bireme is looked up only when it is asked for.
"""

import sys

__version__ = "0.1.0"

# Not the one of `typing`, whose import takes longer than all of this. Type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from bireme.runtime.checkpoints.loading import load as load
    from bireme.runtime.script.complaints import Complaint as Complaint
    from bireme.runtime.script.run import Run as Run
    from bireme.runtime.script.startup import init as init
    from bireme.sdk.client import Client as Client
else:

    def __getattr__(name: str) -> object:
        if name == "Client":
            return _client()
        if name == "load":
            from .runtime.checkpoints import loading

            return loading.load
        if name in ("init", "Run", "Complaint"):
            return _of_script(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({"Client", "Complaint", "Run", "init", "load", *globals()} - {"TYPE_CHECKING", "sys"})


def _of_script(name: str) -> object:
    from .runtime.script import complaints, run, startup

    return {"init": startup.init, "Run": run.Run, "Complaint": complaints.Complaint}[name]


def _client() -> object:
    reason = "it needs Python 3.11 or later"
    if sys.version_info >= (3, 11):  # noqa: UP036 - this file runs on older ones too
        try:
            from bireme.sdk.client import Client

            return Client
        except ModuleNotFoundError as error:
            reason = f"there is no module {error.name}"
    # An AttributeError would lose this sentence: `from bireme import Client` makes one of its own of it.
    raise ImportError(
        "bireme.Client starts and watches jobs, and Bireme is not installed in this interpreter "
        f"({reason}): pip install bireme"
    )
