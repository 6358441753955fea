"""Containers: what each asks for, exposes and mounts, and how it is doing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tonnage.objects.meta import Record, Time
from tonnage.quantity import Quantity


class ResourceClaim(Record):
    """A device claim of the pod that this container uses."""

    name: str


class ResourceRequirements(Record):
    """What is set aside (`requests`) and what is allowed (`limits`), by resource name.

    A resource that is missing from `requests` differs from one that asks for 0: scores assume something for the first.
    """

    requests: Mapping[str, Quantity] = {}
    limits: Mapping[str, Quantity] = {}
    claims: tuple[ResourceClaim, ...] = ()


class ContainerPort(Record):
    """A port; one with a `host_port` is taken on the node, on `host_ip` or, when that is empty, on all addresses."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")


class VolumeMount(Record):
    """A volume of the pod as a folder of the container."""

    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""


class VolumeDevice(Record):
    """A volume of the pod as a raw device of the container."""

    name: str
    device_path: str


class Probe(Record):
    """When a container is asked how it is; what it is asked is of no interest where nothing runs."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10
    success_threshold: int = 1


class Container(Record):
    """`restart_policy` is set on init containers only: "Always" makes one a sidecar."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None

    @property
    def is_sidecar(self) -> bool:
        """For init containers: it keeps running beside the others."""
        return self.restart_policy == "Always"


class ContainerStateWaiting(Record):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Record):
    started_at: Time | None = None


class ContainerStateTerminated(Record):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class ContainerState(Record):
    """At most one of the three; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Record):
    """`allocated_resources` is what the node has granted, `resources` what is in force; both matter while resizing.

    Absent `resources` means that the node has not said, which is not the same as nothing.
    """

    name: str
    image: str = ""
    image_id: str = msgspec.field(name="imageID", default="")
    container_id: str = msgspec.field(name="containerID", default="")
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    allocated_resources: Mapping[str, Quantity] = {}
    resources: ResourceRequirements | None = None
