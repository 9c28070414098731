"""Whatever a text holds, it is read or refused by one BadManifest, and that quickly."""

from __future__ import annotations

import json
import time

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bireme.errors import BadManifest
from bireme.manifest.text.source import MOST_BYTES, Document, read_text
from tests.unit.manifest.texts import MANIFEST, diagnostic, plain

# --- What is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "job.yaml: the file is empty"),
        (" \n\n", "job.yaml: the file is empty"),
        ("# nothing\n---\n", "job.yaml: the file holds no document"),
        ("a:\n\tb: 1\n", "job.yaml:2:1 a: a tab is used as indentation (YAML allows only spaces there)"),
        ("a:\n  b: 1\n\tc: 2\n", "job.yaml:3:1 a.b: a tab is used as indentation"),
        ("a:\n  b:\n  \tc: 1\n", "job.yaml:3:3 a.b: a tab is used as indentation"),
        ("a: |\n\tx\n", "job.yaml:2:1 a: a tab is used as indentation"),
        ("- a\n-\tb: 1\n", "job.yaml:2:2 [1]: a tab is used as indentation"),
        (b"a: 1\nb: \xc3\xbc\xff", "job.yaml:2:5: byte 0xff at offset 10 is not UTF-8"),
        (
            "a: 1".encode("utf-16"),
            "job.yaml:1:1: byte 0xff at offset 0 is not UTF-8 (the file is UTF-16; save",
        ),
        (b"\x1f\x8b\x08\x00", "job.yaml:1:2: byte 0x8b at offset 1 is not UTF-8"),
        ("a: 1\nb: x\x00y", "job.yaml:2:5: the character U+0000 is not allowed in a manifest"),
        ("a: \ud800", "job.yaml:1:4: the character U+D800 is not allowed in a manifest"),
        ('a: "\\0"', "job.yaml:1:4 a: the text holds U+0000, which is not a character"),
        (
            "spec:\n  replicas: 1\n  replicas: 2\n",
            'job.yaml:3:3 spec.replicas: the key "replicas" is here a second time; the first is at line 2,',
        ),
        ("1: a", "job.yaml:1:1: a key must be a text, found the number 1 (put it in quotes)"),
        (
            "on: a",
            "job.yaml:1:1: a key must be a text, found the boolean true (put it in quotes: YAML reads yes",
        ),
        ("? [a]\n: 1", "job.yaml:1:3: a key must be a text, found a list"),
        (
            "a: {{ name }}",
            "job.yaml:1:5 a: a key must be a text, found a mapping (a template such as {{ name }}",
        ),
        ("a: !!python/name:os.system x", 'job.yaml:1:4 a: the tag "!!python/name:os.system" is not known'),
        ("a: !mine {}", 'job.yaml:1:4 a: the tag "!mine" is not known (leave it out)'),
        ("a: !!map []", 'job.yaml:1:4 a: the tag "!!map" is not known'),
        ("a: !!int one", 'job.yaml:1:4 a: "one" does not fit its tag !!int'),
        ("a: .inf", "job.yaml:1:4 a: inf is not a number that a manifest can hold"),
        ("a: &x [*x]", "job.yaml:1:8 a[0]: the anchor &x contains itself"),
        ("a: &x {b: {c: *x}}", "job.yaml:1:15 a.b.c: the anchor &x contains itself"),
        ("a: *x", "job.yaml:1:4 a: the alias *x has no anchor &x before it"),
        ("<<: 3", "job.yaml:1:5: << takes over mappings, found the number 3"),
        ("a: b: c", "job.yaml:1:5: a colon stands where no key can be (check the indentation"),
        ("a:\n  b: 1\n c: 2", "job.yaml:3:2: the indentation does not fit the lines above"),
        ("a: @x", "job.yaml:1:4 a: a value cannot begin with @ (put the value in quotes)"),
        ("a: 1\nb\nc: 2", "job.yaml:2:1: a key without a colon (write `key: value`)"),
        ("a: 'x\nb: 1", "job.yaml:1:4 a: a quoted text begins here and never ends"),
        ("a: [1, 2\nb: 3", "job.yaml:1:4 a[2]: a list begins with [ here and is not closed"),
        ("a: {b: 1\nc: d: 2", "job.yaml:1:4 a: a mapping begins with { here and is not closed"),
        ("a: [1,", "job.yaml:2:1 a[1]: a value is missing"),
        ("a: %x", "job.yaml:1:4 a: a value cannot begin with %"),
        ("a\n--- b\n...\nc", "job.yaml:4:1: this belongs to no document"),
        (
            'a: "\\q"',
            "job.yaml:1:5 a: the text is not YAML: while parsing a quoted scalar, found unknown escape",
        ),
    ],
)
def test_bad_text_is_told_where_and_what(text: bytes | str, sentence: str) -> None:
    assert diagnostic(text).startswith(sentence)


def test_all_faults_of_a_file_come_at_once() -> None:
    message = diagnostic("a: 1\na: 2\n3: x\nb: !mine x\nc: @x\n")

    assert [line.split(":")[1] for line in message.splitlines()] == ["2", "3", "4", "5"]


def test_faults_carry_their_place_and_field_as_values() -> None:
    with pytest.raises(BadManifest) as caught:
        read_text("spec:\n  Worker: {x: 1, x: 2}\n", "job.yaml")

    (found,) = caught.value.diagnostics
    assert (found.file, found.line, found.column, found.field) == ("job.yaml", 2, 18, "spec[Worker].x")


ALIAS_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 30)
)
MERGE_BOMB = "a0: &a0 {k: v}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 10)}]}}\n" for level in range(1, 30)
)
ALIAS_CHAIN = "a0: &a0 [x]\n" + "".join(f"a{level}: &a{level} [*a{level - 1}]\n" for level in range(1, 300))
TOO_DEEP = "the nesting is deeper than 100 levels"
TOO_MANY = "there are more than 100,000 values"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(ALIAS_BOMB, TOO_MANY, id="alias bomb"),
        pytest.param(MERGE_BOMB, TOO_MANY, id="merge bomb"),
        pytest.param(ALIAS_CHAIN, TOO_DEEP, id="chain of aliases"),
        pytest.param("[" * 5000, TOO_DEEP, id="deep list"),
        pytest.param("{a: " * 5000, TOO_DEEP, id="deep mapping"),
        pytest.param("- " * 5000, TOO_DEEP, id="deep items"),
        pytest.param("? " * 5000, TOO_DEEP, id="deep keys"),
        pytest.param('{"a": ' * 5000 + "1" + "}" * 5000, TOO_DEEP, id="deep JSON"),
        pytest.param("\n".join(" " * level + "a:" for level in range(2000)), TOO_DEEP, id="deep indentation"),
        pytest.param(b"a: 1\n" * 2_000_000, "at most 4 MiB are read, found 9.54 MiB", id="10 MB"),
        pytest.param("- a\n" * 1_000_000, TOO_MANY, id="many items"),
        pytest.param("[" + "1," * 2_000_000, TOO_MANY, id="many JSON items"),
        pytest.param("--- a\n" * 600_000, "there are more than 1,000 documents", id="many documents"),
        pytest.param("k: 1\n" * 800_000, "and 91 more", id="many faults"),
        pytest.param("[" * 99 + "a: b," * 800_000, TOO_MANY, id="many pairs, deep"),
        pytest.param("# a\n" * 1_000_000, "holds no document", id="only comments"),
        pytest.param('{"a": "' + "\\n" * 2_000_000, "does not end", id="long text without end"),
        pytest.param('a: "' + "x" * 4_000_000, "never ends", id="long quoted text without end"),
    ],
)
def test_a_hostile_text_is_refused_quickly(text: bytes | str, sentence: str) -> None:
    start = time.process_time()

    message = diagnostic(text)

    assert sentence in message
    assert len(message) < 3000
    assert time.process_time() - start < 2.0  # a tenth to a half; more only on a slow machine


def test_a_text_at_the_limits_is_read() -> None:
    assert len(plain("- a\n" * 99_000)[0]) == 99_000
    assert plain("[" * 100 + "]" * 100)
    assert plain("a: " + "x" * (MOST_BYTES - 3))


# --- Anything at all --------------------------------------------------------------------------------------


def check_anything(content: bytes | str) -> None:
    """A text is read or refused by BadManifest, within a second of work."""
    documents: list[Document] = []
    refused: BadManifest | None = None
    start = time.process_time()

    try:
        documents = read_text(content, "job.yaml")
    except BadManifest as error:
        refused = error

    assert time.process_time() - start < 1.0
    assert bool(documents) != bool(refused and refused.diagnostics)
    assert refused is None or len(str(refused).splitlines()) <= 12
    # What was read can be written: no half characters, no infinite numbers.
    json.dumps(
        [document.root.plain() for document in documents], allow_nan=False, ensure_ascii=False
    ).encode()


@settings(max_examples=500)
@given(st.binary(max_size=300))
@example(b"!%ff a")
@example(b'"\\U00110000"')
@example(b"%YAML 9.9\n--- a")
def test_random_bytes_are_read_or_refused(content: bytes) -> None:
    check_anything(content)


@settings(max_examples=500)
@given(st.text(st.sampled_from("ab01 \n\t-:?[]{},&*!|>'\"%@`#<~.e_\\\u2028\ufeffü")))
def test_random_signs_of_yaml_are_read_or_refused(text: str) -> None:
    check_anything(text)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A valid manifest with pieces cut out, doubled, moved and replaced."""
    source = draw(st.sampled_from([MANIFEST, json.dumps(list(yaml.safe_load_all(MANIFEST)), indent=1)]))
    content = source.encode()
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 60)))
        piece = draw(
            st.binary(max_size=8)
            | st.sampled_from(
                [b"", b"\t", b"*replica", b"&replica ", b"<<: ", b"{{", b"---\n", b"1e999", b": "]
            )
            | st.just(content[start:end] * 2)
        )
        content = content[:start] + piece + content[end:]
    return content


@settings(max_examples=1000)
@given(mutations())
def test_mutated_manifests_are_read_or_refused(content: bytes) -> None:
    check_anything(content)
