"""The kinds that hold settings or select pods, and Event in its older shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage.objects.core_v1.persistent_volume import ObjectReference
from tonnage.objects.meta import Condition, MicroTime, Object, Record, StampedMeta, Time
from tonnage.quantity import Quantity


class NamespaceSpec(Record):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Record):
    phase: str = "Active"
    conditions: tuple[Condition, ...] = ()


class Namespace(Object):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Object):
    data: Mapping[str, str] = {}
    immutable: bool = False


class Secret(Object):
    """`data` is decoded from base64."""

    type: str = "Opaque"
    data: Mapping[str, bytes] = {}
    immutable: bool = False


class ServiceAccount(Object):
    """An identity for pods; only its existence is read here."""


class ResourceQuotaSpec(Record):
    hard: Mapping[str, Quantity] = {}


class ResourceQuotaStatus(Record):
    hard: Mapping[str, Quantity] = {}
    used: Mapping[str, Quantity] = {}


class ResourceQuota(Object):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()

    @property
    def is_counted(self) -> bool:
        """True if the status is that of the current spec, and everything it limits has been counted."""
        return self.spec.hard == self.status.hard and self.spec.hard.keys() <= self.status.used.keys()


class ServicePort(Record):
    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0


class ServiceSpec(Record):
    """Unlike other selectors, an empty `selector` selects nothing: then somebody else manages the endpoints."""

    selector: Mapping[str, str] = {}
    type: str = "ClusterIP"
    ports: tuple[ServicePort, ...] = ()


class Service(Object):
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Record):
    replicas: int = 1
    selector: Mapping[str, str] = {}
    template: Mapping[str, Any] = {}
    min_ready_seconds: int = 0


class ReplicationControllerStatus(Record):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicationController(Object):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()


class EventSource(Record):
    component: str = ""
    host: str = ""


class EventSeries(Record):
    count: int = 0
    last_observed_time: MicroTime | None = None


class Event(Object):
    metadata: StampedMeta = StampedMeta()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    action: str = ""
    count: int = 0
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    related: ObjectReference | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""
