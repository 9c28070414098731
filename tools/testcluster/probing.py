"""Does the cluster answer: a few questions to its API server, with nothing but the standard library."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any  # the answers are JSON of any shape

from tools.testcluster.places import ClusterError
from tools.testcluster.processes import until


class Probe:
    """Asks the API server that a kubeconfig names."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        self._host = config["clusters"][0]["cluster"]["server"].removeprefix("https://")
        self._ssl = _context(config)

    def ask(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        """Return the status and the answer; 0 where nobody answers."""
        connection = http.client.HTTPSConnection(self._host, context=self._ssl, timeout=10)
        try:
            connection.request(
                method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind}
            )
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()
        return answer.status, json.loads(text) if text.startswith(b"{") else text.decode()

    def ready(self) -> bool:
        """Tell whether the server is ready and has the namespace that everyone uses."""
        return (
            self.ask("GET", "/readyz")[0] == 200 and self.ask("GET", "/api/v1/namespaces/default")[0] == 200
        )

    def has_service_account(self) -> bool:
        """Tell whether pods can be made: each needs the service account of its namespace."""
        return self.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200

    def nodes_ready(self) -> set[str]:
        """Name the nodes that are Ready."""
        status, answer = self.ask("GET", "/api/v1/nodes")
        return (
            {one["metadata"]["name"] for one in answer["items"] if _is_ready(one)} if status == 200 else set()
        )

    def apply(self, path: str, body: dict[str, Any]) -> None:
        """Make an object what it should be, whether or not it is there; the server may still be starting."""
        target = f"{path}/{body['metadata']['name']}?fieldManager=testcluster&force=true"

        def applied() -> bool:
            return self.ask("PATCH", target, body, "application/apply-patch+yaml")[0] in (200, 201)

        if not until(applied, 20.0, pause=0.2):
            told = self.ask("PATCH", target, body, "application/apply-patch+yaml")[1]
            raise ClusterError(f"the API server did not take {target}: {told}")


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _context(config: dict[str, Any]) -> ssl.SSLContext:
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    # The ssl module takes a client's certificate from a file only.
    with tempfile.NamedTemporaryFile() as file:
        for part in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[part]))
        file.flush()
        context.load_cert_chain(file.name)
    return context
