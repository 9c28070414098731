"""Manifests that several tests read: those people really write, and a small one of every kind."""

from __future__ import annotations

import pytest

from bireme.errors import BadManifest
from bireme.manifest.read import Reading, read
from bireme.manifest.text.source import read_text
from bireme.model.job import Job, Role
from bireme.model.pods import Container

TFJOB_OF_A_TUTORIAL = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: mnist
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - image: my-mnist
            name: mnist
"""

JOB_WITH_A_CLAIM = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: deeplearning
spec:
  template:
    spec:
      containers:
        - name: dl
          image: yunxingwang/dl_env:latest
          command: ["python", "/opt/app/train.py"]
          resources:
            limits:
              cpu: "4"
              memory: "4Gi"
              nvidia.com/gpu: "1"
          volumeMounts:
            - mountPath: /mnt/data
              name: dataset
      restartPolicy: Never
      volumes:
        - name: dataset
          persistentVolumeClaim:
            claimName: data-pvc
"""

JOB_WITH_ARGUMENTS = """\
apiVersion: batch/v1
kind: Job
metadata:
  labels:
    app: mnist-demo
  name: mnist-demo
spec:
  template:
    metadata:
      labels:
        app: mnist-demo
    spec:
      containers:
      - name: mnist-demo
        image: lachlanevenson/tf-mnist:gpu
        args: ["--max_steps", "500"]
        imagePullPolicy: IfNotPresent
        resources:
          limits:
           nvidia.com/gpu: 1
      restartPolicy: OnFailure
"""

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: gpu-pod
spec:
  containers:
    - name: digits-container
      image: nvidia/digits:6.0
      resources:
        limits:
          nvidia.com/gpu: 2 # requesting 2 GPUs
"""

MPIJOB_OF_2020 = """\
apiVersion: kubeflow.org/v1alpha2
kind: MPIJob
metadata:
  name: tensorflow-mnist
spec:
  slotsPerWorker: 1
  cleanPodPolicy: Running
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - image: horovod-cpu:latest
            name: mpi-launcher
            command:
            - mpirun
            args:
            - -np
            - "2"
            - --allow-run-as-root
            - -bind-to
            - none
            - -map-by
            - slot
            - -x
            - LD_LIBRARY_PATH
            - -x
            - PATH
            - -mca
            - pml
            - ob1
            - -mca
            - btl
            - ^openib
            - python
            - /examples/tensorflow_mnist.py
            resources:
              limits:
                cpu: 1
                memory: 2Gi
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - command:
            - ""
            image: horovod-cpu:latest
            name: mpi-worker
            resources:
              limits:
                cpu: 2
                memory: 4Gi
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: mymodel
spec:
  replicas: 1
  template:
    spec:
      containers:
        - name: mymodel
          image: mymodel
"""

PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: mnist
  labels: {team: vision}
  annotations: {bireme.io/restart: gang, bireme.io/environment: torchrun, bireme.io/eviction-limit: "5"}
spec:
  nprocPerNode: 2
  runPolicy:
    cleanPodPolicy: All
    backoffLimit: 4
    activeDeadlineSeconds: 3600
    ttlSecondsAfterFinished: 60
    suspend: true
    managedBy: kubeflow.org/training-operator
    schedulingPolicy:
      {minAvailable: 2, queue: q, priorityClass: high, minResources: {cpu: 2}, scheduleTimeoutSeconds: 5}
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          containers:
            - {name: pytorch, image: train, command: [python, train.py]}
    Worker:
      replicas: 3
      restartPolicy: ExitCode
      template:
        spec:
          containers:
            - {name: pytorch, image: train, command: [python, train.py]}
"""

TFJOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist}
spec:
  successPolicy: AllWorkers
  tfReplicaSpecs:
    ps: {template: &template {spec: {containers: [{name: tensorflow, image: train}]}}}
    worker: {replicas: 2, template: *template}
    Chief: {template: *template}
    EVALUATOR: {template: *template}
"""

JAXJOB = """\
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {name: mnist}
spec:
  jaxReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - {name: jax, image: train, ports: [{name: jaxjob-port, containerPort: 1234}]}
"""

XGBOOSTJOB = """\
apiVersion: kubeflow.org/v1
kind: XGBoostJob
metadata: {name: mnist}
spec:
  xgbReplicaSpecs:
    Master: {template: &template {spec: {containers: [{name: xgboost, image: train}]}}}
    Worker: {replicas: 2, template: *template}
"""

PADDLEJOB = """\
apiVersion: kubeflow.org/v1
kind: PaddleJob
metadata: {name: mnist}
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 4}
  paddleReplicaSpecs:
    Worker: {replicas: 2, template: {spec: {containers: [{name: paddle, image: train}]}}}
"""

MPIJOB = """\
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: mnist}
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: mpi, image: train, command: [mpirun, hostname]}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: mpi, image: train}]}}}
"""

MPIJOB_V2BETA1 = MPIJOB.replace("kubeflow.org/v1", "kubeflow.org/v2beta1")

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: 2024.sweep}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 2
  backoffLimit: 3
  activeDeadlineSeconds: 100
  ttlSecondsAfterFinished: 10
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: sweep, image: train, command: [python, sweep.py]}
"""

SHORT = """\
script: train.py --epochs 10
workers: 4
gpu: 1
"""

KINDS = {
    "pytorch": PYTORCHJOB,
    "tensorflow": TFJOB,
    "jax": JAXJOB,
    "xgboost": XGBOOSTJOB,
    "paddle": PADDLEJOB,
    "mpi": MPIJOB,
    "mpi-v2beta1": MPIJOB_V2BETA1,
    "batch": JOB,
}

FOUND = {
    "tutorial": TFJOB_OF_A_TUTORIAL,
    "claim": JOB_WITH_A_CLAIM,
    "arguments": JOB_WITH_ARGUMENTS,
    "pod": POD,
    "mpi-2020": MPIJOB_OF_2020,
}

EVERY = {**KINDS, **FOUND, "short": SHORT}


def reading(text: str) -> Reading:
    """Reads a text as `job.yaml`."""
    return read(read_text(text, "job.yaml"))


def job_of(text: str) -> Job:
    """Reads a text that holds one job."""
    (found,) = reading(text).jobs
    return found.job


def role_of(text: str, name: str = "worker") -> Role:
    """Reads one role of the only job."""
    role = job_of(text).role(name)
    assert role is not None
    return role


def refusal(text: str) -> list[str]:
    """Returns every diagnostic that a text is refused with, each as its line."""
    with pytest.raises(BadManifest) as caught:
        reading(text)
    return [str(each) for each in caught.value.diagnostics]


def outcome(text: str) -> Reading | BadManifest:
    """Returns what becomes of a text; anything else than these two is a fault of ours."""
    try:
        return reading(text)
    except BadManifest as error:
        return error


def warnings(text: str) -> list[str]:
    """Returns the warnings about a text that is accepted."""
    return [str(each) for each in reading(text).warnings]


def with_pod(spec: str) -> str:
    """Returns a JAXJob whose worker has this pod spec, indented by ten spaces from line 9 on."""
    lines = "".join(f"          {line}\n" for line in spec.strip("\n").splitlines())
    return (
        "apiVersion: kubeflow.org/v1\n"
        "kind: JAXJob\n"
        "metadata: {name: mnist}\n"
        "spec:\n"
        "  jaxReplicaSpecs:\n"
        "    Worker:\n"
        "      template:\n"
        "        spec:\n" + lines
    )


def with_container(fields: str) -> str:
    """Returns the same with one container, whose further fields begin in line 12."""
    inner = "\n".join(f"  {line}" for line in fields.strip("\n").splitlines())
    return with_pod(f"containers:\n- name: jax\n  image: train\n{inner}")


def container_of(fields: str) -> Container:
    """Reads a container with these fields."""
    return role_of(with_container(fields)).container
