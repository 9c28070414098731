"""Pod templates become what the core reads: containers, resources, volumes, mounts."""

from __future__ import annotations

import pytest

from bireme.model.pods import (
    EmptyDir,
    HostPath,
    Mount,
    OtherVolume,
    RefFiles,
    RefKind,
    Resources,
    VolumeClaim,
    VolumeSource,
)
from tests.unit.manifest.samples import container_of, refusal, role_of, warnings, with_container, with_pod

POD = "spec.jaxReplicaSpecs[Worker].template.spec"
CONTAINER = f"{POD}.containers[0]"


def refused(fields: str) -> str:
    """Returns the only diagnostic about a container with these fields, without its place."""
    (diagnostic,) = refusal(with_container(fields))
    return diagnostic.split(" ", 1)[1]


def source_of(volume: str) -> VolumeSource:
    pod = role_of(with_pod(f"containers: [{{name: jax, image: x}}]\nvolumes:\n- name: v\n  {volume}")).pod
    (found,) = pod.volumes
    assert found.name == "v"
    return found.source


# --- Containers -------------------------------------------------------------------------------------------


def test_a_container_in_full() -> None:
    container = container_of("""
command: [python]
args: [train.py, "10"]
workingDir: /work
ports: [{name: jaxjob-port, containerPort: 1}, {containerPort: 2}, {name: http, containerPort: 3}]
resources:
  requests: {cpu: 500m, memory: 1Gi}
  limits: {cpu: "1.5", memory: 2e9, nvidia.com/gpu: 2, ephemeral-storage: 1Gi, hugepages-2Mi: 4Mi}
""")

    assert (container.name, container.image, container.working_dir) == ("jax", "train", "/work")
    assert (container.command, container.args) == (("python",), ("train.py", "10"))
    assert container.ports == {"jaxjob-port": 1, "http": 3}
    assert container.requests == Resources(500, 2**30)
    assert container.limits == Resources(1500, 2_000_000_000, {"nvidia.com/gpu": 2})


def test_init_containers_and_sidecars() -> None:
    pod = role_of(
        with_pod("""
initContainers:
- {name: fetch, image: x}
- {name: proxy, image: x, restartPolicy: Always}
containers:
- {name: jax, image: x}
- {name: log, image: x}
terminationGracePeriodSeconds: 5
""")
    ).pod

    assert [(one.name, one.sidecar) for one in pod.init_containers] == [("fetch", False), ("proxy", True)]
    assert [one.name for one in pod.containers] == ["jax", "log"]
    assert pod.containers[1].ports == {}
    assert pod.grace == 5.0


def test_labels_and_annotations_of_the_template() -> None:
    text = with_container("").replace(
        "      template:\n",
        "      template:\n        metadata: {labels: {a: b}, annotations: {c: d}, name: x}\n",
    )

    assert role_of(text).pod.labels == {"a": "b"}
    assert role_of(text).pod.annotations == {"c": "d"}


def test_legal_fields_that_are_not_used_are_not_warned_about() -> None:
    text = with_pod("""
affinity: {}
tolerations: []
nodeSelector: {disk: ssd}
securityContext: {runAsUser: 0}
imagePullSecrets: []
serviceAccountName: x
priorityClassName: x
schedulerName: volcano
hostNetwork: true
containers:
- name: jax
  image: x
  imagePullPolicy: Always
  securityContext: {privileged: true}
  livenessProbe: {exec: {command: ["true"]}}
  lifecycle: {}
  tty: true
  resources: {claims: []}
  volumeMounts: [{name: shm, mountPath: /dev/shm, mountPropagation: None}]
volumes:
- name: shm
  emptyDir: {medium: Memory, sizeLimit: 1Gi}
""")

    assert warnings(text) == []


def test_fields_that_do_not_exist_are_warned_about() -> None:
    text = with_pod("""
toleration: []
containers:
- name: jax
  image: x
  volumemount: []
  ports: [{containerPort: 1, hostport: 2}]
""")

    assert warnings(text) == [
        f'job.yaml:9:11 {POD}.toleration: unknown field "toleration", did you mean "tolerations"?',
        f'job.yaml:13:13 {CONTAINER}.volumemount: unknown field "volumemount", did you mean "volumeMounts"?',
        f'job.yaml:14:40 {CONTAINER}.ports[0].hostport: unknown field "hostport", did you mean "hostPort"?',
    ]


@pytest.mark.parametrize(
    ("fields", "diagnostic"),
    [
        ("command: python train.py", 'command: wanted a list, found the text "python train.py"'),
        ("args: [--lr, 0.1]", "args[1]: wanted a text, found the number 0.1 (put it in quotes)"),
        ("ports: [{name: a}]", "ports[0].containerPort: is missing"),
        ("ports: [{containerPort: 70000}]", "ports[0].containerPort: must be at most 65535, found 70000"),
        (
            "ports: [{name: a, containerPort: 1}, {name: a, containerPort: 2}]",
            'ports[1].name: Duplicate value: "a"',
        ),
        (
            "restartPolicy: Sometimes",
            'restartPolicy: must be one of Always, Never, OnFailure, found "Sometimes"',
        ),
    ],
)
def test_a_bad_container(fields: str, diagnostic: str) -> None:
    assert refused(fields) == f"{CONTAINER}.{diagnostic}"


def test_containers_need_names_of_their_own() -> None:
    diagnostics = refusal(
        with_pod("containers: [{image: x}, {name: A/b, image: x}, {name: c, image: x}, {name: c, image: x}]")
    )

    assert diagnostics[0].endswith(f"{CONTAINER}.name: is missing")
    assert 'containers[1].name: Invalid value: "A/b": a lowercase RFC 1123 label must' in diagnostics[1]
    assert diagnostics[2].endswith('containers[3].name: Duplicate value: "c"')


def test_an_init_container_may_not_have_the_name_of_another() -> None:
    (diagnostic,) = refusal(
        with_pod("initContainers: [{name: jax, image: x}]\ncontainers: [{name: jax, image: x}]")
    )

    assert diagnostic.endswith(f'{CONTAINER}.name: Duplicate value: "jax"')


def test_grace_is_not_negative() -> None:
    (diagnostic,) = refusal(
        with_pod("containers: [{name: jax, image: x}]\nterminationGracePeriodSeconds: -1")
    )

    assert diagnostic.endswith("terminationGracePeriodSeconds: must be at least 0, found -1")


# --- Resources --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "diagnostic"),
    [
        (
            "limits: {memory: 4Gb}",
            "limits.memory: '4Gb' has the unknown suffix 'Gb'; write Gi for powers of 1024 or G",
        ),
        ("limits: {cpu: -1}", "limits.cpu: must not be negative, found -1"),
        ("limits: {cpu: [1]}", "limits.cpu: wanted a quantity such as 2, 500m or 4Gi, found a list"),
        (
            "limits: {nvidia.com/gpu: 500m}",
            'limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
        ),
        ("limits: {gpu: 1}", 'limits.gpu: Invalid value: "gpu": must be a standard resource for containers'),
        (
            "{limits: {cpu: 1}, requests: {cpu: 1100m}}",
            'requests.cpu: Invalid value: "1100m": must be less than or equal to cpu limit of 1',
        ),
        (
            "{limits: {memory: 1Gi}, requests: {memory: 1.1Gi}}",
            'requests.memory: Invalid value: "1.1Gi": must be less than or equal to memory limit of 1Gi',
        ),
    ],
)
def test_bad_resources(resources: str, diagnostic: str) -> None:
    assert refused(f"resources:\n  {resources}").startswith(f"{CONTAINER}.resources.{diagnostic}")


def test_a_quantity_is_placed_where_it_stands() -> None:
    (diagnostic,) = refusal(with_container("resources:\n  limits:\n    cpu: many"))

    assert diagnostic.startswith("job.yaml:14:22 ")


# --- Volumes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volume", "source"),
    [
        ("emptyDir: {}", EmptyDir()),
        ("emptyDir: {medium: Memory, sizeLimit: 1Gi}", EmptyDir(in_memory=True)),
        ("hostPath: {path: /data, type: Directory}", HostPath("/data")),
        ("persistentVolumeClaim: {claimName: c}", VolumeClaim("c")),
        ("persistentVolumeClaim: {claimName: c, readOnly: true}", VolumeClaim("c", read_only=True)),
        ("configMap: {name: m, optional: true}", RefFiles(RefKind.CONFIG_MAP, "m", optional=True)),
        (
            "secret: {secretName: s, defaultMode: 0400, items: [{key: k, path: a/b, mode: 0400}]}",
            RefFiles(RefKind.SECRET, "s", {"k": "a/b"}),
        ),
        ("nfs: {server: s, path: /}", OtherVolume("nfs")),
        ("projected: {sources: []}", OtherVolume("projected")),
        ("csi: {driver: d}", OtherVolume("csi")),
    ],
)
def test_volumes(volume: str, source: VolumeSource) -> None:
    assert source_of(volume) == source


@pytest.mark.parametrize(
    ("volume", "diagnostic"),
    [
        ("x: 1", "volumes[0].x: Required value: must specify a volume type"),
        (
            "persistentvolumeClaims: {}",
            "volumes[0].persistentvolumeClaims: Required value: must specify a volume type "
            "(did you mean persistentVolumeClaim?)",
        ),
        ("hostPath: {}", "volumes[0].hostPath.path: is missing"),
        *(
            (
                f"{type}: {{{field}: {name}}}",
                f'volumes[0].{type}.{field}: Invalid value: "{name}": a lowercase RFC',
            )
            for type, field in (
                ("persistentVolumeClaim", "claimName"),
                ("configMap", "name"),
                ("secret", "secretName"),
            )
            for name in ("../x", "a/b", "..", "/etc", "Data")
        ),
        ("configMap: {name: c, items: [{key: k, path: ../x}]}", "must not contain '..'"),
        ("configMap: {name: c, items: [{key: k, path: /x}]}", "must be a relative path"),
        ("configMap: {name: c, items: [{key: k}]}", "items[0].path: is missing"),
        ("emptyDir: 1", "volumes[0].emptyDir: wanted a mapping, found the number 1"),
        ("emptyDir: {sizeLimit: x}", "volumes[0].emptyDir.sizeLimit: 'x' is not a quantity"),
        ("configMap: {name: m, items: [{key: k, path: ../x}]}", "must not contain '..'"),
        ("{emptyDir: {}, nfs: {}}", "may not specify more than 1 volume type"),
    ],
)
def test_bad_volumes(volume: str, diagnostic: str) -> None:
    text = f"containers: [{{name: jax, image: x}}]\nvolumes:\n- name: v\n  {volume}"
    if volume.startswith("{"):
        text = text.replace("- name: v\n  {", "- {name: v, ")

    assert any(diagnostic in each for each in refusal(with_pod(text)))


def test_volumes_need_names_of_their_own() -> None:
    diagnostics = refusal(
        with_pod(
            "containers: [{name: jax, image: x}]\n"
            "volumes: [{name: v, emptyDir: {}}, {name: v, emptyDir: {}}, {emptyDir: {}}]"
        )
    )

    assert diagnostics[0].endswith('volumes[1].name: Duplicate value: "v"')
    assert diagnostics[1].endswith("volumes[2].name: is missing")


def test_mounts() -> None:
    text = with_pod("""
containers:
- name: jax
  image: x
  volumeMounts:
  - {name: v, mountPath: /a, readOnly: true, subPath: b/c}
  - {name: v, mountPath: /d}
volumes: [{name: v, emptyDir: {}}]
""")

    assert role_of(text).container.mounts == (
        Mount("v", "/a", read_only=True, sub_path="b/c"),
        Mount("v", "/d"),
    )


@pytest.mark.parametrize(
    ("mounts", "diagnostic"),
    [
        ("[{name: w, mountPath: /a}]", 'volumeMounts[0].name: Not found: "w" (the volumes are v)'),
        ("[{name: v}]", "volumeMounts[0].mountPath: is missing"),
        ("[{mountPath: /a}]", "volumeMounts[0].name: is missing"),
        (
            "[{name: v, mountPath: /a}, {name: v, mountPath: /a}]",
            'volumeMounts[1].mountPath: Invalid value: "/a": must be unique',
        ),
        (
            "[{name: v, mountPath: /a, subPath: /b}]",
            'volumeMounts[0].subPath: Invalid value: "/b": must be a relative path',
        ),
        (
            "[{name: v, mountPath: /a, subPath: b/../../c}]",
            "volumeMounts[0].subPath: Invalid value: \"b/../../c\": must not contain '..'",
        ),
    ],
)
def test_bad_mounts(mounts: str, diagnostic: str) -> None:
    text = with_pod(
        f"containers:\n- name: jax\n  image: x\n  volumeMounts: {mounts}\n"
        "volumes: [{name: v, emptyDir: {}}]"
    )

    (found,) = refusal(text)

    assert found.endswith(diagnostic)


def test_a_mount_without_any_volume_says_where_to_declare_it() -> None:
    assert refused("volumeMounts: [{name: v, mountPath: /a}]").endswith(
        "(declare it under `volumes` of the same template)"
    )
