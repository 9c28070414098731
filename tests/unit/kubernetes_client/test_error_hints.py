"""Does each refusal say whose turn it is, and what to type next?"""

from __future__ import annotations

from typing import Any

import pytest

from bireme.backends.kubernetes.client.api_errors import UNREACHABLE, UNTRUSTED, ApiError, RequestOrigin
from bireme.backends.kubernetes.client.error_hints import explained
from bireme.errors import BadInput, BadManifest, BiremeError, NoAccess, NoRoom, OurBug, Unreachable

JOBS = "/apis/kubeflow.org/v1/namespaces/team/tfjobs"


def error(
    status: int, reason: str, message: str = "", details: dict[str, Any] | None = None, path: str = JOBS
) -> BiremeError:
    source = RequestOrigin("https://api:6443", "work", "jane", "POST", path)
    return explained(ApiError(status, reason, message, details, source=source))


def test_credentials_that_are_not_accepted_name_the_user_and_the_server() -> None:
    found = error(401, "Unauthorized")

    assert isinstance(found, NoAccess)
    assert (
        found.what
        == "the API server https://api:6443 (context work) does not accept the credentials of user jane"
    )
    assert "--context work" in found.hint


def test_a_missing_permission_names_who_which_verb_and_where() -> None:
    message = 'tfjobs is forbidden: User "jane" cannot create resource "tfjobs" in API group "kubeflow.org"'

    found = error(403, "Forbidden", message)

    assert isinstance(found, NoAccess)
    assert found.what.startswith("user jane may not create tfjobs.kubeflow.org in namespace team")
    assert found.hint.endswith("kubectl auth can-i create tfjobs.kubeflow.org -n team")


def test_a_quota_is_a_matter_of_room() -> None:
    found = error(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q, requested: cpu=1, used: cpu=4')

    assert isinstance(found, NoRoom)
    assert "exceeded quota" in found.what


def test_a_namespace_that_is_being_deleted_is_named() -> None:
    said = 'configmaps "x" is forbidden: unable to create new content in namespace team because it is being '

    found = error(403, "Forbidden", f"{said}terminated")

    assert isinstance(found, BadInput)
    assert found.what.startswith("namespace team is being deleted")
    assert "--namespace" in found.hint


def test_a_refusal_of_an_admission_rule_is_quoted() -> None:
    found = error(403, "Forbidden", "violates PodSecurity")

    assert isinstance(found, NoAccess)
    assert "refused to create tfjobs.kubeflow.org: violates PodSecurity" in found.what


def test_a_kind_that_is_not_installed_names_the_command_that_installs_it() -> None:
    found = error(404, "NotFound", "the server could not find the requested resource")

    assert isinstance(found, BadInput)
    assert found.what == "the API server https://api:6443 (context work) does not know tfjobs.kubeflow.org/v1"
    assert found.hint == "bireme install"


def test_another_kind_that_is_missing_is_not_ours_to_install() -> None:
    assert error(404, "NotFound", path="/apis/x.io/v1/things").hint == "kubectl api-resources --context work"


def test_a_namespace_that_is_missing_can_be_created_or_chosen() -> None:
    found = error(404, "NotFound", 'namespaces "tema" not found', {"name": "tema", "kind": "namespaces"})

    assert found.what.startswith("there is no namespace tema at the API server")
    assert "kubectl create namespace tema" in found.hint
    assert "--namespace" in found.hint


def test_an_object_that_is_missing_is_named() -> None:
    found = error(404, "NotFound", 'tfjobs "a" not found', {"name": "a"}, f"{JOBS}/a")

    assert isinstance(found, BadInput)
    assert found.what.startswith('tfjobs "a" not found')


def test_each_cause_of_an_invalid_object_is_a_line() -> None:
    causes = [{"field": "spec.a", "message": "wrong"}, {"field": "spec.b", "message": "missing"}]

    found = error(422, "Invalid", "two things", {"causes": causes})

    assert isinstance(found, BadManifest)
    assert found.what == "spec.a: wrong\nspec.b: missing"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_in_trouble_is_unreachable(status: int) -> None:
    assert isinstance(error(status, "x", "busy"), Unreachable)


def test_no_answer_names_the_server_and_the_context() -> None:
    found = error(0, UNREACHABLE, "connection refused")

    assert isinstance(found, Unreachable)
    assert found.what == "the API server https://api:6443 (context work) does not answer: connection refused"


def test_a_certificate_that_is_not_trusted_names_what_to_correct() -> None:
    assert "certificate-authority" in error(0, UNTRUSTED, "self-signed").hint


def test_a_name_that_is_taken_is_bad_input_and_a_conflict_is_tried_again() -> None:
    assert isinstance(error(409, "AlreadyExists", "it exists"), BadInput)
    assert error(409, "Conflict", "changed").hint == "try again"


def test_our_own_errors_stay_as_they_are_and_strange_ones_are_our_bug() -> None:
    ours = NoRoom("full")

    assert explained(ours) is ours
    assert isinstance(explained(KeyError("x")), OurBug)
