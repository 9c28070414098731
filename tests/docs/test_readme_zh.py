"""The Chinese README says what the English one says: headings, commands, links and tables are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGLISH = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()
PAGES = pytest.mark.parametrize("page", [ENGLISH, CHINESE], ids=["English", "Chinese"])


def headings(page: str) -> list[int]:
    """The level of each heading, in order."""
    return [len(marks) for marks in re.findall(r"^(#+) ", page, flags=re.MULTILINE)]


def code(page: str) -> list[str]:
    """Every line of every code block, without its comment."""
    lines = re.findall(r"^    .*$", page, flags=re.MULTILINE)
    return [re.sub(r"\s+# .*$", "", line) for line in lines]


def words_as_code(page: str) -> list[str]:
    """What stands between backticks; Chinese may have it in another order."""
    return sorted(re.findall(r"`([^`]+)`", page))


def links(page: str) -> list[str]:
    """Where each link and picture points, apart from the two pages themselves and their sections."""
    targets = re.findall(r"\]\(([^)]+)\)", page)
    return [target for target in targets if not target.startswith(("#", "README."))]


def tables(page: str) -> list[int]:
    """How many columns each row of each table has, in order."""
    return [row.count(" | ") + 1 for row in re.findall(r"^\|.*\|$", page, flags=re.MULTILINE)]


@pytest.mark.parametrize("part", [headings, code, words_as_code, links, tables])
def test_both_have_the_same(part: object) -> None:
    assert callable(part)

    assert part(CHINESE) == part(ENGLISH) != []


@PAGES
def test_a_link_into_the_page_itself_points_to_a_heading(page: str) -> None:
    titles = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    anchors = {title.lower().replace(" ", "-") for title in titles}

    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= anchors


def test_each_links_to_the_other() -> None:
    assert "](README.zh-CN.md)" in ENGLISH
    assert "](README.md)" in CHINESE


@PAGES
def test_neither_has_an_id_of_the_list_of_demands(page: str) -> None:
    assert re.findall(r"\b[A-JZ]\d\b", page) == []


def test_the_chinese_page_is_chinese() -> None:
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)|^    .*$", "", CHINESE, flags=re.MULTILINE)
    sentences = [line for line in prose.splitlines() if len(line) > 60 and not line.startswith("|")]

    assert sentences != []
    assert [line for line in sentences if not re.search(r"[\u4e00-\u9fff]", line) and " · " not in line] == []
