"""A script that names files of this machine which are not sent is found out."""

from __future__ import annotations

from pathlib import Path

from bireme.backends.kubernetes.submit import local_paths, script_folder


def _mentions(folder: Path, script: str, *args: str) -> list[str]:
    (folder / "train.py").write_text(script)
    found = script_folder.of_script("train.py", folder)
    return [one.written for one in local_paths.mentions(folder / "train.py", args, found, folder)]


def test_a_data_folder_that_is_left_out_is_found(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("1")
    (tmp_path / ".biremeignore").write_text("data/\n")

    assert _mentions(tmp_path, "load('data')\nload('./data/x')\nload('data')\n") == ["data", "./data/x"]


def test_what_is_sent_or_is_not_here_is_no_concern(tmp_path: Path) -> None:
    (tmp_path / "config.txt").write_text("1")

    assert _mentions(tmp_path, "open('config.txt'); open('absent'); print('.')\nopen('/dev/null')\n") == []


def test_an_absolute_path_leads_nowhere_there(tmp_path: Path) -> None:
    assert _mentions(tmp_path, "load('/var/lib')\n") == ["/var/lib"]


def test_arguments_are_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / ".biremeignore").write_text("set\n")

    assert _mentions(tmp_path, "pass", "--data=set", "--lr", "1") == ["set"]
