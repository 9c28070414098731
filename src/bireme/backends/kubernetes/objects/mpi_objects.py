"""Builds what an MPIJob needs beside its pods: files, the right to start commands in workers, keys."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from random import Random

from msgspec import Struct

from bireme import kinds
from bireme.backends.kubernetes.objects import job_objects, mpi_pods
from bireme.backends.kubernetes.objects.api_types import Object
from bireme.kinds.contract import RemoteStart
from bireme.model.decisions import SharedFile
from bireme.model.job import Job
from bireme.runtime.mpi import kubexec

RBAC = "rbac.authorization.k8s.io/v1"
ENTROPY = 74
"""Bytes of randomness that a key is made from: 64 bits more than its size, so that no key is likelier."""
_ORDER = int(
    "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa"
    "51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
    16,
)
"""Of the curve P-521 (FIPS 186-4): a private key is a number from 1 to below it."""


def supports(
    job: Job,
    files: Iterable[SharedFile],
    chance: Random,
    workers: Iterable[str] = (),
    account: str = "",
) -> list[Object]:
    """The objects that must be there before the pods, in this order; none for the other kinds.

    `workers` are the pods of the job's own in which its launcher may start commands. `account` is the
    ServiceAccount that the launcher's template names (`mpi_pods.named_account`): it is the user's, so it is
    given the rights but never made. Keys are drawn from `chance`: a Secret that exists stays as it is.
    """
    remote = kinds.of(job).remote_start(job)
    if remote is None:
        return []
    if not remote.agent:
        return [ssh_secret(job, _keys(job.uid, job.name, chance)), _config(job, remote, files)]
    name = mpi_pods.launcher_name(job)
    own = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(job, name)}
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": _metadata(job, name),
        "subjects": [{"kind": "ServiceAccount", "name": account or name, "namespace": job.namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
    }
    needed = [launcher_role(job, workers), binding, _config(job, remote, files)]
    return needed if account else [own, *needed]


def grants(job: Job) -> bool:
    """Whether the job's launcher is given rights of its own."""
    remote = kinds.of(job).remote_start(job)
    return remote is not None and bool(remote.agent)


def launcher_role(job: Job, workers: Iterable[str]) -> Object:
    """The rights of a launcher: to look at the workers that there are, and to start commands in them.

    A right goes by the name of a pod, and a name can be taken by another pod. So only workers that exist
    and are the job's own are named, and one that goes is taken out.
    """
    names = sorted(workers)
    rules: list[Object] = []
    if names:  # An empty list of names would mean all.
        core: Object = {"apiGroups": [""], "resourceNames": names}
        # A WebSocket begins with a GET: servers before 1.35 ask for the right to get, later ones to create.
        rules = [
            {**core, "resources": ["pods"], "verbs": ["get"]},
            {**core, "resources": ["pods/exec"], "verbs": ["create", "get"]},
        ]
    return {
        "apiVersion": RBAC,
        "kind": "Role",
        "metadata": _metadata(job, mpi_pods.launcher_name(job)),
        "rules": rules,
    }


def ssh_secret(job: Job, pair: KeyPair) -> Object:
    """The Secret with the keys of a job."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(job, mpi_pods.secret_name(job)),
        "type": "kubernetes.io/ssh-auth",
        "stringData": {"ssh-privatekey": pair.private, "ssh-publickey": pair.public},
    }


def agent_script(container: str) -> str:
    """The text of `/etc/mpi/kubexec.sh`, which mpirun and horovodrun call in place of ssh."""
    return f"""\
#!/bin/sh
# Starts a command in a worker: kubexec.sh [ssh options] WORKER COMMAND...
if ! command -v python3 >/dev/null 2>&1; then
  echo "bireme: the launcher's image has no python3, which starts the ranks in the workers;" \\
    "add it to the image (3.9 or later), or use one with ssh and an MPIJob of kubeflow.org/v2beta1" >&2
  exit 127
fi
exec python3 -S -E {mpi_pods.FOLDER}/{mpi_pods.PROGRAMS[0]} {container} "$@"
"""


# A process makes the keys of a job once, however often it looks whether they are there.
@functools.lru_cache(maxsize=1024)
def _keys(uid: str, name: str, chance: Random) -> KeyPair:
    return key_pair(chance.randbytes(ENTROPY), name)


def _config(job: Job, remote: RemoteStart, files: Iterable[SharedFile]) -> Object:
    data = {_name(file.path): file.text for file in files}
    if remote.agent:
        worker = job.role(remote.workers)
        # Without workers no process calls it.
        container = worker.main if worker is not None else job.roles[0].main
        data[_name(remote.agent)] = agent_script(container)
        data |= _programs()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(job, mpi_pods.config_name(job)),
        "data": data,
    }


@functools.cache
def _programs() -> dict[str, str]:
    folder = Path(kubexec.__file__).parent
    return {name: (folder / name).read_text(encoding="utf-8") for name in mpi_pods.PROGRAMS}


def _metadata(job: Job, name: str) -> Object:
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": {"app": job.name},
        "ownerReferences": [job_objects.owner(job)],
    }


def _name(path: str) -> str:
    return path.rpartition("/")[2]


class KeyPair(Struct, frozen=True):
    """A key, and what a server is told of it; the first never shows itself."""

    private: str
    public: str

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public!r})"


def key_pair(entropy: bytes, comment: str) -> KeyPair:
    """The key pair that follows from `ENTROPY` random bytes."""
    # Here, because only an operator needs it, for one version of one kind.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if len(entropy) < ENTROPY:
        raise ValueError(f"a key needs {ENTROPY} random bytes, not {len(entropy)}")
    key = ec.derive_private_key(int.from_bytes(entropy, "big") % (_ORDER - 1) + 1, ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), f"{public.decode()} {comment}\n")
