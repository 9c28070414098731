"""Where a verb acts is said anywhere before the script's own options."""

from __future__ import annotations

import pytest

from bireme.cli.backend_options import Chosen, hoisted
from tests.cli.commands import Cli


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["ps", "--on", "kubernetes"], ["--on", "kubernetes", "ps"]),
        (["run", "a.py", "--on=local", "--workers", "2"], ["--on=local", "run", "a.py", "--workers", "2"]),
        (["run", "a.py", "--", "--on", "x"], ["run", "a.py", "--", "--on", "x"]),
        (["install", "--context", "x"], ["install", "--context", "x"]),
        (["--context", "x", "logs", "a"], ["--context", "x", "logs", "a"]),
        (["ps", "--on"], ["--on", "ps"]),
        ([], []),
    ],
)
def test_options_are_moved_before_the_verb_that_they_are_for(words: list[str], read: list[str]) -> None:
    assert hoisted(words) == read


def test_what_was_chosen_can_be_written_down() -> None:
    assert Chosen("kubernetes", namespace="team").words == ["--on", "kubernetes", "--namespace", "team"]


def test_a_place_that_is_none_is_refused(cli: Cli) -> None:
    done = cli("ps", "--on", "mars")

    assert (done.status, done.err) == (2, "bireme: --on 'mars' is no backend\nit is local or kubernetes\n")
    assert cli("ps", BIREME_ON="mars").status == 2


def test_a_namespace_is_of_a_cluster(cli: Cli) -> None:
    cli.write("hello.py", "print('hello')")

    done = cli("run", "hello.py", "--namespace", "team")

    assert done.status == 2
    assert "add --on kubernetes; options of a script come after --" in done.err
    assert cli("ps", "--on", "local", "--context", "x").status == 2


def test_an_image_is_of_a_cluster(cli: Cli) -> None:
    cli.write("hello.py", "print('hello')")

    done = cli("run", "hello.py", "--image", "python:3")

    assert (done.status, "leave --image out, or add --on kubernetes" in done.err) == (2, True)


def test_without_a_cluster_there_is_a_sentence(cli: Cli) -> None:
    done = cli("ps", "--on", "kubernetes", KUBECONFIG=str(cli.home / "absent"))

    assert done.status == 4
    assert "no cluster is configured" in done.err


def test_options_for_a_cluster_do_not_get_lost_before_other_verbs(cli: Cli) -> None:
    assert cli("--context", "x", "render", "-f", "a.yaml").status == 2


def test_a_misplaced_option_of_a_script_keeps_where_it_is_to_run(cli: Cli) -> None:
    done = cli("run", "train.py", "--lr", "1", "--on", "kubernetes")

    assert "write: bireme run --on kubernetes train.py -- --lr 1" in done.err


def test_a_missing_extra_is_named(cli: Cli) -> None:
    absent = cli.folder / "absent"
    absent.mkdir()
    (absent / "aiohttp.py").write_text("raise ModuleNotFoundError('there is no aiohttp', name='aiohttp')")
    (cli.folder / "kubeconfig").write_text("{}")

    done = cli("ps", "--on", "kubernetes", PYTHONPATH=str(absent), KUBECONFIG=str(cli.folder / "kubeconfig"))

    assert done.status == 2
    assert "pip install 'bireme[kubernetes]'" in done.err
