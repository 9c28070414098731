"""A manifest made for an image runs here with flags alone: maps, volumes, commands, references."""

from __future__ import annotations

from pathlib import Path

from tests.local.harness import Bireme

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: deep}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: dl
        image: example/dl:latest
        command: [python, /opt/app/train.py]
        args: ["--where", "$(WHERE)"]
        env:
        - {name: WHERE, value: /mnt/data}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: TOKEN, valueFrom: {secretKeyRef: {name: keys, key: token}}}
        volumeMounts:
        - {mountPath: /mnt/data, name: dataset}
      volumes:
      - name: dataset
        persistentVolumeClaim: {claimName: data-pvc}
"""
SECRET = """
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {token: sesame}
"""
TRAIN = """
import os, pathlib, sys
root = pathlib.Path(sys.argv[2])
if not root.exists():
    root = pathlib.Path(os.environ["BIREME_VOLUME_DATASET"])
print(root.joinpath("set.txt").read_text(), os.environ["POD"], os.environ["TOKEN"])
"""


def test_maps_and_volumes_stand_where_the_image_had_them(bireme: Bireme) -> None:
    bireme.write("job.yaml", JOB + SECRET)
    bireme.write("src/train.py", TRAIN)
    bireme.write("data/set.txt", "twelve digits")

    done = bireme("run", "-f", "job.yaml", "--map", "/opt/app=./src", "--volume", "data-pvc=./data")

    assert done.returncode == 0, done.stderr
    assert "twelve digits deep-0 sesame" in done.stdout
    assert "example/dl:latest is not used here" in done.stderr


def test_each_refusal_names_its_flag_and_starts_nothing(bireme: Bireme) -> None:
    bireme.write("job.yaml", JOB)

    done = bireme("run", "-f", "job.yaml")

    assert done.returncode == 2
    assert "--map /opt/app=./folder" in done.stderr
    assert "--env TOKEN=VALUE" in done.stderr
    assert bireme("ps", "--all").stdout.count("\n") <= 1


INIT = """
apiVersion: batch/v1
kind: Job
metadata: {name: staged}
spec:
  template:
    spec:
      restartPolicy: OnFailure
      initContainers:
      - {name: fetch, image: x, command: [sh, -c, 'echo fetched > $SHARED/file'],
         env: [{name: SHARED, value: /shared}], volumeMounts: [{name: shared, mountPath: /shared}]}
      containers:
      - {name: main, image: x, command: [sh, -c, 'cat $SHARED/file; test -f 2nd || { touch 2nd; exit 3; }'],
         env: [{name: SHARED, value: /shared}], volumeMounts: [{name: shared, mountPath: /shared}]}
      - {name: beside, image: x, command: [sh, -c, 'echo beside']}
      volumes: [{name: shared, emptyDir: {}}]
"""


def test_init_containers_run_first_and_a_failed_container_is_restarted_in_place(bireme: Bireme) -> None:
    bireme.write("job.yaml", INIT)

    done = bireme("run", "-f", "job.yaml")

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fetched") == 2
    assert "beside" in done.stdout
    status = bireme.status("staged")
    assert (status.attempt, status.crashes) == (0, 1)


SIDECAR = """
apiVersion: batch/v1
kind: Job
metadata: {name: proxied}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 3600
      initContainers:
      - {name: proxy, image: x, restartPolicy: Always,
         command: [sh, -c, 'echo $$ > proxy.pid; exec sleep 3600']}
      containers:
      - {name: main, image: x, command: [sh, -c, 'until test -s proxy.pid; do sleep 0.1; done; echo done']}
"""


def test_a_sidecar_is_ended_after_the_program_and_its_job_is_at_rest(bireme: Bireme) -> None:
    bireme.write("job.yaml", SIDECAR)

    done = bireme("run", "-f", "job.yaml")

    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
    assert not Path(f"/proc/{(bireme.folder / 'proxy.pid').read_text().strip()}").exists()
