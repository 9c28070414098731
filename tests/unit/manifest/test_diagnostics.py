"""Fields are read by type, faults are gathered with their place, and nobody hears of them one by one."""

from __future__ import annotations

import time

import pytest

from bireme.errors import BadManifest
from bireme.manifest.diagnostics import Diagnostic, Diagnostics, Fields
from bireme.manifest.text.source import Mark, Node, read_text

POLICIES = ("Always", "OnFailure", "Never")


class Reader:
    """A document under a cursor, with what was reported."""

    def __init__(self, text: str, path: str = "") -> None:
        self.diagnostics = Diagnostics()
        (document,) = read_text(text, "job.yaml")
        self.fields = Fields(self.diagnostics, document.file, document.root, path)

    @property
    def errors(self) -> list[str]:
        return [str(each) for each in self.diagnostics.errors]

    @property
    def warnings(self) -> list[str]:
        return [str(each) for each in self.diagnostics.warnings]


# --- Diagnostics -------------------------------------------------------------------------------------------


def test_a_diagnostic_reads_file_line_column_field_text_hint() -> None:
    diagnostic = Diagnostic("job.yaml", 7, 3, "spec.replicas", "must be at least 0, found -1", "write 0")

    assert str(diagnostic) == "job.yaml:7:3 spec.replicas: must be at least 0, found -1 (write 0)"


def test_a_diagnostic_about_a_whole_file_has_no_line() -> None:
    assert str(Diagnostic("job.yaml", 0, 0, "", "the file is empty")) == "job.yaml: the file is empty"


def test_a_diagnostic_stays_on_one_line_and_cannot_speak_to_the_terminal() -> None:
    diagnostic = Diagnostic("job.yaml", 1, 1, "a\nb", "found \x1b[2J\x9b", "ü is fine")

    assert str(diagnostic) == "job.yaml:1:1 a\\u000ab: found \\u001b[2J\\u009b (ü is fine)"


def test_nothing_is_raised_without_errors() -> None:
    diagnostics = Diagnostics("job.yaml")
    diagnostics.warn(Mark(1, 1), "spec", "is odd")

    diagnostics.raise_if_any()

    assert [str(each) for each in diagnostics.warnings] == ["job.yaml:1:1 spec: is odd"]
    assert diagnostics.warnings[0].warning


def test_all_errors_are_raised_together_file_by_file_from_top_to_bottom() -> None:
    diagnostics = Diagnostics("b.yaml")
    diagnostics.error(Node(1, Mark(9, 1)), "late", "x")
    diagnostics.error(Mark(2, 5), "early", "x")
    diagnostics.error(Mark(1, 1), "other", "x", file="a.yaml")
    diagnostics.error(None, "", "whole")
    diagnostics.warn(Mark(1, 1), "warned", "x")

    with pytest.raises(BadManifest) as caught:
        diagnostics.raise_if_any()

    assert str(caught.value).splitlines() == [
        "b.yaml: whole",
        "b.yaml:2:5 early: x",
        "b.yaml:9:1 late: x",
        "a.yaml:1:1 other: x",
    ]


def test_only_ten_errors_are_shown_but_all_are_carried() -> None:
    diagnostics = Diagnostics("job.yaml")
    for line in range(1, 31):
        diagnostics.error(Mark(line, 1), "", "x")

    with pytest.raises(BadManifest) as caught:
        diagnostics.raise_if_any()

    assert str(caught.value).splitlines()[-1] == "and 20 more"
    assert len(caught.value.diagnostics) == 30


def test_the_same_diagnostic_is_made_once() -> None:
    diagnostics = Diagnostics("job.yaml")
    for _ in range(3):
        diagnostics.error(Mark(1, 1), "spec", "x")

    assert len(diagnostics.errors) == 1


# --- Reading fields ---------------------------------------------------------------------------------------


def test_fields_are_read_by_name_and_type() -> None:
    reader = Reader(
        "name: mnist\nreplicas: 2\nsuspend: yes\npolicy: Never\ncommand: [python, train.py]\n"
        "labels: {team: vision}\nlimits: {cpu: 500m, memory: 4Gi, nvidia.com/gpu: 1, x: 0.5, z: null}\n"
        "template: {spec: {a: [1, null]}}\nmemory: 1e3\n"
    )
    fields = reader.fields

    assert fields.text("name") == "mnist"
    assert fields.integer("replicas", minimum=0) == 2
    assert fields.boolean("suspend") is True
    assert fields.choice("policy", POLICIES) == "Never"
    assert fields.texts("command") == ("python", "train.py")
    assert fields.text_map("labels") == {"team": "vision"}
    assert fields.quantities("limits") == {"cpu": "500m", "memory": "4Gi", "nvidia.com/gpu": "1", "x": "0.5"}
    assert fields.raw("template") == {"spec": {"a": [1, None]}}
    assert fields.quantity("memory") == "1000.0"
    fields.done()
    assert reader.errors == reader.warnings == []


@pytest.mark.parametrize("text", ["other: 1", "x: null\nother: 1"])
def test_what_is_absent_or_null_is_its_default(text: str) -> None:
    reader = Reader(text)
    fields = reader.fields

    assert fields.text("x") is None
    assert fields.text("x", "default") == "default"
    assert fields.integer("x") is None
    assert fields.integer("x", 3, minimum=5) == 3
    assert fields.boolean("x") is None
    assert fields.boolean("x", False) is False
    assert fields.choice("x", POLICIES) is None
    assert fields.choice("x", POLICIES, "Never") == "Never"
    assert fields.mapping("x") is None
    assert fields.items("x") == []
    assert fields.texts("x") is None
    assert fields.text_map("x") == {}
    assert fields.quantity("x") is None
    assert fields.quantities("x") == {}
    assert fields.raw("x") is None
    assert fields.node("x") is None
    assert reader.errors == []


def test_values_that_are_empty_are_not_absent() -> None:
    fields = Reader("a: ''\nb: []\nc: {}\nd: 0\ne: false").fields

    assert fields.text("a", "default") == ""
    assert fields.texts("b") == ()
    assert fields.mapping("c") is not None
    assert fields.integer("d", 7) == 0
    assert fields.boolean("e", True) is False


def test_keys_are_given_in_their_order() -> None:
    fields = Reader("b: 1\na: null\nc: 3").fields

    assert fields.keys() == ("b", "a", "c")
    assert list(fields) == ["b", "a", "c"]


def test_paths_name_fields_by_dots_and_what_the_user_chose_in_brackets() -> None:
    reader = Reader("tfReplicaSpecs: {Worker: {containers: [{env: [{name: 1}]}]}}", path="spec")
    roles = reader.fields.mapping("tfReplicaSpecs")
    assert roles is not None
    worker = roles.mapping("Worker")
    assert worker is not None

    worker.items("containers")[0].items("env")[0].text("name")

    assert reader.errors == [
        "job.yaml:1:54 spec.tfReplicaSpecs[Worker].containers[0].env[0].name: "
        "wanted a text, found the number 1 (put it in quotes)"
    ]


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("'2'", 'wanted a whole number, found the text "2" (write 2, without quotes)'),
        ("two", 'wanted a whole number, found the text "two"'),
        ("2.5", "wanted a whole number, found the number 2.5"),
        ("true", "wanted a whole number, found the boolean true"),
        ("[2]", "wanted a whole number, found a list"),
        ("{}", "wanted a whole number, found a mapping"),
        ("-1", "must be at least 0, found -1"),
        ("1001", "must be at most 1000, found 1001"),
        ("1e300", "wanted a whole number, found the number 1e+300"),
    ],
)
def test_what_is_no_integer_is_told_and_read_as_the_default(written: str, sentence: str) -> None:
    reader = Reader(f"replicas: {written}", path="spec")

    assert reader.fields.integer("replicas", 7, minimum=0, maximum=1000) == 7

    assert reader.errors == [f"job.yaml:1:11 spec.replicas: {sentence}"]


def test_a_whole_number_may_be_written_as_a_float_as_in_kubernetes() -> None:
    assert Reader("replicas: 2.0").fields.integer("replicas") == 2


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("5", "wanted a text, found the number 5 (put it in quotes)"),
        (
            "no",
            "wanted a text, found the boolean false (put it in quotes: YAML reads yes, no, on",
        ),
        ("[a]", "wanted a text, found a list"),
    ],
)
def test_what_is_no_text_is_told(written: str, sentence: str) -> None:
    reader = Reader(f"name: {written}")

    assert reader.fields.text("name", "default") == "default"

    assert reader.errors[0].startswith(f"job.yaml:1:7 name: {sentence}")


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("'yes'", 'wanted true or false, found the text "yes" (write true, without quotes)'),
        ("1", "wanted true or false, found the number 1"),
    ],
)
def test_what_is_no_boolean_is_told(written: str, sentence: str) -> None:
    reader = Reader(f"suspend: {written}")

    assert reader.fields.boolean("suspend", True) is True

    assert reader.errors == [f"job.yaml:1:10 suspend: {sentence}"]


def test_a_wrong_choice_is_told_the_nearest() -> None:
    reader = Reader("policy: onfailure")

    assert reader.fields.choice("policy", POLICIES, "Never") == "Never"

    assert reader.errors == [
        "job.yaml:1:9 policy: must be one of Always, OnFailure, Never, "
        'found "onfailure" (did you mean OnFailure?)'
    ]


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("4GB", "has the unknown suffix 'GB'; write Gi for powers of 1024 or G for powers of 1000"),
        ("-1", "must not be negative, found -1"),
        ("-500m", "must not be negative, found -500m"),
        ("true", "wanted a quantity such as 2, 500m or 4Gi, found the boolean true"),
        ("[1]", "wanted a quantity such as 2, 500m or 4Gi, found a list"),
        ("1e999", "the exponent of '1e999' is out of range"),
    ],
)
def test_a_bad_quantity_is_told_and_left_out(written: str, sentence: str) -> None:
    reader = Reader(f"limits: {{cpu: 1, nvidia.com/gpu: {written}}}")

    assert reader.fields.quantities("limits") == {"cpu": "1"}

    assert len(reader.errors) == 1
    assert reader.errors[0].startswith("job.yaml:1:34 limits[nvidia.com/gpu]: ")
    assert sentence in reader.errors[0]


def test_all_faults_come_at_once() -> None:
    reader = Reader("a: 1\nb: x\nc: {}\nd: [1, {}, x]\ne: [p, 1, null]\nf: x\n")
    fields = reader.fields

    fields.text("a")
    fields.integer("b")
    fields.items("c")
    assert [each.path for each in fields.items("d")] == ["d[1]"]
    assert fields.texts("e") == ("p",)
    assert fields.mapping("f") is None

    assert reader.errors == [
        "job.yaml:1:4 a: wanted a text, found the number 1 (put it in quotes)",
        'job.yaml:2:4 b: wanted a whole number, found the text "x"',
        "job.yaml:3:4 c: wanted a list, found a mapping",
        "job.yaml:4:5 d[0]: wanted a mapping, found the number 1",
        'job.yaml:4:12 d[2]: wanted a mapping, found the text "x"',
        "job.yaml:5:8 e[1]: wanted a text, found the number 1 (put it in quotes)",
        "job.yaml:5:11 e[2]: wanted a text, found nothing",
        'job.yaml:6:4 f: wanted a mapping, found the text "x"',
    ]


def test_a_root_that_is_no_mapping_is_told_once_and_reads_as_empty() -> None:
    reader = Reader("just a text")

    assert reader.fields.text("name") is None
    assert reader.fields.integer("replicas", 1) == 1
    reader.fields.done()

    assert reader.errors == ['job.yaml:1:1: wanted a mapping, found the text "just a text"']


def test_long_values_are_cut_in_messages() -> None:
    reader = Reader("replicas: " + "x" * 10_000)

    reader.fields.integer("replicas")

    assert len(reader.errors[0]) < 150


def test_a_reader_may_report_a_field_that_is_absent() -> None:
    reader = Reader("spec:\n  a: 1\n")
    spec = reader.fields.mapping("spec")
    assert spec is not None

    spec.error("template", "is missing")
    spec.error("", "is odd")

    assert reader.errors == ["job.yaml:1:1 spec.template: is missing", "job.yaml:1:1 spec: is odd"]


# --- Fields that nobody knows -----------------------------------------------------------------------------


def test_unknown_fields_are_warned_about_with_the_nearest_known_name() -> None:
    reader = Reader("replcas: 2\nRestartpolicy: Never\nxyzzy: 1\nstatus: {}\n", path="spec")
    reader.fields.integer("replicas")
    reader.fields.text("restartPolicy")

    reader.fields.done(ignore=("status",))

    assert reader.errors == []
    assert reader.warnings == [
        'job.yaml:1:1 spec.replcas: unknown field "replcas", did you mean "replicas"?',
        'job.yaml:2:1 spec[Restartpolicy]: unknown field "Restartpolicy", did you mean "restartPolicy"?',
        'job.yaml:3:1 spec.xyzzy: unknown field "xyzzy"',
    ]


def test_fields_that_were_read_or_are_null_are_known() -> None:
    reader = Reader("a: 1\nb: null\nc: wrong\n")
    reader.fields.raw("a")
    reader.fields.node("b")
    reader.fields.integer("c")

    reader.fields.done()

    assert reader.warnings == []


def test_very_many_unknown_fields_take_no_time() -> None:
    reader = Reader("".join(f"replicas{number}: 1\n" for number in range(40_000)))
    for number in range(50):
        reader.fields.node(f"replicated{number}")
    start = time.process_time()

    reader.fields.done()

    assert time.process_time() - start < 2.0  # a quarter; more only on a slow machine
    assert len(reader.diagnostics.warnings) == 40_000
