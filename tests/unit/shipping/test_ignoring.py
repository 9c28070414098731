"""The rules that leave files out read as git reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.backends.kubernetes.ignoring import is_ignored, rules


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
        ("\\#x", "#x", False, True),
        ("# a comment", "# a comment", False, False),
        ("", "anything", False, False),
    ],
)
def test_a_rule_means_what_git_means_by_it(rule: str, path: str, is_folder: bool, ignored: bool) -> None:
    assert is_ignored(path, is_folder, rules(rule)) is ignored


def test_the_last_rule_that_fits_decides() -> None:
    found = rules("*.bin\n!keep.bin\n")

    assert is_ignored("x.bin", False, found)
    assert not is_ignored("deep/keep.bin", False, found)


@pytest.mark.parametrize("path", [".git", "src/__pycache__", ".venv", "node_modules"])
def test_what_no_script_needs_is_left_out_without_a_rule(path: str) -> None:
    assert is_ignored(path, True, rules(""))


def test_secrets_are_left_out_unless_somebody_insists() -> None:
    assert is_ignored(".env", False, rules(""))
    assert not is_ignored(".env", False, rules("!.env"))


_PIECE = st.sampled_from(["a", "b", "*", "?", "**", "ab", "*.c", "[ab]", "x"])
_PATTERN = st.builds(
    lambda pieces, front, back: front + "/".join(pieces) + back,
    st.lists(_PIECE, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
    st.sampled_from(["", "/"]),
)
_PATHS = ("a", "b", "ab", "x.c", "a/b", "a/ab", "b/x.c", "a/b/a", "a/b/x.c", "x/a/b")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=40, deadline=None)
@given(lines=st.lists(_PATTERN, min_size=1, max_size=3))
def test_git_itself_agrees(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("repo")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / ".gitignore").write_text("\n".join(lines) + "\n")

    ours = {path for path in _PATHS if _left_out(path, "\n".join(lines))}

    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        cwd=folder,
        input="\n".join(_PATHS),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ours == set(asked.stdout.split())


def _left_out(path: str, text: str) -> bool:
    """As a walk would find it: what is in a folder that is left out is left out too."""
    parts = Path(path).parts
    folders = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    found = rules(text)
    return any(is_ignored(one, True, found) for one in folders) or is_ignored(path, False, found)
