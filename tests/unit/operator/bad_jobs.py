"""Jobs that no cluster should accept: what `bireme check` says about each, and what the API server says."""

from __future__ import annotations

from typing import NamedTuple

from tests.unit.manifest.samples import (
    JAXJOB,
    MPIJOB,
    MPIJOB_V2BETA1,
    PADDLEJOB,
    PYTORCHJOB,
    TFJOB,
    XGBOOSTJOB,
    with_container,
    with_pod,
)

# A number is what people write, and `bireme check` takes it; a cluster wants the text.
PYTORCH = PYTORCHJOB.replace("nprocPerNode: 2", 'nprocPerNode: "2"')
MPIJOB_V1ALPHA2 = MPIJOB.replace("kubeflow.org/v1", "kubeflow.org/v1alpha2")


class Bad(NamedTuple):
    manifest: str
    checked: str
    """A part of what `bireme check` says."""
    served: str
    """A part of what the API server says."""


def _named(name: str, manifest: str = JAXJOB) -> str:
    return manifest.replace("name: mnist", f"name: {name}")


BAD = {
    # --- Names
    "a name that is no label": Bad(
        _named("2024.sweep"), "should match: a DNS-1035", "should match: a DNS-1035"
    ),
    "a name that makes an invalid pod name": Bad(
        _named("m" * 55), "-worker-1 would be invalid", "must be no more than 63 characters"
    ),
    "the longest pod name counts": Bad(
        _named("m" * 53, JAXJOB.replace("replicas: 2", "replicas: 5000")),
        "-worker-4999 would be invalid",
        "must be no more than 63 characters",
    ),
    "a launcher's name": Bad(
        _named("m" * 55, MPIJOB), "-launcher would be invalid", "must be no more than 63 characters"
    ),
    # --- Replica types
    "no replica types": Bad(
        JAXJOB.partition("    Worker:")[0].replace("Specs:", "Specs: {}"),
        "is missing",
        "spec.jaxReplicaSpecs: Required value: at least one of",
    ),
    "no replica specs": Bad(
        JAXJOB.replace("jaxReplicaSpecs", "jaxReplicaSpec"),
        "spec.jaxReplicaSpecs: is missing",
        'unknown field "spec.jaxReplicaSpec"',
    ),
    "no spec": Bad(JAXJOB.partition("spec:")[0], "spec: is missing", "spec: Required value"),
    "an unknown replica type": Bad(
        PYTORCH.replace("    Worker:", "    Wroker:"),
        'Unsupported value: "Wroker": supported values: "Master", "Worker"',
        'Unsupported value: "Wroker": supported values: "Master", "Worker"',
    ),
    "a replica type of another kind": Bad(
        JAXJOB.replace("    Worker:", "    Master:"),
        'Unsupported value: "Master"',
        'Unsupported value: "Master"',
    ),
    "a replica type twice": Bad(
        XGBOOSTJOB + "    WORKER: {template: *template}\n",
        "Duplicate value",
        "must not be there twice in different case",
    ),
    "negative replicas": Bad(
        JAXJOB.replace("replicas: 2", "replicas: -2"),
        "must be at least 0, found -2",
        "should be greater than or equal to 0",
    ),
    "far too many replicas": Bad(
        JAXJOB.replace("replicas: 2", "replicas: 5001"),
        "must be at most 5000",
        "should be less than or equal to 5000",
    ),
    "too many replicas of all roles together": Bad(
        PYTORCH.replace("replicas: 3", "replicas: 5000"),
        "the job has 5001 replicas; at most 5000 are supported",
        "the job has too many replicas; at most 5000 are supported in all roles",
    ),
    "replicas in quotes": Bad(
        JAXJOB.replace("replicas: 2", 'replicas: "2"'), "wanted a whole number", "must be of type integer"
    ),
    "two chiefs": Bad(
        TFJOB + "    Master: {template: *template}\n",
        "must not have more than 1 Chief or Master role",
        "must not have more than 1 Chief or Master role",
    ),
    "a chief twice": Bad(
        TFJOB.replace("Chief: {", "Chief: {replicas: 2, "),
        "must be 1",
        "Chief.replicas and Master.replicas must be 1",
    ),
    "two masters": Bad(
        PYTORCH.replace("    Master:\n", "    master:\n      replicas: 2\n"),
        "must be 1",
        "Master.replicas must be 1",
    ),
    "no workers": Bad(
        PYTORCH.replace("replicas: 3", "replicas: 0"),
        "must be at least 1",
        "Worker.replicas must be at least 1",
    ),
    "no master": Bad(
        XGBOOSTJOB.replace("    Master: {", "    Worker: {").replace("    Worker: {rep", "    #"),
        "must be present",
        "Master must be present",
    ),
    "two masters of xgboost": Bad(
        XGBOOSTJOB.replace("    Master: {", "    Master: {replicas: 2, "),
        "must be 1",
        "Master.replicas must be 1",
    ),
    "elastic without workers": Bad(
        PYTORCH[: PYTORCH.index("    Worker:")].replace(
            'nprocPerNode: "2"', "elasticPolicy: {minReplicas: 1}"
        ),
        "must be configured if elastic policy is used",
        "Worker must be configured if elastic policy is used",
    ),
    "processes said twice": Bad(
        PYTORCH.replace('nprocPerNode: "2"', 'nprocPerNode: "2"\n  elasticPolicy: {nProcPerNode: 2}'),
        "must not be used with spec.nprocPerNode",
        "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode",
    ),
    "a bad restart policy": Bad(
        PYTORCH.replace("ExitCode", "exitcode"),
        "must be one of Always, OnFailure",
        'Unsupported value: "exitcode"',
    ),
    "a bad success policy": Bad(
        TFJOB.replace("AllWorkers", "Everyone"),
        'Unsupported value: "Everyone"',
        'Unsupported value: "Everyone"',
    ),
    # --- MPI
    "no launcher": Bad(
        MPIJOB.replace("    Launcher: {", "    #"),
        "Master ReplicaSpec must be present",
        "Launcher must be present",
    ),
    "two launchers": Bad(
        MPIJOB_V2BETA1.replace("Launcher: {", "Launcher: {replicas: 2, "),
        "must be 1",
        "Launcher.replicas must be 1",
    ),
    "workers left out in v2beta1": Bad(
        MPIJOB_V2BETA1.replace("replicas: 2, ", ""),
        "must be greater than or equal to 1",
        "Worker.replicas must be greater than or equal to 1",
    ),
    "no workers in v1alpha2": Bad(
        MPIJOB_V1ALPHA2.replace("replicas: 2, ", "replicas: 0, "),
        "must be greater than or equal to 1",
        "Worker.replicas must be greater than or equal to 1",
    ),
    "always restarted in v2beta1": Bad(
        MPIJOB_V2BETA1.replace("replicas: 2, ", "replicas: 2, restartPolicy: Always, "),
        'Unsupported value: "Always"',
        'restartPolicy is "Never" or "OnFailure"',
    ),
    "no slots in v1alpha2": Bad(
        MPIJOB_V1ALPHA2.replace("slotsPerWorker: 2", "slotsPerWorker: 0"),
        "must be greater than or equal to 1",
        "spec.slotsPerWorker: Invalid value: must be greater than or equal to 1",
    ),
    "negative slots": Bad(
        MPIJOB.replace("slotsPerWorker: 2", "slotsPerWorker: -1"),
        "must be greater than or equal to 0",
        "should be greater than or equal to 0",
    ),
    "no such main container": Bad(
        MPIJOB.replace("slotsPerWorker: 2", "mainContainer: other"),
        'Unsupported value: "other"',
        "no container of the Worker has this name",
    ),
    "an unknown implementation": Bad(
        MPIJOB_V2BETA1.replace("slotsPerWorker: 2", "mpiImplementation: LAM"),
        "must be one of OpenMPI, Intel, MPICH",
        'Unsupported value: "LAM"',
    ),
    "the manager of another version": Bad(
        MPIJOB_V2BETA1.replace("slotsPerWorker: 2", "runPolicy: {managedBy: kubeflow.org/training-operator}"),
        'Unsupported value: "kubeflow.org/training-operator"',
        'the operator is "kubeflow.org/mpi-operator" in v2beta1',
    ),
    # --- Containers
    "no template": Bad(
        PADDLEJOB.partition(", template")[0] + "}\n", "template: is missing", "template: Required value"
    ),
    "no containers": Bad(
        with_pod("containers: []"), "containers: is missing", "should have at least 1 items"
    ),
    "containers misspelt": Bad(
        with_pod("conatiners: [{name: jax, image: x}]"),
        "containers: is missing",
        "containers: Required value",
    ),
    "a container without a name": Bad(
        with_pod("containers: [{image: x}]"), "name: is missing", "name: Required value"
    ),
    "a container without an image": Bad(
        with_pod("containers: [{name: jax}]"), "image: is missing", "image: Required value"
    ),
    "an empty image": Bad(
        with_pod('containers: [{name: jax, image: ""}]'),
        "image: is missing",
        "should be at least 1 chars long",
    ),
    "a container's bad name": Bad(
        with_pod("containers: [{name: A/b, image: x}]"),
        "a lowercase RFC 1123 label must",
        "a lowercase RFC 1123 label must",
    ),
    "two containers of one name": Bad(
        with_pod("containers: [{name: c, image: x}, {name: c, image: x}]"),
        "Duplicate value",
        "Duplicate value",
    ),
    "an init container of the same name": Bad(
        with_pod("initContainers: [{name: jax, image: x}]\ncontainers: [{name: jax, image: x}]"),
        "Duplicate value",
        "an init container has the name of another container",
    ),
    "a command that is no list": Bad(
        with_container("command: python train.py"),
        "command: wanted a list",
        "command in body must be of type array",
    ),
    "an argument that is a number": Bad(
        with_container("args: [--lr, 0.1]"),
        "args[1]: wanted a text",
        "args[1] in body must be of type string",
    ),
    "a variable that is a number": Bad(
        with_container("env: [{name: A, value: 1}]"),
        "value: wanted a text",
        "value in body must be of type string",
    ),
    "a variable without a name": Bad(
        with_container("env: [{value: a}]"), "env[0].name: is missing", "env[0].name: Required value"
    ),
    "a port that is none": Bad(
        with_container("ports: [{containerPort: 70000}]"),
        "must be at most 65535",
        "should be less than or equal to 65535",
    ),
    "a volume without a name": Bad(
        with_pod("containers: [{name: jax, image: x}]\nvolumes: [{emptyDir: {}}]"),
        "volumes[0].name: is missing",
        "volumes[0].name: Required value",
    ),
    "two volumes of one name": Bad(
        with_pod(
            "containers: [{name: jax, image: x}]\nvolumes: [{name: v, emptyDir: {}}, {name: v, emptyDir: {}}]"
        ),
        "Duplicate value",
        "Duplicate value",
    ),
    "a mount without a path": Bad(
        with_pod(
            "containers: [{name: jax, image: x, volumeMounts: [{name: v}]}]\n"
            "volumes: [{name: v, emptyDir: {}}]"
        ),
        "mountPath: is missing",
        "mountPath: Required value",
    ),
    "a mount of no volume": Bad(
        with_container("volumeMounts: [{name: v, mountPath: /a}]"),
        'Not found: "v"',
        "names a volume that is not declared",
    ),
    "a negative grace": Bad(
        with_pod("containers: [{name: jax, image: x}]\nterminationGracePeriodSeconds: -1"),
        "must be at least 0",
        "should be greater than or equal to 0",
    ),
    # --- Resources
    "no quantity": Bad(
        with_container("resources: {limits: {cpu: 2 cores}}"),
        "unknown suffix",
        '"2 cores" is not a quantity; write a number such as 2, 500m or 4Gi',
    ),
    "an unknown suffix": Bad(
        with_container("resources: {limits: {memory: 4Gb}}"), "unknown suffix", '"4Gb" is not a quantity'
    ),
    "a negative quantity": Bad(
        with_container("resources: {requests: {cpu: -1}}"), "must not be negative", "must not be negative"
    ),
    "half a GPU": Bad(
        with_container("resources: {limits: {nvidia.com/gpu: 500m}}"),
        "must be an integer",
        "the number of a device must be an integer",
    ),
    "an unknown resource": Bad(
        with_container("resources: {limits: {gpu: 1}}"),
        "must be a standard resource for containers",
        "must be a standard resource for containers",
    ),
    "a request beyond its limit": Bad(
        with_container("resources: {limits: {cpu: 1}, requests: {cpu: 1100m}}"),
        "must be less than or equal to cpu limit",
        "a request must be less than or equal to the limit",
    ),
    # --- Policies
    "a negative limit": Bad(
        PYTORCH.replace("backoffLimit: 4", "backoffLimit: -1"),
        "must be at least 0",
        "should be greater than or equal to 0",
    ),
    "a bad clean-up policy": Bad(
        PYTORCH.replace("cleanPodPolicy: All", "cleanPodPolicy: Some"),
        "must be one of All, Running, None",
        'Unsupported value: "Some"',
    ),
    "suspended in words": Bad(
        PYTORCH.replace("suspend: true", "suspend: maybe"), "wanted true or false", "must be of type boolean"
    ),
    "an unknown manager": Bad(
        PYTORCH.replace("kubeflow.org/training-operator", "kubeflow.org/x"),
        'Unsupported value: "kubeflow.org/x"',
        'Unsupported value: "kubeflow.org/x"',
    ),
    "a gang's bad quantity": Bad(
        PYTORCH.replace("{cpu: 2}", "{cpu: x}"), "'x' is not a quantity", '"x" is not a quantity'
    ),
    "half a setting of the rendezvous": Bad(
        PYTORCH.replace('nprocPerNode: "2"', "elasticPolicy: {rdzvConf: [{key: a}]}"),
        "rdzvConf[0].value: is missing",
        "rdzvConf[0].value: Required value",
    ),
}
