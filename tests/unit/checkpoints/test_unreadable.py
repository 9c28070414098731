"""Is only what is provably torn removed, and is what cannot be read just now left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bireme.runtime.checkpoints.manager import Keep, listed
from bireme.runtime.checkpoints.storage import checkpoint_format
from bireme.runtime.script.complaints import Complaint
from tests.unit.checkpoints.building import Heard, keeping

FILES = ["checkpoint.json", "rank-0.json", "rank-0.bin"]
BEST = Keep(last=1, best=1, metric="loss")


def unreadable(path: Path) -> None:
    """The kernel answers ELOOP, as it answers EIO or ESTALE: there is something, and it cannot be read."""
    path.rename(path.with_name("aside"))
    path.symlink_to(path.name)


def readable(path: Path) -> None:
    path.unlink()
    path.with_name("aside").rename(path)


def names(where: Path) -> list[str]:
    return sorted(path.name for path in where.glob("step-*"))


@pytest.mark.parametrize("file", FILES)
def test_a_read_error_does_not_delete_the_best_checkpoint(tmp_path: Path, file: str) -> None:
    with keeping(tmp_path, keep=BEST) as checkpoints:
        checkpoints.save(1, {"x": 1}, {}, {"loss": 0.1})
        checkpoints.save(2, {"x": 2}, {}, {"loss": 0.9})
        checkpoints.wait()
        unreadable(tmp_path / "step-000000001" / file)
        checkpoints.save(3, {"x": 3}, {}, {"loss": 0.8})
        checkpoints.wait()
        readable(tmp_path / "step-000000001" / file)
        checkpoints.save(4, {"x": 4}, {}, {"loss": 0.7})

    assert names(tmp_path) == ["step-000000001", "step-000000004"]


def test_a_format_that_is_not_known_here_is_never_removed(tmp_path: Path) -> None:
    with keeping(tmp_path, keep=Keep(last=1)) as checkpoints:
        checkpoints.save(1, {"x": 1}, {}, {})
        checkpoints.wait()
        head = tmp_path / "step-000000001" / checkpoint_format.HEAD
        content = json.loads(head.read_bytes())["content"]
        head.write_bytes(checkpoint_format.seal({**content, "version": 2}))
        checkpoints.save(2, {"x": 2}, {}, {})
        checkpoints.save(3, {"x": 3}, {}, {})

    assert names(tmp_path) == ["step-000000001", "step-000000003"]
    assert listed(str(tmp_path))[0].why_not == "checkpoint.json is of format 2, and this Bireme reads 1"


@pytest.mark.parametrize("field", ["serial", "ranks", "metrics", "time"])
def test_a_head_whose_checksum_is_right_is_not_torn_though_we_do_not_understand_it(
    tmp_path: Path, field: str
) -> None:
    with keeping(tmp_path, keep=Keep(last=1)) as checkpoints:
        checkpoints.save(1, {"x": 1}, {}, {})
        checkpoints.wait()
        head = tmp_path / "step-000000001" / checkpoint_format.HEAD
        content = json.loads(head.read_bytes())["content"]
        head.write_bytes(checkpoint_format.seal({**content, field: "of a later Bireme"}))
        checkpoints.save(2, {"x": 2}, {}, {})

    assert names(tmp_path) == ["step-000000001", "step-000000002"]


@pytest.mark.parametrize("version", [0, 1, 1 << 32])
def test_a_checkpoint_is_found_by_each_name_that_it_may_have(version: int) -> None:
    assert checkpoint_format.step_of(checkpoint_format.name_of(7, version)) == 7


def test_what_is_provably_torn_and_ours_is_removed(tmp_path: Path) -> None:
    with keeping(tmp_path, keep=Keep(last=1)) as checkpoints:
        checkpoints.save(1, {"x": 1}, {}, {})
        checkpoints.wait()
        (tmp_path / "step-000000001" / "rank-0.bin").unlink()
        checkpoints.save(2, {"x": 2}, {}, {})

    assert names(tmp_path) == ["step-000000002"]


def test_restore_skips_what_cannot_be_read_and_says_so(tmp_path: Path) -> None:
    heard = Heard()
    with keeping(tmp_path, heard) as checkpoints:
        checkpoints.save(1, {"x": 1}, {}, {})
        checkpoints.save(2, {"x": 2}, {}, {})
        checkpoints.wait()
        unreadable(tmp_path / "step-000000002" / "rank-0.bin")
        restored = checkpoints.restore({})

    assert restored is not None
    assert restored.step == 1
    assert heard == [
        "checkpoint step-000000002 cannot be read and is skipped: "
        "rank-0.bin cannot be read: Too many levels of symbolic links"
    ]


def test_restore_does_not_begin_anew_because_the_only_checkpoint_cannot_be_read(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": 1}, {}, {})
        checkpoints.wait()
        unreadable(tmp_path / "step-000000001" / "rank-0.bin")
        with pytest.raises(Complaint, match=r"cannot be read: step-000000001: rank-0\.bin .*; restart when"):
            checkpoints.restore({})
