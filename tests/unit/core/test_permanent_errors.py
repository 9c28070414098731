"""Which errors another attempt would not change, and which say nothing about the next one."""

from __future__ import annotations

import pytest

from bireme.core.restarts import permanent_errors
from bireme.model.replicas import Told

ARGPARSE = "/usr/lib/python3.11/argparse.py:2617"
CLICK = "/env/site-packages/click/core.py:1442"
SCRIPT = "/work/train.py:3"


@pytest.mark.parametrize(
    "told",
    [
        Told("SyntaxError", "invalid syntax (train.py, line 3)"),
        Told("IndentationError", "unexpected indent"),
        Told("ModuleNotFoundError", "No module named 'torhc'", SCRIPT),
        Told("ImportError", "cannot import name 'nope' from 'torch'", SCRIPT),
        Told("SystemExit", "2", ARGPARSE),
        Told("SystemExit", "unrecognized arguments: --bogus", ARGPARSE, status=2),
        Told("SystemExit", "2", "/env/site-packages/click/core.py:1442", status=2),
        Told("SystemExit", "No such option: --bogus", "/env/site-packages/click/core.py:1442", status=2),
        Told("fire.core.FireExit", "2", "/env/site-packages/fire/core.py:245", status=2),
        Told("SystemExit", "/usr/bin/python: No module named nosuch", "<frozen runpy>:194"),
        Told("SystemExit", "/usr/bin/python: No module named nosuch", "/usr/lib/python3.9/runpy.py:200"),
        Told("FileNotFoundError", "[Errno 2] No such file or directory: '/work/train.py'"),
        Told("PermissionError", "[Errno 13] Permission denied: '/work/train.py'"),
        Told("bireme.runtime.script.complaints.Complaint", "model is not in checkpoint step-0", SCRIPT),
        Told("bdb.BdbQuit", "", SCRIPT),
        Told("EOFError", "EOF when reading a line", SCRIPT),
    ],
    ids=lambda told: f"{told.type}-{told.message[:12]}",
)
def test_it_is_the_same_in_every_attempt(told: Told) -> None:
    assert permanent_errors.is_unchanging(told)


@pytest.mark.parametrize(
    "told",
    [
        Told(),
        Told("ValueError", "no", SCRIPT),
        Told("SystemExit", "2", SCRIPT),
        Told("SystemExit", "1", ARGPARSE),
        Told("SystemExit", "tracking server did not answer", CLICK, status=1),
        Told("SystemExit", "unrecognized arguments: --bogus", SCRIPT, status=2),
        Told("SystemExit", "2", "/env/site-packages/absl/app.py:308", status=2),
        Told("OSError", "[Errno 116] Stale file handle: '/work/train.py'"),
        Told("MemoryError"),
        Told("ImportError", "libcudart.so.12: cannot open shared object file: No such file", SCRIPT),
        Told("ImportError", "libgomp.so.1: cannot allocate memory in static TLS block", SCRIPT),
        Told("ImportError", "libtorch.so: failed to map segment from shared object", SCRIPT),
        Told("FileNotFoundError", "[Errno 2] No such file or directory: '/data/x'", SCRIPT),
        Told("bireme.runtime.script.complaints.Passing", "the checkpoints cannot be read", SCRIPT),
        Told("SyntaxErrorOfMine", "", SCRIPT),
    ],
    ids=lambda told: f"{told.type}-{told.message[:12]}",
)
def test_it_may_be_otherwise_next_time(told: Told) -> None:
    assert not permanent_errors.is_unchanging(told)


@pytest.mark.parametrize(
    "told",
    [
        Told("ConnectionRefusedError", "[Errno 111] Connection refused", SCRIPT),
        Told("requests.exceptions.ReadTimeout", "", SCRIPT),
        Told("torch.distributed.DistNetworkError", "The client socket has failed", SCRIPT),
        Told("RuntimeError", "[gloo/transport/tcp/pair.cc:534] Connection closed by peer", SCRIPT),
        Told("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB", SCRIPT),
        Told("OSError", "[Errno 5] Input/output error", SCRIPT),
        Told("SystemExit", "3", SCRIPT),
        Told("SystemExit", "tracking server did not answer", CLICK, status=1),
        Told("jaxlib.xla_extension.XlaRuntimeError", "ABORTED: task 1 is gone", SCRIPT),
        Told("jaxlib.xla_extension.XlaRuntimeError", "UNAVAILABLE: heartbeat", SCRIPT),
        Told("jaxlib.xla_extension.XlaRuntimeError", "DEADLINE_EXCEEDED: barrier", SCRIPT),
        Told("horovod.common.exceptions.HorovodInternalError", "allreduce failed", SCRIPT),
        Told("tensorflow.python.framework.errors_impl.AbortedError", "Collective ops is aborted", SCRIPT),
        Told("tensorflow.python.framework.errors_impl.CancelledError", "", SCRIPT),
        Told("RuntimeError", "Collective ops is aborted by: 1", SCRIPT),
        Told("RuntimeError", "ncclRemoteError: a call failed", SCRIPT),
        Told("requests.exceptions.HTTPError", "404 Client Error", SCRIPT),
        Told("huggingface_hub.errors.HfHubHTTPError", "", SCRIPT),
        Told("httpx.HTTPStatusError", "", SCRIPT),
        Told("RuntimeError", "the hub answered HTTP 429", SCRIPT),
        Told("ValueError", "status code 503 from the tracking server", SCRIPT),
        Told("ValueError", "503 Server Error: Service Unavailable", SCRIPT),
        Told("ImportError", "libcudart.so.12: cannot open shared object file: No such file", SCRIPT),
        Told(),
    ],
    ids=lambda told: f"{told.type}-{told.message[:12]}",
)
def test_what_comes_from_outside_has_no_signature(told: Told) -> None:
    assert permanent_errors.signature(told) == ""


def test_the_same_error_at_another_place_is_another_error() -> None:
    here = Told("ValueError", "no", SCRIPT)

    assert permanent_errors.signature(here) == permanent_errors.signature(
        Told("ValueError", "no", SCRIPT, time=9.0)
    )
    others = (Told("ValueError", "no", "x.py:4"), Told("ValueError", "yes", SCRIPT), Told("KeyError", "no"))
    assert permanent_errors.signature(here) not in {permanent_errors.signature(one) for one in others}


@pytest.mark.parametrize(
    "message", ["expected 512 features, got 500", "shape 429 is not 503", "the head was aborted by hand"]
)
def test_a_number_that_looks_like_a_status_does_not_make_an_error_pass(message: str) -> None:
    assert permanent_errors.signature(Told("ValueError", message, SCRIPT))
