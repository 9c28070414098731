"""Beside the pods of an MPIJob: files, rights and keys, as narrow as they can be."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from bireme.backends.kubernetes.objects import job_objects, mpi_objects, mpi_pods
from bireme.kinds import mpi as kind
from bireme.model.replicas import Addresses
from tests.unit.kubernetes.making import V1, V1ALPHA2, V2BETA1, Made, Object, container, made, mpi, template

AGENT = {"bireme.io/mpi-agent": "exec"}
ENTROPY = bytes(range(mpi_objects.ENTROPY))


def objects(
    of: Made, ready: frozenset[str] = frozenset(), workers: tuple[str, ...] = (), account: str = ""
) -> dict[str, Object]:
    files = kind.KIND.files(of.job, ready, Addresses())
    return {one["kind"]: one for one in mpi_objects.supports(of.job, files, Random(1), workers, account)}


@pytest.mark.parametrize("version", [V1, V1ALPHA2])
def test_the_agent_needs_files_and_rights(version: str) -> None:
    found = objects(mpi(version))

    assert list(found) == ["ServiceAccount", "Role", "RoleBinding", "ConfigMap"]
    assert [one["metadata"]["name"] for one in found.values()] == [
        "mnist-launcher",
        "mnist-launcher",
        "mnist-launcher",
        "mnist-config",
    ]


def test_ssh_needs_files_and_keys() -> None:
    found = objects(mpi(V2BETA1))

    assert list(found) == ["Secret", "ConfigMap"]
    assert sorted(found["ConfigMap"]["data"]) == ["discover_hosts.sh", "hostfile"]
    assert found["Secret"] == objects(mpi(V2BETA1))["Secret"]


def test_v2beta1_may_choose_the_agent() -> None:
    chosen = mpi(V2BETA1, annotations=AGENT)

    assert list(objects(chosen)) == list(objects(mpi(V1)))


def test_every_object_goes_with_its_job() -> None:
    for job in (mpi(V1), mpi(V2BETA1)):
        for one in objects(job).values():
            assert one["metadata"]["namespace"] == "ml"
            assert one["metadata"]["labels"] == {"app": "mnist"}
            assert one["metadata"]["ownerReferences"] == [job_objects.owner(job.job)]


def test_other_kinds_need_nothing() -> None:
    job = made("PyTorchJob", {"Worker": (1, template())}).job

    assert mpi_objects.supports(job, (), Random(1)) == []


def test_the_launcher_may_start_commands_in_its_workers_alone() -> None:
    rules = objects(mpi(V1), workers=("mnist-worker-1", "mnist-worker-0"))["Role"]["rules"]

    there = {"apiGroups": [""], "resourceNames": ["mnist-worker-0", "mnist-worker-1"]}
    assert rules == [
        {**there, "resources": ["pods"], "verbs": ["get"]},
        {**there, "resources": ["pods/exec"], "verbs": ["create", "get"]},
    ]


def test_before_there_are_workers_it_may_do_nothing() -> None:
    assert objects(mpi(V1))["Role"]["rules"] == []


def test_a_service_account_of_the_user_s_choice_gets_the_rights() -> None:
    launcher = template(serviceAccountName="trainer")
    job = mpi(V1, launcher=launcher)

    found = objects(job, account=mpi_pods.named_account(launcher))

    assert "ServiceAccount" not in found
    assert found["RoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "trainer", "namespace": "ml"}
    ]
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"] == "mnist-launcher"


def test_files_hold_what_was_decided() -> None:
    data = objects(mpi(V1), ready=frozenset({"mnist-worker-1"}))["ConfigMap"]["data"]

    assert data["hostfile"] == "mnist-worker-0 slots=1\nmnist-worker-1 slots=1\n"
    assert data["discover_hosts.sh"] == "#!/bin/sh\necho mnist-worker-1:1\n"


@pytest.mark.parametrize("of", [mpi(V1), mpi(V1ALPHA2), mpi(V2BETA1), mpi(V2BETA1, annotations=AGENT)])
@pytest.mark.parametrize("role", ["launcher", "worker"])
def test_every_file_that_a_pod_mounts_is_there(of: Made, role: str) -> None:
    data = objects(of)["ConfigMap"]["data"]
    secret = objects(of)["Secret"]["stringData"] if "Secret" in objects(of) else {}

    for volume in of.pod(role)["spec"].get("volumes", []):
        source = volume.get("configMap") or volume["secret"]
        assert {one["key"] for one in source["items"]} <= (data if "configMap" in volume else secret).keys()


# The script that mpirun calls.


def test_the_script_names_the_container_of_the_ranks() -> None:
    job = mpi(V1, worker=template(container("sidecar"), container("ranks")), mainContainer="ranks")

    script = objects(job)["ConfigMap"]["data"]["kubexec.sh"]

    assert script.startswith("#!/bin/sh\n")
    assert 'exec python3 -S -E /etc/mpi/kubexec.py ranks "$@"' in script


def test_an_image_without_python_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "kubexec.sh"
    script.write_text(mpi_objects.agent_script("main"))

    done = subprocess.run(
        ["/bin/sh", script, "worker", "true"], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )

    assert done.returncode == 127
    assert "the launcher's image has no python3" in done.stderr


def test_its_program_runs_by_itself(tmp_path: Path) -> None:
    data = objects(mpi(V1))["ConfigMap"]["data"]
    for name in mpi_pods.PROGRAMS:
        (tmp_path / name).write_text(data[name])

    done = subprocess.run(
        [sys.executable, "-S", "-E", tmp_path / "kubexec.py", "main"], capture_output=True, text=True
    )

    assert done.returncode == 255
    assert done.stderr == "bireme: no host is named; usage: kubexec.sh [options] HOST COMMAND...\n"


# Keys.


def test_the_secret_holds_both_halves() -> None:
    secret = mpi_objects.ssh_secret(mpi(V2BETA1).job, mpi_objects.key_pair(ENTROPY, "mnist"))

    assert secret["metadata"]["name"] == "mnist-ssh"
    assert secret["type"] == "kubernetes.io/ssh-auth"
    assert secret["stringData"]["ssh-privatekey"].startswith("-----BEGIN EC PRIVATE KEY-----\n")
    assert secret["stringData"]["ssh-publickey"].startswith("ecdsa-sha2-nistp521 ")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
@pytest.mark.parametrize(
    "entropy", [ENTROPY, b"\xff" * mpi_objects.ENTROPY, os.urandom(74)], ids=["constant", "largest", "random"]
)
def test_openssh_finds_the_public_half_in_the_private_one(entropy: bytes, tmp_path: Path) -> None:
    pair = mpi_objects.key_pair(entropy, "mnist")
    private = tmp_path / "id_rsa"
    private.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
    private.write_text(pair.private)

    derived = subprocess.run(["ssh-keygen", "-y", "-f", private], capture_output=True, text=True, check=True)

    assert derived.stdout.split()[:2] == pair.public.split()[:2]


def test_other_randomness_is_another_key() -> None:
    assert mpi_objects.key_pair(ENTROPY, "a") == mpi_objects.key_pair(ENTROPY, "a")
    assert mpi_objects.key_pair(ENTROPY, "a").private != mpi_objects.key_pair(ENTROPY[::-1], "a").private


def test_too_little_randomness_is_refused() -> None:
    with pytest.raises(ValueError, match="74 random bytes"):
        mpi_objects.key_pair(b"short", "a")


def test_a_key_does_not_show_itself() -> None:
    pair = mpi_objects.key_pair(ENTROPY, "a")

    assert pair.private.splitlines()[1] not in repr(pair)
