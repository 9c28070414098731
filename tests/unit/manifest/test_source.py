"""What a user writes becomes trees with places, and means what it means to Kubernetes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bireme.errors import BadManifest
from bireme.manifest.text.source import Document, Mark, Node, read_path, read_text
from tests.unit.manifest.texts import MANIFEST, diagnostic, plain


def at(document: Document, *keys: str | int) -> Node:
    node = document.root
    for key in keys:
        if isinstance(key, str):
            assert isinstance(node.value, dict)
            node = node.value[key]
        else:
            assert isinstance(node.value, list)
            node = node.value[key]
    return node


# --- What is read -----------------------------------------------------------------------------------------


def test_values_and_keys_know_where_they_stand() -> None:
    document = read_text(MANIFEST, "job.yaml")[0]

    replicas = at(document, "spec", "pytorchReplicaSpecs", "Master", "replicas")
    argument = at(
        document, "spec", "pytorchReplicaSpecs", "Master", "template", "spec", "containers", 0, "command", 1
    )

    assert document.file == "job.yaml"
    assert replicas == Node(1, mark=Mark(9, 17), key_mark=Mark(9, 7))
    assert argument == Node("train.py", mark=Mark(15, 33), key_mark=None)
    assert document.root.mark == Mark(1, 1)


def test_plain_data_is_what_another_parser_reads() -> None:
    assert plain(MANIFEST) == list(yaml.safe_load_all(MANIFEST))


def test_plain_data_is_new_each_time() -> None:
    document = read_text("a: [1]")[0]

    document.root.plain()["a"].append(2)

    assert document.root.plain() == {"a": [1]}


def test_a_text_is_read_like_its_bytes() -> None:
    assert read_text("a: ü") == read_text("a: ü".encode())


def test_documents_that_hold_nothing_are_left_out() -> None:
    assert plain("---\n# only a comment\n---\na: 1\n---\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    document = read_text("\ufeffa: 1")[0]

    assert at(document, "a").key_mark == Mark(1, 1)


def test_windows_line_ends_count_once() -> None:
    document = read_text("a: 1\r\nb: 2\r\n")[0]

    assert at(document, "b").mark == Mark(2, 4)


def test_columns_count_characters_not_bytes() -> None:
    document = read_text("{ä: 🎉, b: 2}")[0]

    assert at(document, "b").key_mark == Mark(1, 8)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("on", True),
        ("n", False),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("~", None),
        ("Null", None),
        ("", None),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("1_000", 1000),
        ("0755", 493),
        ("0o755", 493),
        ("0x1F", 31),
        ("0b101", 5),
        ("08", 8.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", float(2**64)),
        ("1e999", "1e999"),
        ("9" * 150, 1e150),
        ("9" * 10_000, "9" * 10_000),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("2026-01-02", "2026-01-02"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("4Gi", "4Gi"),
        ("1.2.3", "1.2.3"),
        ("--lr", "--lr"),
        ("'12'", "12"),
        ('"yes"', "yes"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int '12'", 12),
        ("!!float 12", 12),
        ("!!map {}", {}),
        ("!!seq []", []),
        ("<<", "<<"),
    ],
)
def test_unquoted_words_mean_what_they_mean_to_kubernetes(written: str, value: object) -> None:
    found = plain(f"a: {written}")[0]["a"]

    assert found == value
    assert isinstance(found, bool) == isinstance(value, bool)


def test_an_alias_is_the_anchored_value_at_the_place_of_the_alias() -> None:
    document = read_text("a: &x {b: 1}\nc: *x\n")[0]

    assert at(document, "c").mark == Mark(2, 4)
    assert at(document, "c").key_mark == Mark(2, 1)
    assert at(document, "c", "b").mark == Mark(1, 11)


def test_an_anchor_holds_the_value_given_last() -> None:
    assert plain("[&x 1, *x, &x 2, *x]") == [[1, 1, 2, 2]]


def test_anchors_end_with_their_document() -> None:
    assert "no anchor &x before it" in diagnostic("a: &x 1\n---\nb: *x\n")


def test_own_keys_win_over_merged_ones_and_the_first_merged_over_later_ones() -> None:
    text = "one: &one {a: 1, b: 1}\ntwo: &two {b: 2, c: 2}\nall: {c: 3, <<: [*one, *two]}\n"

    assert plain(text)[0]["all"] == {"a": 1, "b": 1, "c": 3}


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    assert plain("'<<': {a: 1}") == [{"<<": {"a": 1}}]


# --- JSON -------------------------------------------------------------------------------------------------


def test_json_may_be_indented_with_tabs() -> None:
    document = read_text('{\n\t"a": 1,\n\t"b": [\n\t\ttrue,\n\t\tnull\n\t]\n}\n')[0]

    assert document.root.plain() == {"a": 1, "b": [True, None]}
    assert at(document, "b", 0).mark == Mark(4, 3)
    assert at(document, "b").key_mark == Mark(3, 2)


def test_json_escapes_are_those_of_json() -> None:
    assert plain(r'["\ud83c\udf89", "\/", "\u00fc", "a\nb"]') == [["🎉", "/", "ü", "a\nb"]]


def test_json_documents_may_follow_each_other_or_be_separated_like_yaml() -> None:
    assert plain('{"a": 1}\n{"b": 2} [3]') == [{"a": 1}, {"b": 2}, [3]]
    assert plain('{"a": 1}\n---\n{"b": 2}\n') == [{"a": 1}, {"b": 2}]


def test_yaml_may_begin_with_a_bracket() -> None:
    assert plain("{a: 1, b: [c, d]}") == [{"a": 1, "b": ["c", "d"]}]
    assert plain('{"a": 1,} # a comma too many, which YAML allows') == [{"a": 1}]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '{"a": 1\n "b": 2}',
            "job.yaml:2:2: the text is not JSON: wanted , or }, found a text in double quotes",
        ),
        ('{"a": [1, 2}', "job.yaml:1:12: the text is not JSON: wanted , or ], found }"),
        ('{"a": ', "job.yaml:1:7: the text is not JSON: wanted a value, found the end"),
        ('{"a": "b', "job.yaml:1:7: the text is not JSON: a text begins here and does not end"),
        ('{"a": "\\x"', "job.yaml:1:7: the text is not JSON: the text has an escape that JSON does not know"),
        ('{"a": 1}}', "job.yaml:1:9: the text is not JSON: wanted [ or the end or {, found }"),
        (
            '{"a": 1, "a": 2}',
            'job.yaml:1:10 a: the key "a" is here a second time; the first is at line 1, column 2',
        ),
        ('{"a": "\\ud800"}', "job.yaml:1:7 a: the text holds U+D800, which is not a character"),
    ],
)
def test_bad_json_is_told_where_and_what(text: str, sentence: str) -> None:
    assert diagnostic(text).startswith(sentence)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(st.characters(exclude_categories=["C"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcé "), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(json_values) | st.dictionaries(st.text("abc"), json_values), st.sampled_from([None, 2, "\t"]))
def test_json_is_read_as_json_reads_it(value: object, indent: int | str | None) -> None:
    assert plain(json.dumps(value, indent=indent)) == [value]


@given(st.dictionaries(st.text("abc", min_size=1), json_values, min_size=1))
def test_what_a_yaml_writer_writes_is_read_back(value: object) -> None:
    # In quotes, because PyYAML leaves them out where its own reader, unlike Kubernetes', sees a text.
    assert plain(yaml.safe_dump(value, allow_unicode=True, default_style='"')) == [value]


# --- Files and folders ------------------------------------------------------------------------------------


def test_a_folder_is_read_by_name_without_subfolders_and_hidden_files(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.json", ".hidden.yaml", "notes.txt"):
        (tmp_path / name).write_text(f'{{"from": "{name}"}}')
    (tmp_path / "sub.yaml").mkdir()

    documents = read_path(tmp_path)

    assert [document.root.plain()["from"] for document in documents] == ["a.yaml", "b.yml", "c.json"]
    assert documents[0].file == str(tmp_path / "a.yaml")


def test_faults_of_all_files_of_a_folder_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\na: 2\n")
    (tmp_path / "b.yaml").write_text("")
    (tmp_path / "c.yaml").write_text("c: 3\n")

    with pytest.raises(BadManifest) as caught:
        read_path(tmp_path)

    assert [Path(each.file).name for each in caught.value.diagnostics] == ["a.yaml", "b.yaml"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing.yaml", "there is no such file or folder"),
        ("x" * 5000, "it cannot be read: File name too long"),
        ("nul\0.yaml", "it cannot be read: embedded null byte"),
        ("", "the folder holds no manifest (names must end in .yaml, .yml or .json)"),
    ],
)
def test_what_cannot_be_opened_is_a_bad_manifest(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(BadManifest) as caught:
        read_path(tmp_path / name)

    assert str(caught.value).endswith(sentence)


def test_a_large_file_is_refused_by_its_size_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as stream:
        stream.truncate(2**40)

    with pytest.raises(BadManifest, match="found 1 TiB"):
        read_path(path)


def test_a_pipe_is_read_and_limited_like_a_file() -> None:
    for content, expected in ((b"a: 1\n", None), (b"#" * 60_000, "holds no document")):
        reading, writing = os.pipe()
        os.write(writing, content)
        os.close(writing)
        path = Path(f"/dev/fd/{reading}")
        try:
            if expected is None:
                assert [each.root.plain() for each in read_path(path)] == [{"a": 1}]
            else:
                with pytest.raises(BadManifest, match=expected):
                    read_path(path)
        finally:
            os.close(reading)


@pytest.mark.parametrize(
    ("name", "content"),
    [("date.bin", b"\x7fELF\0\0"), ("a.sh", b"echo hello\n"), ("a", b"#!/bin/sh\n"), ("a.py", b"print()\n")],
)
def test_a_program_is_said_to_be_no_manifest(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(BadManifest) as caught:
        read_path(tmp_path / name)

    assert f"it is not a manifest (to run it: bireme run {tmp_path / name})" in str(caught.value)
