"""Holds what a replica runs: the typed view of a pod template that the core reads."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

GPU_SUFFIXES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")


class RefKind(StrEnum):
    """The kind of object that a value or a file is taken from."""

    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"


class FieldRef(Struct, frozen=True, tag="field"):
    """A value taken from the replica itself, such as `metadata.name` or `status.podIP`."""

    path: str


class KeyRef(Struct, frozen=True, tag="key"):
    """A value taken from one key of a ConfigMap or a Secret."""

    kind: RefKind
    name: str
    key: str
    optional: bool = False


class ResourceRef(Struct, frozen=True, tag="resource"):
    """A value taken from a container's resources, such as `limits.cpu`."""

    resource: str
    container: str = ""
    divisor: str = "1"


EnvSource = FieldRef | KeyRef | ResourceRef


class EnvVar(Struct, frozen=True):
    """One environment variable, given by its value or by where the value comes from."""

    name: str
    value: str = ""
    source: EnvSource | None = None
    weak: bool = False
    """Holds only where neither the user nor the place sets the variable."""


class EnvFrom(Struct, frozen=True):
    """All keys of a ConfigMap or Secret as environment variables."""

    kind: RefKind
    name: str
    prefix: str = ""
    optional: bool = False


class Mount(Struct, frozen=True):
    """The path at which a container finds a volume."""

    volume: str
    path: str
    read_only: bool = False
    sub_path: str = ""


class EmptyDir(Struct, frozen=True, tag="empty", tag_field="volume"):
    """A folder that lives as long as the replica."""

    in_memory: bool = False


class HostPath(Struct, frozen=True, tag="host", tag_field="volume"):
    """A folder or file of the machine."""

    path: str


class VolumeClaim(Struct, frozen=True, tag="claim", tag_field="volume"):
    """A persistent volume claim, by name."""

    name: str
    read_only: bool = False


class RefFiles(Struct, frozen=True, tag="ref", tag_field="volume"):
    """Keys of a ConfigMap or a Secret as files; no items means all keys under their own names."""

    kind: RefKind
    name: str
    items: dict[str, str] = {}
    optional: bool = False


class OtherVolume(Struct, frozen=True, tag="other", tag_field="volume"):
    """A volume of a type that only a cluster provides."""

    type: str


VolumeSource = EmptyDir | HostPath | VolumeClaim | RefFiles | OtherVolume


class Volume(Struct, frozen=True):
    """A named volume of a pod template."""

    name: str
    source: VolumeSource


class Resources(Struct, frozen=True):
    """The amounts that a container requests or may use at most; None where nothing is said."""

    cpu: int | None = None
    """Millicores."""
    memory: int | None = None
    """Bytes."""
    devices: dict[str, int] = {}
    """Extended resources by name, such as `nvidia.com/gpu`."""

    @property
    def gpus(self) -> int:
        return sum(count for name, count in self.devices.items() if name.endswith(GPU_SUFFIXES))

    def or_else(self, other: Resources) -> Resources:
        """Fill what is not said here from another; how requests default to limits."""
        return Resources(
            cpu=other.cpu if self.cpu is None else self.cpu,
            memory=other.memory if self.memory is None else self.memory,
            devices={**other.devices, **self.devices},
        )


class Container(Struct, frozen=True):
    """One program of a replica."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    ports: dict[str, int] = {}
    """Named ports only: an unnamed port needs no address."""
    requests: Resources = Resources()
    limits: Resources = Resources()
    mounts: tuple[Mount, ...] = ()
    sidecar: bool = False
    """An init container with restartPolicy Always: it runs beside the others until they end."""

    @property
    def claims(self) -> Resources:
        """The amounts that the container counts with: its requests, and its limits where it has none."""
        return self.requests.or_else(self.limits)


class PodSpec(Struct, frozen=True):
    """The containers and volumes of a replica."""

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    grace: float = 30.0
    """Seconds between SIGTERM and SIGKILL."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    @property
    def claims(self) -> Resources:
        """The amounts that the whole replica counts with, as the scheduler adds them up.

        Regular containers run together, so they add up; init containers run one by one, so the largest
        counts where it is larger than that sum. Sidecars count with both.
        """
        sidecars = [container.claims for container in self.init_containers if container.sidecar]
        together = _total([container.claims for container in self.containers] + sidecars)
        for container in self.init_containers:
            if not container.sidecar:
                together = _larger(together, _total([container.claims, *sidecars]))
        return together


def _total(parts: list[Resources]) -> Resources:
    devices: dict[str, int] = {}
    for part in parts:
        for name, count in part.devices.items():
            devices[name] = devices.get(name, 0) + count
    return Resources(
        cpu=_sum([part.cpu for part in parts]), memory=_sum([part.memory for part in parts]), devices=devices
    )


def _sum(values: list[int | None]) -> int | None:
    said = [value for value in values if value is not None]
    return sum(said) if said else None


def _larger(first: Resources, second: Resources) -> Resources:
    names = first.devices.keys() | second.devices.keys()
    return Resources(
        cpu=_max(first.cpu, second.cpu),
        memory=_max(first.memory, second.memory),
        devices={
            name: max(first.devices.get(name, 0), second.devices.get(name, 0)) for name in sorted(names)
        },
    )


def _max(first: int | None, second: int | None) -> int | None:
    return max(first or 0, second or 0) if first is not None or second is not None else None
