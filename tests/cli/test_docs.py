"""Every verb, option, field and error code is documented, and what is documented exists."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
import msgspec
import pytest

from bireme import errors
from bireme.backends.kubernetes.cluster_checks import ClusterFacts, TaintFact
from bireme.cli import backend_options
from bireme.cli.main import VERBS, bireme
from bireme.sdk import frameworks, views
from bireme.sdk.client import Client
from bireme.sdk.cluster import cluster_health
from bireme.sdk.local import machine_checks

DOCS = Path(__file__).parents[2] / "docs"
CLI, ERRORS, SDK = ((DOCS / name).read_text() for name in ("cli.md", "errors.md", "sdk.md"))
MOST_FLAGS = 20


def _command(verb: str) -> click.Command:
    found = bireme.get_command(click.Context(bireme), verb)
    assert found is not None
    return found


def _section(verb: str) -> str:
    found = re.search(rf"^## {verb}\n(.*?)(?=^## |\Z)", CLI, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/cli.md has no section {verb}"
    return found[1]


def _options(verb: str) -> list[click.Option]:
    return [one for one in _command(verb).params if isinstance(one, click.Option)]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_is_documented(verb: str) -> None:
    section = _section(verb)

    assert f"[`{verb}`](#{verb})" in CLI
    for option in _options(verb):
        for name in option.opts:
            assert f"`{name}`" in section or f"`{name} " in section, f"{name} of {verb} is not documented"


@pytest.mark.parametrize("verb", VERBS)
def test_every_documented_option_exists(verb: str) -> None:
    table = [line for line in _section(verb).splitlines() if line.startswith("| `-")]
    documented = {name for line in table for name in re.findall(r"`(-[-\w]*)", line.split("|")[1])}

    assert documented == {
        name for option in _options(verb) for name in (*option.opts, *option.secondary_opts)
    }


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_the_whole_says_the_same_as_the_verb(verb: str) -> None:
    assert _command(verb).get_short_help_str(200) == VERBS[verb].summary


def test_run_has_few_enough_options() -> None:
    assert len(_options("run")) + 1 <= MOST_FLAGS  # and --help


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"rm", "completion", "operator", "tensorboard"}))
def test_every_verb_that_prints_data_prints_json(verb: str) -> None:
    assert any("--json" in option.opts for option in _options(verb))


@pytest.mark.parametrize("code", errors.codes())
def test_every_error_code_is_documented_with_its_status(code: str) -> None:
    status = errors.by_code(code).exit_status

    assert re.search(rf"^\| `{code}` \| {status} \|", ERRORS, re.MULTILINE)


@pytest.mark.parametrize(
    "type",
    [
        views.JobSummary,
        views.JobView,
        views.JobList,
        views.RoleView,
        views.ReplicaView,
        views.Diagnosis,
        views.FirstError,
        views.WarmView,
        views.LogRecord,
        views.CheckView,
        views.CheckedJob,
        views.ManifestList,
        views.ErrorView,
        machine_checks.MachineView,
        frameworks.Interpreter,
        views.Problem,
        cluster_health.ClusterView,
        ClusterFacts,
        TaintFact,
    ],
)
def test_every_field_of_json_is_documented(type: type[msgspec.Struct]) -> None:
    section = CLI.partition("## JSON")[2]

    missing = [
        field.encode_name for field in msgspec.structs.fields(type) if f"`{field.encode_name}`" not in section
    ]
    assert missing == []


def test_every_method_of_the_client_is_documented() -> None:
    shared = {"prepare", "prepare_script", "start", "checked", "watch"}
    methods = {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")}

    assert {name for name in methods - shared if f"| `{name}(" not in SDK} == set()


def test_every_option_that_says_where_is_documented_once_for_all_verbs() -> None:
    section = CLI.partition("## Where\n")[2].partition("\n## ")[0]

    assert all(f"| `{option} " in section for option in backend_options.OPTIONS)
    assert all(f"`{verb}`" in section for verb in backend_options.VERBS)
