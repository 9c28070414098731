"""Who trusts whom: one authority for each cluster, and a certificate for each of its programs and people."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.testcluster.places import ClusterError, Missing

DAYS = "3650"
# Without a file of its own, openssl obeys the machine's openssl.cnf, which makes every leaf an authority.
CONFIG = "[req]\ndistinguished_name = empty\nprompt = no\n[empty]\n"


class Authority:
    """Makes the certificates of one cluster, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        self._config = folder / "openssl.cnf"
        self._config.write_text(CONFIG)
        self._request(
            "ca",
            "/CN=testcluster",
            ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"],
        )

    def client(self, file: str, name: str, group: str = "") -> None:
        """Make a certificate that says who its holder is."""
        self._leaf(file, name, group, ["extendedKeyUsage=clientAuth"])

    def server(self, file: str, name: str, addresses: Sequence[str], group: str = "") -> None:
        """Make a certificate for what answers at these names and addresses."""
        names = ",".join(f"IP:{one}" if one.replace(".", "").isdigit() else f"DNS:{one}" for one in addresses)
        self._leaf(file, name, group, ["extendedKeyUsage=serverAuth,clientAuth", f"subjectAltName={names}"])

    def key(self, file: str) -> None:
        """Make a bare key, as service account tokens are signed with."""
        # The API server reads a public key out of this form of a private one, but not out of PKCS 8.
        _openssl(
            "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(self.folder / f"{file}.key")
        )

    def _leaf(self, file: str, name: str, group: str, extensions: list[str]) -> None:
        subject = (f"/O={group}" if group else "") + f"/CN={name}"
        signer = ["-CA", str(self.folder / "ca.crt"), "-CAkey", str(self.folder / "ca.key")]
        self._request(file, subject, ["basicConstraints=critical,CA:FALSE", *extensions], signer)

    def _request(self, file: str, subject: str, extensions: list[str], signer: Sequence[str] = ()) -> None:
        key = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-noenc",
            "-keyout",
            str(self.folder / f"{file}.key"),
        ]
        added = [word for one in extensions for word in ("-addext", one)]
        _openssl(
            "req", "-x509", "-config", str(self._config), *key, *signer, "-days", DAYS,
            "-subj", subject, *added, "-out", str(self.folder / f"{file}.crt"),
        )  # fmt: skip


def write_kubeconfig(path: Path, server: str, certificates: Path, holder: str, name: str) -> None:
    """Write how one holder of a certificate reaches the API server."""
    # The content, not the path: the file can then be carried into a pod.
    user = {
        "client-certificate-data": _encoded(certificates / f"{holder}.crt"),
        "client-key-data": _encoded(certificates / f"{holder}.key"),
    }
    cluster = {"server": server, "certificate-authority-data": _encoded(certificates / "ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": f"{name}-{holder}", "user": user}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": f"{name}-{holder}", "namespace": "default"}}
        ],
        "current-context": name,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # JSON is YAML; nothing but the standard library is needed to write it.
    path.write_text(json.dumps(config, indent=2) + "\n")
    path.chmod(0o600)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _openssl(*words: str) -> None:
    try:
        answer = subprocess.run(["openssl", *words], capture_output=True, text=True)
    except FileNotFoundError:
        raise Missing("openssl is not installed: sudo apt-get install openssl") from None
    if answer.returncode != 0:
        raise ClusterError(f"openssl {words[0]} failed: {answer.stderr.strip()}")
