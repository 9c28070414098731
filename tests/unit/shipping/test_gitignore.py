"""The rules that leave files out read as git reads them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bireme.backends.kubernetes.submit import script_folder
from bireme.backends.kubernetes.submit.gitignore import ALWAYS, is_ignored, is_secret, rules


@pytest.mark.parametrize(
    ("rule", "path", "is_folder", "ignored"),
    [
        ("*.bin", "a/b/x.bin", False, True),
        ("*.bin", "x.binary", False, False),
        ("/data", "data", True, True),
        ("/data", "src/data", True, False),
        ("data/", "data", False, False),
        ("data/", "src/data", True, True),
        ("src/*.txt", "src/a.txt", False, True),
        ("src/*.txt", "src/deep/a.txt", False, False),
        ("**/cache", "a/b/cache", True, True),
        ("logs/**", "logs/a/b.txt", False, True),
        ("a/**/z", "a/z", False, True),
        ("a/**/z", "a/b/c/z", False, True),
        ("?.py", "a.py", False, True),
        ("?.py", "ab.py", False, False),
        ("[ab].py", "b.py", False, True),
        ("[!ab].py", "b.py", False, False),
        ("[z-a].py", "b.py", False, False),
        ("[ab.py", "[ab.py", False, False),
        ("x\\", "x", False, False),
        ("\\#x", "#x", False, True),
        ("# a comment", "# a comment", False, False),
        ("a\\ ", "a ", False, True),
        ("a ", "a", False, True),
        ("a\x0cb", "a\x0cb", False, True),
        ("", "anything", False, False),
    ],
)
def test_a_rule_means_what_git_means_by_it(rule: str, path: str, is_folder: bool, ignored: bool) -> None:
    assert is_ignored(path.encode(), is_folder, [rules(rule.encode())]) is ignored


def test_the_last_rule_that_fits_decides_and_a_deeper_file_comes_later() -> None:
    above, below = rules(b"*.bin\n!keep.bin\n"), rules(b"keep.bin\n!x.bin\n", b"deep/")

    assert is_ignored(b"x.bin", False, [above, below])
    assert not is_ignored(b"other/keep.bin", False, [above, below])
    assert is_ignored(b"deep/keep.bin", False, [above, below])
    assert not is_ignored(b"deep/x.bin", False, [above, below])


@pytest.mark.parametrize("path", [b".git", b"src/__pycache__", b".venv", b"node_modules"])
def test_what_no_script_needs_is_left_out_without_a_rule(path: bytes) -> None:
    assert is_ignored(path, True, [rules(ALWAYS)])


def test_what_looks_like_a_key_is_one_at_any_depth() -> None:
    assert is_secret(b"a/b/.env.local", False)
    assert is_secret(b"a/.ssh", True)
    assert not is_secret(b"a/.ssh", False)
    assert not is_secret(b"environment", False)


@pytest.mark.parametrize("kind", ["rsa", "dsa", "ecdsa", "ed25519"])
def test_a_program_about_keys_is_not_a_key(kind: str) -> None:
    for ending in ("", ".pub", ".bak", ".work", "_work", "-work", "_work.pub", "_sk"):
        assert is_secret(f"a/id_{kind}{ending}".encode(), False), ending
    for ending in (".py", "_utils.py", "_utils.pyx", "_test.json", "s.txt"):
        assert not is_secret(f"a/id_{kind}{ending}".encode(), False), ending
    assert not is_secret(f"id_{kind}_utils".encode(), True)


_TREE = [
    "a",
    "b",
    "ab",
    "x.c",
    "a.c",
    "a/a",
    "a/ab",
    "a/x.c",
    "b/a",
    "b/a.c",
    "b/b/a",
    "b/b/x.c",
    "src/s.py",
    "src/a",
    "src/b",
    "src/x.c",
    "src/a.c",
    "src/a/a",
    "src/a/b",
    "src/a/x.c",
    "src/a/b.c",
    "src/b.d/a",
    "src/b.d/ab/a",
    "src/b.d/ab/x.c",
    "src/b.d/x.c",
    "src/é",
    "src/#a",
    "src/!a",
    "src/c\\d",
    "src/[a]",
    "src/ab/a/b/a",
]
# A name cannot be a file and a folder.
_FILES = tuple(one for one in _TREE if not any(other.startswith(f"{one}/") for other in _TREE))
_PIECE = st.sampled_from(
    (
        *(
            "a",
            "b",
            "ab",
            "x",
            "src",
            "b.d",
            "*",
            "?",
            "**",
            "***",
            "*.c",
            "[ab]",
            "[!a]",
            "[a-b].c",
            "[b-a]",
        ),
        *("[[:alpha:]]", "[a", "\\a", "a**", "**b", "*a", "?b", "\\", "[]a]", "[^]]", "x.?", "\u00e9", "??"),
        *("#a", "!a", "\\!a", "\\#a"),
    )
)
_PATTERN = st.builds(
    lambda negation, pieces, front, back: negation + front + "/".join(pieces) + back,
    st.sampled_from(["", "", "!"]),
    st.lists(_PIECE, min_size=1, max_size=3),
    st.sampled_from(["", "/", "**/"]),
    st.sampled_from(["", "", "/", "/**", "/*", " ", "\\ ", "\r", "//"]),
)
_LINES = st.lists(_PATTERN, max_size=4)
_PLACES = (
    ".git/info/exclude",
    ".gitignore",
    "src/.gitignore",
    "src/a/.gitignore",
    "src/b.d/.gitignore",
    "a/.gitignore",
)
_RULES = st.dictionaries(st.sampled_from(_PLACES), _LINES, min_size=1, max_size=4)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository of files whose ignore files a test writes, of a user without settings."""
    folder = tmp_path_factory.mktemp("repository")
    home = pytest.MonkeyPatch()
    home.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    home.delenv("XDG_CONFIG_HOME", raising=False)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True, env=_environ())
    for name in _FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    yield folder
    home.undo()


@settings(max_examples=80, deadline=None)
@given(rules=_RULES)
def test_what_is_sent_is_what_git_does_not_ignore(rules: dict[str, list[str]], repository: Path) -> None:
    check_against_git(rules, repository)


@pytest.mark.soak
@pytest.mark.timeout(0)
@settings(max_examples=20_000, deadline=None)
@given(rules=_RULES)
def test_git_agrees_about_many_more(rules: dict[str, list[str]], repository: Path) -> None:
    check_against_git(rules, repository)


def check_against_git(rules: Mapping[str, list[str]], repository: Path) -> None:
    for place in _PLACES:
        file = repository / place
        file.write_bytes("\n".join(rules.get(place, [])).encode())
    names = [f"src/{one}" for one in _walked(repository / "src")]
    ignored = _ignored_by_git(repository, ["src", *names])
    # Whoever runs a script in a folder that is ignored means that folder.
    assume("src" not in ignored)

    sent = {one.name for one in script_folder.of_script("src/s.py", repository).files}

    assert sent == {one for one in names if one not in ignored} | {"src/s.py"}


def _walked(folder: Path) -> list[str]:
    return [one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file()]


def _ignored_by_git(repository: Path, names: list[str]) -> set[str]:
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=repository,
        input="\0".join(names).encode(),
        capture_output=True,
        check=False,
        env=_environ(),
    )
    assert asked.returncode in (0, 1), asked.stderr
    return {os.fsdecode(one) for one in asked.stdout.split(b"\0") if one}


def _environ() -> dict[str, str]:
    """Git without the settings of the machine."""
    return {**os.environ, "GIT_CONFIG_NOSYSTEM": "1"}
