"""A replica whose volumes cannot be mounted does not start without them, and says which."""

from __future__ import annotations

import pytest

from bireme.model.status import Phase
from bireme.runtime import linux
from tests.local.harness import Bireme

pytestmark = pytest.mark.skipif(
    not linux.mounts_work(), reason="private mounts are not allowed to this user here"
)

MANIFEST = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: mounting}}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: {policy}
      template:
        spec:
          containers:
          - name: pytorch
            image: none
            command: [python, {script}]
            volumeMounts:
            - {{name: data, mountPath: {target}}}
            - {{name: data, mountPath: /mnt/fine}}
          volumes:
          - {{name: data, emptyDir: {{}}}}
"""


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_volume_that_cannot_be_mounted_fails_the_job_with_a_sentence(bireme: Bireme, policy: str) -> None:
    script = bireme.write("look.py", "import os\nprint('started', os.listdir('/mnt/fine'))\n")
    (bireme.folder / "file").touch()
    target = bireme.folder / "file" / "data"
    bireme.write("job.yaml", MANIFEST.format(policy=policy, script=script, target=target))

    done = bireme("run", "-f", "job.yaml")

    assert done.returncode == 1, done.stderr
    assert "started" not in done.stdout
    assert f"cannot mount {target}" in done.stderr
    assert bireme.status("mounting").phase is Phase.FAILED
