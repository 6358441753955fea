"""Nodes, leases and pods in one line, at times counted in seconds from a start."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from tonnage.clock import rfc3339
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.document import Doc
from tonnage.objects.meta import Condition, MicroTime, ObjectMeta
from tonnage.objects.requirements import Taint, Toleration
from tonnage.objects.small_groups import Lease, LeaseSpec
from tonnage.testing import builders

START = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def condition(type_: str, status: str, *, heartbeat_s: float = 0) -> Condition:
    return Condition(type=type_, status=status, last_heartbeat_time=at(heartbeat_s))


def node(name: str = "n", *conditions: Condition, uid: str = "", zone: str = "", cordoned: bool = False) -> Node:
    made = builders.node(name, labels={"topology.kubernetes.io/zone": zone} if zone else {}, unschedulable=cordoned)
    metadata = msgspec.structs.replace(made.metadata, uid=uid or made.uid, creation_timestamp=START)
    return msgspec.structs.replace(
        made, metadata=metadata, status=msgspec.structs.replace(made.status, conditions=conditions)
    )


def tainted(made: Node, *taints: Taint) -> Node:
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, taints=taints))


def lease(renewed_s: float, name: str = "n") -> Lease:
    spec = LeaseSpec(holder_identity=name, renew_time=MicroTime.of(at(renewed_s)))
    return Lease(metadata=ObjectMeta(name=name, namespace="kube-node-lease"), spec=spec)


def no_execute(key: str, value: str = "") -> Taint:
    return Taint(key=key, value=value, effect="NoExecute")


def tolerates(key: str, seconds: int | None = None, value: str = "") -> Toleration:
    operator = "Equal" if value else "Exists"
    return Toleration(key=key, value=value, operator=operator, effect="NoExecute", toleration_seconds=seconds)


def pod(
    name: str,
    *,
    on: str = "",
    phase: str = "Running",
    reason: str = "",
    made_s: float = 0,
    leaving: bool = False,
    namespace: str = "default",
) -> Pod:
    metadata: Doc = {"creationTimestamp": rfc3339(at(made_s))}
    if leaving:
        metadata |= {"deletionTimestamp": rfc3339(at(made_s)), "deletionGracePeriodSeconds": 30}
    return builders.pod(name, namespace=namespace, on=on, metadata=metadata, status={"phase": phase, "reason": reason})


def names(pods: Iterable[Pod]) -> list[str]:
    return [each.name for each in pods]
