"""Everything that a manifest lacks on this machine is asked for at once, before anything starts."""

from __future__ import annotations

import json
import shlex

from tests.local.harness import Bireme
from tests.unit.manifest import samples

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
        resources: {limits: {nvidia.com/gpu: 1000}}
        env:
        - {name: TOKEN, valueFrom: {secretKeyRef: {name: keys, key: token}}}
        envFrom: [{configMapRef: {name: settings}}]
        volumeMounts:
        - {mountPath: /mnt/data, name: dataset}
      volumes:
      - name: dataset
        persistentVolumeClaim: {claimName: data-pvc}
"""
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {A: b}\n"


def _refused(bireme: Bireme, *words: str) -> str:
    done = bireme("run", *words)
    assert done.returncode == 2, done.stderr
    assert not (bireme.home / "runs").exists()
    return done.stderr


def test_the_missing_script_of_an_mpi_launcher_is_asked_for_before_anything_starts(bireme: Bireme) -> None:
    bireme.write("mpijob.yaml", samples.MPIJOB_OF_2020)

    told = _refused(bireme, "-f", "mpijob.yaml", "--fit")

    assert "there is no script /examples/tensorflow_mnist.py" in told
    assert "bireme run -f mpijob.yaml --fit --map /examples=./folder" in told


def test_everything_is_asked_for_at_once_with_one_command_that_supplies_it(bireme: Bireme) -> None:
    bireme.write("job.yaml", JOB)
    bireme.write("src/train.py", "import os; print('trained', os.environ['TOKEN'], os.environ['A'])")
    bireme.write("data-pvc/set.txt", "")
    bireme.write("settings.yaml", SETTINGS)

    told = _refused(bireme, "-f", "job.yaml")

    command = told.splitlines()[-1].partition(": ")[2]
    assert command == (
        "bireme run -f job.yaml --volume data-pvc=./data-pvc --env TOKEN=VALUE -f settings.yaml "
        "--map /opt/app=./src --fit"
    )
    done = bireme(*shlex.split(command)[1:])
    assert done.returncode == 0, done.stderr
    assert "trained VALUE b" in done.stdout


def test_check_says_what_run_would(bireme: Bireme) -> None:
    bireme.write("job.yaml", JOB)

    told = _refused(bireme, "-f", "job.yaml").removeprefix("bireme: ").splitlines()
    checked, data = bireme("check", "-f", "job.yaml"), bireme("check", "-f", "job.yaml", "--json")

    assert checked.returncode == 0
    assert [line.strip() for line in checked.stdout.splitlines()[2:] if "note:" not in line] == told
    (job,) = json.loads(data.stdout)["jobs"]
    assert job["flags"][job["flags"].index("--map") :][:2] == ["--map", "/opt/app=./folder"]
    assert "--fit" in job["flags"]


def test_several_jobs_are_asked_for_at_once_too(bireme: Bireme) -> None:
    other = JOB.replace("name: deep", "name: other").replace("/opt/app", "/srv/code")
    bireme.write("jobs.yaml", f"{JOB}---{other}")

    told = _refused(bireme, "-f", "jobs.yaml")

    assert "--map /opt/app=./folder" in told.splitlines()[-1]
    assert "--map /srv/code=./folder" in told.splitlines()[-1]
    assert told.splitlines()[-1].count("--fit") == 1


def test_a_script_in_a_claim_is_looked_for_in_its_folder(bireme: Bireme) -> None:
    text = JOB.replace("/opt/app/train.py", "/mnt/data/train.py").replace("        envFrom", "        #")
    bireme.write("job.yaml", text)
    bireme.write("data/train.py", "print('from the claim')")
    words = ("-f", "job.yaml", "--fit", "--env", "TOKEN=secret-word")

    told = _refused(bireme, *words)
    done = bireme("run", *words, "--volume", "data-pvc=./data")

    assert "there is no script /mnt/data/train.py" in told
    assert told.splitlines()[-1].endswith("--volume data-pvc=./data")
    assert "secret-word" not in told
    assert "from the claim" in done.stdout, done.stderr


def test_what_an_init_container_may_put_there_is_not_asked_for(bireme: Bireme) -> None:
    init = "- {name: fetch, image: x, command: [sh, -c, 'echo \"print(1+1)\" > $AT/train.py']," + (
        " env: [{name: AT, value: /mnt/data}], volumeMounts: [{mountPath: /mnt/data, name: dataset}]}"
    )
    text = JOB.replace("/opt/app/train.py", "/mnt/data/train.py").replace("        envFrom", "        #")
    bireme.write(
        "job.yaml",
        text.replace("      containers:", f"      initContainers:\n      {init}\n      containers:"),
    )

    done = bireme("run", "-f", "job.yaml", "--fit", "--env", "TOKEN=x")

    assert done.returncode == 0, done.stderr
    assert "2" in done.stdout


def test_a_claim_that_becomes_an_empty_folder_is_said_with_what_supplies_it(bireme: Bireme) -> None:
    text = JOB.replace("/opt/app/train.py", "train.py").replace("        envFrom", "        #")
    bireme.write("job.yaml", text)
    bireme.write("train.py", "import os; open(os.environ['BIREME_VOLUME_DATASET'] + '/x', 'w')")
    bireme.write("data/set.txt", "")
    words = ("-f", "job.yaml", "--fit", "--env", "TOKEN=x")

    full = bireme("run", *words[:2], *words[3:])
    first, second = bireme("run", *words), bireme("run", *words)

    assert full.returncode == 3
    assert "nothing supplies claim data-pvc, which is empty (--volume data-pvc=./data)" in full.stderr
    assert full.stderr.splitlines()[-1].endswith("--volume data-pvc=./data --fit")
    folder = bireme.home / "claims" / "data-pvc"
    note = f"note: nothing supplies claim data-pvc: it is the empty folder {folder}; "
    assert f"{note}supply it with --volume data-pvc=./data" in first.stderr
    assert (second.returncode, "data-pvc" in second.stderr) == (0, False)
