"""Where jobs were started is remembered, and harmless when it is lost."""

from __future__ import annotations

from pathlib import Path

from bireme.sdk.cluster.clusters import FILE, Book, Known

DEV = Known("dev", "team")
PROD = Known("prod", "team", "/absent/kubeconfig")


def test_the_place_that_was_used_last_comes_first(tmp_path: Path) -> None:
    book = Book(tmp_path)

    book.note(DEV, "a")
    book.note(PROD, "b")
    book.note(DEV, "c")

    assert [(one.where, one.names) for one in Book(tmp_path).read()] == [
        ("dev/team", ("c", "a")),
        ("prod/team", ("b",)),
    ]


def test_a_job_that_is_gone_is_forgotten_and_a_cluster_too(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.note(DEV, "a")
    book.note(PROD, "b")

    book.forget(DEV, "a")
    book.drop(PROD)

    assert book.read() == (DEV,)


def test_what_cannot_be_read_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("not JSON")

    assert Book(tmp_path).read() == ()
    Book(tmp_path).note(DEV, "a")
    assert len(Book(tmp_path).read()) == 1


def test_a_cluster_whose_kubeconfig_is_gone_is_lost(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").touch()

    assert PROD.is_lost
    assert not DEV.is_lost
    assert not Known("dev", "team", f"/absent:{tmp_path / 'kubeconfig'}").is_lost
