"""Every error says what, where and what to do, and has an explanation that can be looked up."""

from __future__ import annotations

import copy
import pickle

import pytest
from msgspec import Struct

from bireme import errors
from bireme.errors import BadInput, BadManifest, BiremeError, JobFailed, NoRoom


class Grumble(Struct, frozen=True):
    """The smallest thing that an error takes for a diagnostic."""

    text: str
    file: str = "job.yaml"
    line: int = 1
    column: int = 1
    field: str = "spec"
    hint: str = ""

    def __str__(self) -> str:
        return self.text


def test_text_is_where_what_hint() -> None:
    error = NoRoom("8 GPUs are wanted, the machine has 2", where="job.yaml:7", hint="run it with --fit")

    assert str(error) == "job.yaml:7: 8 GPUs are wanted, the machine has 2\nrun it with --fit"


def test_text_without_where_and_hint_is_what() -> None:
    assert str(JobFailed("rank 1 exited with 3")) == "rank 1 exited with 3"


def test_long_text_keeps_its_first_and_last_lines_and_the_hint() -> None:
    what = "\n".join(f"line {number}" for number in range(100))

    lines = str(JobFailed(what, hint="bireme logs mnist")).splitlines()

    assert len(lines) == 12
    assert lines[0] == "line 0"
    assert lines[4] == "line 4"
    assert lines[5] == "... (90 lines left out)"
    assert lines[-2:] == ["line 99", "bireme logs mnist"]


@pytest.mark.parametrize("hint_lines", range(0, 30, 3))
@pytest.mark.parametrize("lines", [1, 2, 11, 12, 13, 50])
def test_text_never_has_more_than_twelve_lines(lines: int, hint_lines: int) -> None:
    error = BadInput("\n".join("x" * lines), where="here", hint="\n".join("h" * hint_lines))

    assert 1 <= len(str(error).splitlines()) <= 12


def test_bad_manifest_shows_ten_diagnostics_and_carries_all() -> None:
    diagnostics = [Grumble(f"fault {number}") for number in range(25)]

    error = BadManifest.of(diagnostics)

    assert str(error).splitlines() == [*(f"fault {number}" for number in range(10)), "and 15 more"]
    assert error.diagnostics == tuple(diagnostics)


def test_bad_manifest_of_ten_diagnostics_speaks_of_no_more() -> None:
    assert "more" not in str(BadManifest.of([Grumble(f"fault {number}") for number in range(10)]))


def test_bad_manifest_is_bad_input() -> None:
    assert issubclass(BadManifest, BadInput)
    assert BadManifest.exit_status == BadInput.exit_status == 2


def test_exit_statuses_are_the_documented_ones() -> None:
    assert {code: errors.by_code(code).exit_status for code in errors.codes()} == {
        "bad-input": 2,
        "bad-manifest": 2,
        "disk-full": 3,
        "interrupted": 130,
        "job-failed": 1,
        "no-access": 4,
        "no-room": 3,
        "our-bug": 70,
        "unreachable": 5,
    }


@pytest.mark.parametrize("code", errors.codes())
def test_each_code_has_one_class_of_its_own_and_an_explanation(code: str) -> None:
    error_class = errors.by_code(code)

    assert error_class.code == code
    assert "code" in vars(error_class)
    assert "explanation" in vars(error_class)
    assert len(error_class.explanation) > 100
    assert error_class.explanation.endswith(".")


@pytest.mark.parametrize("code", errors.codes())
def test_the_tree_in_the_module_shows_each_class_with_its_status_and_code(code: str) -> None:
    error_class = errors.by_code(code)

    drawn = [line.split() for line in (errors.__doc__ or "").splitlines()]

    assert any({error_class.__name__, str(error_class.exit_status), code} <= set(words) for words in drawn)


def test_unknown_code_names_the_nearest_one() -> None:
    with pytest.raises(BadInput) as caught:
        errors.by_code("no-rom")

    assert str(caught.value) == "there is no error code 'no-rom'\ndid you mean no-room?"


def test_unknown_code_without_a_neighbour_lists_all() -> None:
    with pytest.raises(BadInput) as caught:
        errors.by_code("xyzzy")

    assert all(code in caught.value.hint for code in errors.codes())


@pytest.mark.parametrize(
    "error", [NoRoom("what", where="where", hint="hint"), BadManifest.of([Grumble("a"), Grumble("b")])]
)
def test_errors_survive_pickle_and_copy(error: BiremeError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
