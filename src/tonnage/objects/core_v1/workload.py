"""The core kinds that select pods: Service and ReplicationController."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tonnage.objects.meta import Condition, Object, Record


class ServicePort(Record):
    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0


class ServiceSpec(Record):
    """An empty `selector` selects nothing, unlike other selectors: its endpoints are somebody else's affair."""

    selector: Mapping[str, str] = {}
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    ports: tuple[ServicePort, ...] = ()


class Service(Object):
    """Pods under one name; spreading counts the pods of a Service together."""

    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Record):
    """`template` is a document: pods are made by copying all of it."""

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
    """The elder brother of the ReplicaSet."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()
