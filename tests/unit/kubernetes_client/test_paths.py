"""Are paths written and read back rightly?"""

from __future__ import annotations

import pytest

from bireme.backends.kubernetes.client.paths import Target, path, target


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (("v1", "pods"), "/api/v1/pods"),
        (("v1", "pods", "ns"), "/api/v1/namespaces/ns/pods"),
        (("v1", "pods", "ns", "x", "status"), "/api/v1/namespaces/ns/pods/x/status"),
        (("v1", "nodes", "", "n"), "/api/v1/nodes/n"),
        (("v1", "namespaces", "", "ns"), "/api/v1/namespaces/ns"),
        (("kubeflow.org/v1", "tfjobs", "ns", "x"), "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/x"),
        (("v1", "pods", "ns", "a/../b"), "/api/v1/namespaces/ns/pods/a%2F..%2Fb"),
    ],
)
def test_paths_are_those_of_the_api(given: tuple[str, ...], written: str) -> None:
    assert path(*given) == written


@pytest.mark.parametrize(
    ("written", "about"),
    [
        ("/api/v1/namespaces/ns/pods", Target("pods", "v1", "ns")),
        ("/api/v1/namespaces/ns/pods/x/status", Target("pods/status", "v1", "ns", "x")),
        ("/api/v1/namespaces/ns", Target("namespaces", "v1", "", "ns")),
        ("/api/v1/namespaces/ns/finalize", Target("namespaces/finalize", "v1", "", "ns")),
        ("/api/v1/namespaces", Target("namespaces", "v1")),
        ("/api/v1/nodes/n", Target("nodes", "v1", "", "n")),
        ("/apis/kubeflow.org/v1/tfjobs", Target("tfjobs", "kubeflow.org/v1")),
        ("/apis/kubeflow.org/v1/namespaces/ns/tfjobs/x", Target("tfjobs", "kubeflow.org/v1", "ns", "x")),
        ("/version", Target("version")),
        ("/apis", Target("apis")),
    ],
)
def test_a_path_says_what_it_is_about(written: str, about: Target) -> None:
    assert target(written) == about


def test_a_kind_is_named_with_its_group() -> None:
    assert target("/apis/kubeflow.org/v1/tfjobs").kind == "tfjobs.kubeflow.org"
    assert target("/api/v1/pods").kind == "pods"
