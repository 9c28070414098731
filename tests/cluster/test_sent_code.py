"""The code of a script is the code that runs, over a real API server that somebody else uses too."""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bireme.backends.kubernetes.submit import code_maps, script_folder
from tests.cli.commands import Cli
from tests.cli.conftest import cli as cli
from tests.cluster.cutting_proxy import cutting
from tests.cluster.harness import ControlPlane, Json
from tests.cluster.operator_fixtures import CRDS
from tests.cluster.verbs import Verbs, verbs

RUN = ("run", "train.py", "--on", "kubernetes", "--image", "python:3", "--name", "one", "--detach")


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    for file in CRDS:
        control_plane.kubectl("apply", "-f", str(file))
    return control_plane


@pytest.fixture
def bireme(plane: ControlPlane, cli: Cli, tmp_path: Path) -> Iterator[Verbs]:
    with verbs(plane, cli, tmp_path) as one:
        yield one


def _code(bireme: Verbs) -> list[Json]:
    found: list[Json] = bireme.kubectl.object("configmaps", "-l", "bireme.io/code")["items"]
    return found


def _map_of(bireme: Verbs) -> Json:
    """The ConfigMap that the script in the folder will be sent in."""
    parcel = code_maps.packed(script_folder.of_script("train.py", bireme.cli.folder))
    (found,) = parcel.maps
    return found


def _mounted(bireme: Verbs) -> list[str]:
    spec = bireme.kubectl.object("pytorchjob/one")["spec"]["pytorchReplicaSpecs"]["Master"]["template"][
        "spec"
    ]
    (parts,) = [one for one in spec["volumes"] if one["name"] == "bireme-parts"]
    return [one["configMap"]["name"] for one in parts["projected"]["sources"]]


def test_what_is_ignored_or_a_key_is_not_in_the_map_and_is_said(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "print('hello')")
    bireme.cli.write(".env.local", "PASSWORD=secret")
    bireme.cli.write("private.txt", "private")
    bireme.cli.write(".biremeignore", "*.bin")
    (bireme.cli.folder / "x.bin").touch()
    (bireme.cli.folder.parent / ".git").mkdir()
    (bireme.cli.folder.parent / ".gitignore").write_text("private.txt\n")

    ended = bireme.done(*RUN)

    (code,) = _code(bireme)
    archive = io.BytesIO(base64.b64decode(code["binaryData"]["code.000"]))
    with tarfile.open(fileobj=archive) as packed:
        assert packed.getnames() == [".biremeignore", "train.py"]
    assert "ignore files leave out 2: private.txt, x.bin; `bireme check train.py` lists all" in ended.err
    assert "1 with the names of keys or credentials are never sent: .env.local" in ended.err


@pytest.mark.parametrize("immutable", [True, False])
def test_a_map_that_somebody_made_beforehand_under_our_name_is_not_used(
    bireme: Verbs, immutable: bool
) -> None:
    bireme.cli.write("train.py", "print('hello')")
    hostile = _map_of(bireme)
    if immutable:
        hostile["binaryData"]["unpack.py"] = base64.b64encode(b"print('owned')").decode()
    hostile["immutable"] = immutable
    bireme.kubectl.create(hostile)

    bireme.done(*RUN)

    (mounted,) = _mounted(bireme)
    assert mounted != hostile["metadata"]["name"]
    (used,) = [one for one in _code(bireme) if one["metadata"]["name"] == mounted]
    assert used["immutable"]
    assert used["binaryData"] == _map_of(bireme)["binaryData"]
    assert used["metadata"]["ownerReferences"][0]["name"] == "one"
    (left,) = [one for one in _code(bireme) if one["metadata"]["name"] != mounted]
    assert "ownerReferences" not in left["metadata"]


def test_a_map_that_goes_with_an_object_of_somebody_else_is_not_used(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "print('hello')")
    bireme.kubectl("create", "configmap", "theirs")
    owner = bireme.kubectl.object("configmap/theirs")["metadata"]
    foreign = _map_of(bireme)
    foreign["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": owner["uid"]}
    ]
    bireme.kubectl.create(foreign)

    bireme.done(*RUN)

    assert _mounted(bireme) != [foreign["metadata"]["name"]]


def test_a_job_that_is_refused_leaves_the_map_that_another_run_sent(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "print('hello')")
    theirs = _map_of(bireme)
    bireme.kubectl.create(theirs)
    bireme.kubectl("create", "quota", "none", "--hard=count/pytorchjobs.kubeflow.org=0")

    refused = bireme(*RUN)

    assert refused.status != 0
    assert [one["metadata"]["name"] for one in _code(bireme)] == [theirs["metadata"]["name"]]


@pytest.mark.parametrize("resource", ["pytorchjobs", "configmaps"])
def test_a_connection_that_breaks_after_a_create_costs_neither_job_nor_code(
    bireme: Verbs, resource: str
) -> None:
    bireme.cli.write("train.py", "print('hello')")

    def cuts(request: bytes) -> bool:
        line = request.partition(b"\r\n")[0]
        return line.startswith(b"POST ") and f"/{resource}".encode() in line and b"dryRun" not in line

    with cutting(bireme.kubeconfig, cuts) as cutter:
        ended = _through(bireme, cutter.server)(*RUN)

    assert cutter.cut == 1
    assert (ended.status, ended.out) == (0, "one\n"), ended.err
    (code,) = _code(bireme)
    assert _mounted(bireme) == [code["metadata"]["name"]]
    assert code["metadata"]["ownerReferences"][0]["name"] == "one"


def test_a_name_that_is_taken_is_still_refused_and_the_other_job_is_left_alone(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "print('hello')")
    bireme.done(*RUN)
    uid = bireme.kubectl.object("pytorchjob/one")["metadata"]["uid"]
    bireme.cli.write("train.py", "print('another')")

    refused = bireme(*RUN)

    assert (refused.status, "PyTorchJob one is in" in refused.err) == (2, True)
    assert bireme.kubectl.object("pytorchjob/one")["metadata"]["uid"] == uid
    assert len(_code(bireme)) == 1


def _through(bireme: Verbs, server: str) -> Verbs:
    """The same user by way of another address, which brings his certificate along."""
    tree = yaml.safe_load(bireme.kubeconfig.read_text())
    tree["clusters"][0]["cluster"] = {"server": server}
    tree["users"][0]["user"] = {"token": "none"}
    file = bireme.kubeconfig.with_name("through")
    file.write_text(yaml.safe_dump(tree))
    return replace(bireme, kubeconfig=file)
