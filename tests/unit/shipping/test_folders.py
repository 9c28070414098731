"""A script's folder is sent as its user sees it, without what the rules leave out."""

from __future__ import annotations

from pathlib import Path

from bireme.backends.kubernetes import folders


def _write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_py", ".py").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_script_in_the_current_folder_brings_that_folder(tmp_path: Path) -> None:
    _write(tmp_path, train_py="1", lib__model_py="2", requirements_txt="numpy")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")

    found = folders.of_script("train.py", tmp_path)

    assert [one.name for one in found.files] == ["lib/model.py", "requirements.txt", "train.py"]
    assert (found.script, found.requirements) == ("train.py", "requirements.txt")


def test_a_script_below_the_current_folder_keeps_its_place(tmp_path: Path) -> None:
    _write(tmp_path, big_txt="x", requirements_txt="numpy", src__train_py="1", src__net_py="2")

    found = folders.of_script("src/train.py", tmp_path)

    assert [one.name for one in found.files] == ["src/net.py", "src/train.py", "requirements.txt"]
    assert (found.script, found.requirements) == ("src/train.py", "requirements.txt")


def test_a_script_elsewhere_brings_its_own_folder(tmp_path: Path) -> None:
    _write(tmp_path / "code", train_py="1", help_py="2")
    here = tmp_path / "here"
    here.mkdir()

    found = folders.of_script(str(tmp_path / "code" / "train.py"), here)

    assert [one.name for one in found.files] == ["help.py", "train.py"]
    assert found.script == "train.py"


def test_the_folders_own_rules_hold(tmp_path: Path) -> None:
    _write(tmp_path, train_py="1", data__x_txt="2", keep_txt="3")
    (tmp_path / ".gitignore").write_text("keep.txt\n")
    (tmp_path / ".biremeignore").write_text("data/\n")

    found = folders.of_script("train.py", tmp_path)

    assert [one.name for one in found.files] == [".biremeignore", ".gitignore", "keep.txt", "train.py"]
    assert not found.holds(tmp_path / "data")
    assert found.holds(tmp_path / "keep.txt")


def test_an_environment_and_links_to_folders_are_left_out(tmp_path: Path) -> None:
    _write(tmp_path, train_py="1", shared_txt="2", py311__pyvenv="x")
    (tmp_path / "py311" / "pyvenv.cfg").write_text("home = /usr/bin")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "linked.txt").symlink_to(tmp_path / "shared.txt")

    found = folders.of_script("train.py", tmp_path)

    assert [one.name for one in found.files] == ["linked.txt", "shared.txt", "train.py"]


def test_a_module_brings_the_current_folder(tmp_path: Path) -> None:
    _write(tmp_path, pkg__train_py="1")

    found = folders.of_module("pkg.train", tmp_path)

    assert ([one.name for one in found.files], found.script) == (["pkg/train.py"], "pkg.train")
