"""TensorBoard's own reader finds what was reported."""

from __future__ import annotations

import struct
import time
from pathlib import Path

from bireme.runs.metrics import tensorboard
from bireme.runs.metrics.metric_reader import RecordFollower
from bireme.runs.metrics.tensorboard import TensorboardWriter
from bireme.runtime.records.record_format import FileOpened, Scalars
from bireme.runtime.records.recorder import Recorder
from tests.tensorboards import events


def _board(tmp_path: Path) -> TensorboardWriter:
    return TensorboardWriter(tmp_path / "tensorboard", time, RecordFollower(tmp_path / "metrics"))


def _recorder(tmp_path: Path, rank: int = 0, attempt: int = 0) -> Recorder:
    return Recorder(str(tmp_path / "metrics"), rank, attempt, print, lambda: 1000.0 + attempt)


def test_a_checksum_is_the_one_of_the_standard() -> None:
    """The examples of RFC 3720, B.4, masked."""

    def unmasked(value: int) -> int:
        rotated = (value - 0xA282EAD8) & 0xFFFFFFFF
        return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF

    assert unmasked(tensorboard.checksum(bytes(32))) == 0x8A9136AA
    assert unmasked(tensorboard.checksum(b"\xff" * 32)) == 0x62A8AB43
    assert unmasked(tensorboard.checksum(bytes(range(32)))) == 0x46DD794E


def test_an_event_is_framed_with_its_length() -> None:
    event = tensorboard.encode_event(Scalars(3, 1.0, {"loss": 0.5}))

    assert struct.unpack_from("<Q", event) == (len(event) - 16,)
    assert tensorboard.encode_event(FileOpened(1.0, 1)) == b""
    assert tensorboard.encode_event(Scalars(3, 1.0, {})) == b""


def test_scalars_are_read_by_tensorboard(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path)
    for step in range(300):
        recorder.scalars(step, {"loss": step / 4, "train/accuracy": 0.5})
    recorder.scalars(300, {"loss": 1e300, "größe": -1.0})
    board = _board(tmp_path)

    board.refresh()

    found = events(board.folder / "rank-0")
    assert [(one.step, one.value) for one in found.Scalars("loss")] == [
        *((step, step / 4) for step in range(300)),
        (300, float("inf")),
    ]
    assert found.Scalars("loss")[0].wall_time == 1000.0
    assert sorted(found.Tags()["scalars"]) == ["größe", "loss", "train/accuracy"]


def test_histograms_images_texts_and_params_are_read_by_tensorboard(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path)
    recorder.histogram(1, "weights", [0.0, 1.0, 1.0, 2.0])
    recorder.image(2, "picture", [[0, 255, 0]])
    recorder.text(3, "sample", "once upon a time")
    recorder.params({"lr": 0.1, "name": "a|b"})
    board = _board(tmp_path)

    board.refresh()

    found = events(board.folder / "rank-0")
    (weights,) = found.Histograms("weights")
    (picture,) = found.Images("picture")
    (sample,) = found.Tensors("sample")
    (params,) = found.Tensors("params")
    assert (weights.histogram_value.num, weights.histogram_value.max) == (4.0, 2.0)
    assert sum(weights.histogram_value.bucket) == 4.0
    assert (picture.step, picture.width, picture.height) == (2, 3, 1)
    assert picture.encoded_image_string.startswith(b"\x89PNG")
    assert (sample.step, sample.tensor_proto.string_val[0]) == (3, b"once upon a time")
    assert b"| name | a\\|b |" in params.tensor_proto.string_val[0]


def test_a_later_attempt_supersedes_what_it_repeats(tmp_path: Path) -> None:
    first, second = _recorder(tmp_path), _recorder(tmp_path, attempt=1)
    for step in range(10):
        first.scalars(step, {"loss": 0.0})
    first.scalars(1, {"accuracy": 0.0})
    for step in range(6, 12):
        second.scalars(step, {"loss": 1.0})
    second.scalars(2, {"accuracy": 1.0})
    board = _board(tmp_path)

    board.refresh()

    found = events(board.folder / "rank-0")
    assert [(one.step, one.value) for one in found.Scalars("loss")] == [
        *((step, 0.0) for step in range(6)),
        *((step, 1.0) for step in range(6, 12)),
    ]
    assert [one.step for one in found.Scalars("accuracy")] == [1, 2]


def test_a_board_is_kept_current_and_made_anew_by_the_next_one(tmp_path: Path) -> None:
    recorder, other = _recorder(tmp_path), _recorder(tmp_path, rank=1)
    board = _board(tmp_path)
    assert board.is_empty()
    recorder.scalars(0, {"loss": 0.0})
    board.refresh()
    recorder.scalars(1, {"loss": 1.0})
    other.scalars(0, {"loss": 2.0})
    board.refresh()
    assert not board.is_empty()

    second = _board(tmp_path)
    assert not second.is_ours
    second.refresh()
    board.close()
    third = _board(tmp_path)
    third.refresh()

    assert sorted(one.name for one in third.folder.iterdir() if one.is_dir()) == ["rank-0", "rank-1"]
    assert [one.step for one in events(third.folder / "rank-0").Scalars("loss")] == [0, 1]


def test_a_board_whose_feed_has_gone_silent_still_has_what_it_had(tmp_path: Path) -> None:
    recorder = _recorder(tmp_path)
    recorder.scalars(1, {"loss": 0.5})
    board = _board(tmp_path)
    board.refresh()
    board.close()

    silent = TensorboardWriter(tmp_path / "tensorboard", time)
    silent.refresh()

    assert not silent.is_empty()
    assert [one.step for one in events(tmp_path / "tensorboard" / "rank-0").Scalars("loss")] == [1]
