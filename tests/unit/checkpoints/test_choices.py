"""Do ranks that cannot talk to each other restore the same checkpoint: the one that rank 0 has chosen."""

from __future__ import annotations

from pathlib import Path

from tests.unit.checkpoints.test_ranks import ranks, save


def test_ranks_without_a_process_group_restore_what_rank_0_chose(tmp_path: Path) -> None:
    with ranks(tmp_path, 2) as gang:
        save(gang, 10)
        save(gang, 20)
    newest, aside = tmp_path / "step-000000020", tmp_path / "aside"

    with ranks(tmp_path, 2, attempt=1) as gang:
        newest.rename(aside)  # rank 0 does not see it, or not whole
        first = gang[0].restore({})
        aside.rename(newest)
        second = gang[1].restore({})

    assert first is not None
    assert second is not None
    assert (first.step, second.step) == (10, 10)
