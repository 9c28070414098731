"""Is nothing trusted that others have left in a place of checkpoints: heads, marks and choices."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bireme.runtime.checkpoints import consensus
from bireme.runtime.checkpoints.manager import Checkpoints, Keep, Owner, listed
from bireme.runtime.checkpoints.storage import checkpoint_format, owner_marks
from bireme.runtime.checkpoints.storage.checkpoint_format import CheckpointHead, Signature
from bireme.runtime.checkpoints.storage.owner_marks import Malformed, OwnerMark
from tests.unit.checkpoints.building import Heard

EXAMPLES, SOAK_EXAMPLES = 300, 100_000
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

HEAD: dict[str, Any] = asdict(
    CheckpointHead(1, 1, 0.0, "run", 0, 1, "aa", {"loss": 1.0}, {0: Signature(1, 2, 3)})
)
MARK: dict[str, Any] = asdict(OwnerMark("run", session="aa", host="node", pid=1))
CHOICE: dict[str, Any] = {"name": "step-000000001", "nonce": "aa", "why_not": ""}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 80), 1 << 80)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["../../x", "\x1b[2J", "step-000000001", "NaN", "", "0" * 50]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def mutated(sound: dict[str, Any]) -> st.SearchStrategy[Any]:
    """The same with some fields changed, without some, or something else altogether."""
    changes = st.dictionaries(st.sampled_from([*sound, "more"]), JSON, max_size=4)
    gone = st.sets(st.sampled_from(list(sound)), max_size=2)
    changed = st.builds(
        lambda new, without: {k: v for k, v in {**sound, **new}.items() if k not in without}, changes, gone
    )
    return changed | JSON


def cut(text: bytes, at: int, flip: int) -> bytes:
    """Text that somebody has cut, or changed in one place."""
    place = at % (len(text) + 1)
    return text[:place] if flip == 0 else text[:place] + bytes([flip]) + text[place + 1 :]


def texts(sound: dict[str, Any]) -> st.SearchStrategy[bytes]:
    broken = st.builds(cut, st.just(json.dumps(sound).encode()), st.integers(0, 2000), st.integers(0, 255))
    return mutated(sound).map(lambda content: json.dumps(content).encode()) | st.binary(max_size=300) | broken


def check_mark(text: bytes) -> None:
    try:
        mark = owner_marks.read(text)
    except Malformed:
        return
    again = owner_marks.read(owner_marks.write(mark))
    assert again == mark
    assert mark.shown_process.isprintable()
    assert mark.shown_run.isprintable()
    owner_marks.judge(mark, Owner("run", attempt=1), is_meant=True, is_dead=owner_marks.is_dead(mark))


def check_choice(text: bytes) -> None:
    choice = consensus.read_choice(text)

    if choice is not None and choice.name:
        assert checkpoint_format.step_of(choice.name) is not None
        assert "/" not in choice.name
    assert choice is None or choice.why_not.isprintable()


def check_head(content: Any) -> None:
    """A run goes by what is there, sound or not, and removes nothing that it cannot tell to be its own."""
    with tempfile.TemporaryDirectory() as folder:
        foreign = Path(folder) / "step-000000001"
        foreign.mkdir()
        (foreign / checkpoint_format.HEAD).write_bytes(checkpoint_format.seal(content))
        (foreign / "rank-0.bin").write_bytes(b"x")
        (foreign / "rank-0.json").write_bytes(b"xx")
        heard = Heard()
        listed(folder)
        checkpoints = Checkpoints(folder, Owner("another"), Keep(last=1), heard)
        for step in (2, 3):
            checkpoints.save(step, {"x": step}, {}, {})
        restored = checkpoints.restore({})
        checkpoints.close()

        assert [one for one in heard if "was not saved" in one.lower()] == []
        assert restored is not None
        assert restored.step == 3
        assert sorted(path.name for path in foreign.iterdir()) == [
            checkpoint_format.HEAD,
            "rank-0.bin",
            "rank-0.json",
        ]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=QUIET)
@given(texts(MARK))
def test_a_mark_is_sound_or_refused(text: bytes) -> None:
    check_mark(text)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=QUIET)
@given(texts(CHOICE))
@example(json.dumps({**CHOICE, "why_not": "\x1b[2J"}).encode())
def test_a_choice_is_sound_or_not_heard(text: bytes) -> None:
    check_choice(text)


@settings(max_examples=EXAMPLES // 10, deadline=None, suppress_health_check=QUIET)
@given(mutated(HEAD))
def test_a_head_with_a_good_checksum_is_still_not_trusted(content: Any) -> None:
    check_head(content)


@pytest.mark.soak
@settings(max_examples=SOAK_EXAMPLES, deadline=None, suppress_health_check=QUIET)
@given(texts(MARK), texts(CHOICE))
def test_many_marks_and_choices(mark: bytes, choice: bytes) -> None:
    check_mark(mark)
    check_choice(choice)


@pytest.mark.soak
@settings(max_examples=SOAK_EXAMPLES // 10, deadline=None, suppress_health_check=QUIET)
@given(mutated(HEAD))
def test_many_heads(content: Any) -> None:
    check_head(content)
