"""What a rank's last words are taken for: the type that was told, not what their lines look like."""

from __future__ import annotations

import pytest

from bireme.backends.kubernetes.observe import termination_log
from bireme.core.restarts import permanent_errors

NCCL = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
torch.distributed.DistBackendError: NCCL error: Connection refused
ncclInternalError: Internal check failed.
"""


def words(text: str, type: str) -> str:
    return f"bireme-report asked=1 time=5.0 step=7 saved=4 type={type} place=train.py:3\n{text}"


def test_a_line_of_the_message_that_looks_like_an_error_is_none() -> None:
    told = termination_log.told(words(NCCL, "torch.distributed.DistBackendError"))

    assert told.line == "torch.distributed.DistBackendError: NCCL error: Connection refused"
    assert (told.step, told.saved, told.place) == (7, 4, "train.py:3")
    assert permanent_errors.signature(told) == ""


@pytest.mark.parametrize("last", ["ImportError", "SyntaxError: as the linter said"])
def test_a_message_that_ends_with_the_name_of_another_error_is_not_that_error(last: str) -> None:
    told = termination_log.told(words(f"Traceback\nValueError: bad row\n{last}\n", "ValueError"))

    assert (told.type, told.line) == ("ValueError", "ValueError: bad row")
    assert not permanent_errors.is_unchanging(told)


def test_a_hint_below_an_error_is_not_its_type() -> None:
    told = termination_log.told(words("Traceback\nmylib.Busy: no slot\nHint: retry later\n", "mylib.Busy"))

    assert told.line == "mylib.Busy: no slot"


def test_the_last_error_of_a_chain_is_the_one() -> None:
    text = "ValueError: first\n\nDuring handling of the above exception, another exception occurred:\n\n"
    told = termination_log.told(words(f"{text}ValueError: second\n", "ValueError"))

    assert told.message == "second"


def test_an_error_without_a_message_has_none() -> None:
    assert termination_log.told(words("Traceback\nKeyboardInterrupt\n", "KeyboardInterrupt")).message == ""


@pytest.mark.parametrize("type", ["a b", "é", "x" * 300, "../x", ""])
def test_what_is_no_name_of_a_type_is_not_believed(type: str) -> None:
    assert termination_log.told(words("ValueError: x\n", type)).type == ""


def test_the_status_of_an_exit_is_told() -> None:
    head = "bireme-report asked=1 time=5.0 status=1 type=SystemExit place=/x/click/core.py:9\n"
    told = termination_log.told(f"{head}SystemExit: tracking server did not answer\n")

    assert (told.status, told.line) == (1, "tracking server did not answer")
    assert not permanent_errors.is_unchanging(told)
