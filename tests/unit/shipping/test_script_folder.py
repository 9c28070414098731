"""A script's folder is sent as its user sees it, without what the rules leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme import errors
from bireme.backends.kubernetes.submit import script_folder


def _write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_py", ".py").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_script_in_the_current_folder_brings_that_folder(tmp_path: Path) -> None:
    _write(tmp_path, train_py="1", lib__model_py="2", requirements_txt="numpy")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")

    found = script_folder.of_script("train.py", tmp_path)

    assert [one.name for one in found.files] == ["lib/model.py", "requirements.txt", "train.py"]
    assert (found.script, found.requirements) == ("train.py", "requirements.txt")


def test_a_script_below_the_current_folder_keeps_its_place(tmp_path: Path) -> None:
    _write(tmp_path, big_txt="x", requirements_txt="numpy", src__train_py="1", src__net_py="2")

    found = script_folder.of_script("src/train.py", tmp_path)

    assert [one.name for one in found.files] == ["src/net.py", "src/train.py", "requirements.txt"]
    assert (found.script, found.requirements) == ("src/train.py", "requirements.txt")


def test_a_script_elsewhere_brings_its_own_folder(tmp_path: Path) -> None:
    _write(tmp_path / "code", train_py="1", help_py="2")
    here = tmp_path / "here"
    here.mkdir()

    found = script_folder.of_script(str(tmp_path / "code" / "train.py"), here)

    assert [one.name for one in found.files] == ["help.py", "train.py"]
    assert found.script == "train.py"


def _sent(script: str, cwd: Path) -> list[str]:
    return [one.name for one in script_folder.of_script(script, cwd).files]


def test_both_ignore_files_of_a_folder_hold(tmp_path: Path) -> None:
    _write(tmp_path, train_py="1", data__x_txt="2", private_txt="3", keep_txt="4")
    (tmp_path / ".gitignore").write_text("private.txt\nkeep.txt\n")
    (tmp_path / ".biremeignore").write_text("data/\n!keep.txt\n")

    found = script_folder.of_script("train.py", tmp_path)

    assert [one.name for one in found.files] == [".biremeignore", ".gitignore", "keep.txt", "train.py"]
    assert found.left_out == ("data/", "private.txt")
    assert not found.holds(tmp_path / "data")
    assert found.holds(tmp_path / "keep.txt")


@pytest.mark.parametrize("git", ["folder", "file"])
def test_rules_of_the_repository_above_the_script_hold(tmp_path: Path, git: str) -> None:
    repository = tmp_path / "repository"
    _write(repository, src__deep__train_py="1", src__deep__private_txt="2", src__deep__data__x_txt="3")
    _write(repository, src__deep__notes_txt="4", src__deep__data__keep_txt="5")
    (repository / ".gitignore").write_text("private.txt\n/src/deep/data/*\n")
    (repository / "src" / ".gitignore").write_text("!keep.txt\n")
    own = repository / ".git"
    if git == "file":
        # As in a further working tree, whose own files are in the first one's.
        own = tmp_path / "first" / ".git"
        further = own / "worktrees" / "one"
        further.mkdir(parents=True)
        (further / "commondir").write_text("../..\n")
        (repository / ".git").write_text(f"gitdir: {further}\n")
    (own / "info").mkdir(parents=True)
    (own / "info" / "exclude").write_text("notes.txt\n")

    assert _sent("train.py", repository / "src" / "deep") == ["data/keep.txt", "train.py"]
    assert _sent("src/deep/train.py", repository) == ["src/deep/data/keep.txt", "src/deep/train.py"]


def test_rules_hold_for_a_folder_that_is_reached_by_a_link(tmp_path: Path) -> None:
    _write(tmp_path, repository__src__train_py="1", repository__src__private_txt="2")
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / "repository" / ".gitignore").write_text("private.txt\n")
    (tmp_path / "link").symlink_to(tmp_path / "repository" / "src")

    assert _sent("train.py", tmp_path / "link") == ["train.py"]


@pytest.mark.parametrize("configured", [True, False])
def test_rules_that_a_user_has_for_all_repositories_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: bool
) -> None:
    home, repository = tmp_path / "home", tmp_path / "repository"
    _write(repository, train_py="1", private_txt="2")
    (repository / ".git").mkdir()
    (home / ".config" / "git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if configured:
        (home / ".gitconfig").write_text("[user]\n\tname = x\n[core]\n\texcludesFile = ~/mine\n")
        (home / "mine").write_text("private.txt\n")
    else:
        (home / ".config" / "git" / "ignore").write_text("private.txt\n")

    assert _sent("train.py", repository) == ["train.py"]


SECRETS = [
    ".env",
    ".env.local",
    ".env.production",
    ".envrc",
    "cert.pem",
    "server.key",
    "id_rsa",
    "id_rsa.pub",
    "id_ed25519",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "credentials.json",
    "service-account.json",
    "service-account-prod.json",
    ".git-credentials",
    ".aws/credentials",
    ".ssh/config",
    ".kube/config",
    "deep/.ENV",
    "deep/Server.KEY",
    "deep/.aws/config",
    "deep/.config/gcloud/x.json",
    ".docker/config.json",
]


@pytest.mark.parametrize("rules", ["", "!*\n!.*\n!.*/\n!deep/.aws/**\n"])
def test_keys_and_credentials_are_never_sent_even_if_a_rule_brings_them_back(
    tmp_path: Path, rules: str
) -> None:
    for name in ("train.py", "keys.py", "environment.py", "monkey", ".envoy", *SECRETS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text(rules)

    found = script_folder.of_script("train.py", tmp_path)

    names = [one.name for one in found.files]
    assert names == [".envoy", ".gitignore", "environment.py", "keys.py", "monkey", "train.py"]
    assert set(found.secrets) == {*(one for one in SECRETS if "/" not in one), *_folders_of_secrets()}


def _folders_of_secrets() -> set[str]:
    hidden = {".aws/", ".ssh/", ".kube/", ".docker/", "deep/.aws/", "deep/.config/gcloud/"}
    return hidden | {"deep/.ENV", "deep/Server.KEY"}


def test_a_link_to_a_key_is_not_sent_under_another_name(tmp_path: Path) -> None:
    _write(tmp_path, home__key_txt="x", code__train_py="1", code__shared_txt="2")
    (tmp_path / "home" / ".ssh").mkdir()
    (tmp_path / "home" / ".ssh" / "identity").write_text("x")
    (tmp_path / "home" / "id_rsa").write_text("x")
    (tmp_path / "code" / "innocent").symlink_to(tmp_path / "home" / ".ssh" / "identity")
    (tmp_path / "code" / "data.txt").symlink_to(tmp_path / "home" / "id_rsa")
    (tmp_path / "code" / "linked.txt").symlink_to(tmp_path / "code" / "shared.txt")

    found = script_folder.of_script("train.py", tmp_path / "code")

    assert [one.name for one in found.files] == ["linked.txt", "shared.txt", "train.py"]
    assert found.secrets == ("data.txt", "innocent")


def test_the_script_itself_is_sent_whatever_the_rules_say(tmp_path: Path) -> None:
    _write(tmp_path, train_py="1", other_py="2")
    (tmp_path / ".gitignore").write_text("*\n")

    assert _sent("train.py", tmp_path) == ["train.py"]


def test_a_script_that_is_called_like_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("1")

    with pytest.raises(errors.BadInput, match="the name of a key"):
        script_folder.of_script("id_rsa", tmp_path)


def test_an_environment_and_links_to_folders_are_left_out(tmp_path: Path) -> None:
    _write(tmp_path, train_py="1", shared_txt="2", py311__pyvenv="x")
    (tmp_path / "py311" / "pyvenv.cfg").write_text("home = /usr/bin")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "linked.txt").symlink_to(tmp_path / "shared.txt")

    found = script_folder.of_script("train.py", tmp_path)

    assert [one.name for one in found.files] == ["linked.txt", "shared.txt", "train.py"]


def test_a_module_brings_the_current_folder(tmp_path: Path) -> None:
    _write(tmp_path, pkg__train_py="1")

    found = script_folder.of_module("pkg.train", tmp_path)

    assert ([one.name for one in found.files], found.script) == (["pkg/train.py"], "pkg.train")


def test_a_link_to_itself_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")

    assert [one.name for one in script_folder.of_script("train.py", tmp_path).files] == ["train.py"]
