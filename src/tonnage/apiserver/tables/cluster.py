"""Nodes, services, events, bindings of roles, and the small kinds: namespaces, configuration, identities, leases,
priorities and the device API. Roles have no columns of their own, as upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.cells import AGE, NAME, NONE, Cell, CellOf, Column, Layouts, count, flag, number, of, text
from tonnage.objects.document import Doc, dig
from tonnage.objects.resources import RBAC


def _claim_state(claim: Doc, now: datetime) -> Cell:
    """`pending`, `allocated`, `allocated,reserved`, with `deleted` in front while it waits to go."""
    words = ["deleted"] if dig(claim, "metadata", "deletionTimestamp") is not None else []
    if dig(claim, "status", "allocation") is not None:
        words += ["allocated", "reserved"] if dig(claim, "status", "reservedFor") else ["allocated"]
    return ",".join(words or ["pending"])


def _quota(*, limits: bool) -> CellOf:
    """`pods: 1/5, requests.cpu: 250m/2`: used and hard, of the names that begin with `limits.` or of the others."""

    def cell(quota: Doc, now: datetime) -> Cell:
        status = quota.get("status", {})
        hard, used = status.get("hard", {}), status.get("used", {})
        shown = [name for name in sorted(hard) if name.startswith("limits.") is limits]
        return ", ".join(f"{name}: {cells.size(used.get(name))}/{cells.size(hard[name])}" for name in shown)

    return cell


def _subjects(name: str, kind: str, about: str) -> Column:
    """The subjects of one kind, accounts with their namespace."""

    def subject_text(subject: Doc) -> str:
        subject_name = str(subject.get("name", ""))
        return f"{subject.get('namespace', '')}/{subject_name}" if kind == "ServiceAccount" else subject_name

    def show(subjects: list[Doc] | None) -> Cell:
        return ", ".join(subject_text(subject) for subject in subjects or () if subject.get("kind") == kind)

    return of(name, "subjects", show, wide=True, about=about)


_BINDING = (
    NAME,
    of("Role", "roleRef", lambda role: f"{dig(role or {}, 'kind') or ''}/{dig(role or {}, 'name') or ''}"),
    AGE,
    _subjects("Users", "User", "The users it is for."),
    _subjects("Groups", "Group", "The groups it is for."),
    _subjects("ServiceAccounts", "ServiceAccount", "The accounts it is for."),
)

# -- services ---------------------------------------------------------------------------------------------------------


def _cluster_ip(service: Doc, now: datetime) -> Cell:
    spec = service.get("spec", {})
    first = next(iter(spec.get("clusterIPs", ())), None)
    return str(first or spec.get("clusterIP") or NONE)


def _external_ip(service: Doc, now: datetime) -> Cell:
    """Addresses from outside, by type; a load balancer that has none yet is `<pending>`."""
    spec = service.get("spec", {})
    given = list(spec.get("externalIPs", ()))
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            ingress = dig(service, "status", "loadBalancer", "ingress") or ()
            balancers = {str(point.get("ip") or point.get("hostname") or "") for point in ingress} - {""}
            return ",".join(sorted(balancers) + given) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return cells.UNKNOWN


def _port(port: Doc) -> str:
    """`80/TCP`, or `80:30080/TCP` where a node port leads to it."""
    inside = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])
    return f"{inside}/{port.get('protocol', '')}"


# -- nodes ------------------------------------------------------------------------------------------------------------

_ROLE_PREFIX = "node-role.kubernetes.io/"


def _node_status(node: Doc, now: datetime) -> Cell:
    """`Ready`, `NotReady` or `Unknown`, and `SchedulingDisabled` behind it when the node is cordoned."""
    is_ready = cells.condition_status(dig(node, "status", "conditions"), "Ready")
    word = {"True": "Ready", "": "Unknown"}.get(is_ready, "NotReady")
    return f"{word},SchedulingDisabled" if dig(node, "spec", "unschedulable") else word


def _roles(node: Doc, now: datetime) -> Cell:
    """Names behind `node-role.kubernetes.io/`, and the value of `kubernetes.io/role`."""
    of_node = dig(node, "metadata", "labels") or {}
    names = {key.removeprefix(_ROLE_PREFIX) for key in of_node if key.startswith(_ROLE_PREFIX)}
    names.add(of_node.get("kubernetes.io/role", ""))
    return ",".join(sorted(names - {""})) or NONE


def _address(name: str, kind: str) -> Column:

    def show(addresses: list[Doc] | None) -> Cell:
        return next((str(each["address"]) for each in addresses or () if each.get("type") == kind), NONE)

    return of(name, "status.addresses", show, wide=True)


def _kernel(info: Doc | None) -> Cell:
    """Kernel version with the architecture in brackets."""
    info = info or {}
    version = info.get("kernelVersion") or cells.UNKNOWN
    return f"{version} ({info['architecture']})" if info.get("architecture") else str(version)


# -- events: what was new in events.k8s.io (`series`, `eventTime`) is read first, the deprecated fields after it -------


class EventFields(NamedTuple):
    """What one API group calls the parts of an Event. A core Event has the newer fields as well."""

    target: str
    message: str
    times: str
    first_seen: str
    last_seen: str
    source: str
    controller: str


_CORE = EventFields(
    "involvedObject", "message", "count", "firstTimestamp", "lastTimestamp", "source", "reportingComponent"
)
_EVENTS = EventFields(
    "regarding",
    "note",
    "deprecatedCount",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedSource",
    "reportingController",
)


def _first_seen(event: Doc, now: datetime, fields: EventFields) -> Cell:
    return cells.age(event.get(fields.first_seen) or event.get("eventTime"), now)


def _last_seen(event: Doc, now: datetime, fields: EventFields) -> Cell:
    if series := event.get("series"):
        return cells.age(series.get("lastObservedTime"), now)
    last = event.get(fields.last_seen)
    return cells.age(last, now) if last else _first_seen(event, now, fields)


def _count(event: Doc, now: datetime, fields: EventFields) -> Cell:
    """An event seen once has no count in the newer shape."""
    if series := event.get("series"):
        return int(series.get("count", 0))
    return int(event.get(fields.times) or 1)


def _target(event: Doc, now: datetime, fields: EventFields) -> Cell:
    """`pod/web-0`, or just the kind when there is no name."""
    target = event.get(fields.target, {})
    kind = str(target.get("kind", "")).lower()
    return f"{kind}/{target['name']}" if target.get("name") else kind


def _source(event: Doc, now: datetime, fields: EventFields) -> Cell:
    """`kubelet, node-1`: who reported it, and from which instance."""
    source = event.get(fields.source, {})
    component = source.get("component") or event.get(fields.controller) or ""
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else str(component)


def _event_columns(fields: EventFields) -> tuple[Column, ...]:
    def column(
        name: str, cell: Callable[[Doc, datetime, EventFields], Cell], field: str, *, wide: bool = False
    ) -> Column:
        return Column(name, lambda event, now: cell(event, now, fields), field, wide=wide)

    return (
        column("Last Seen", _last_seen, fields.last_seen),
        text("Type", "type"),
        text("Reason", "reason"),
        column("Object", _target, fields.target),
        text("Subobject", f"{fields.target}.fieldPath", wide=True),
        column("Source", _source, fields.source, wide=True),
        of("Message", fields.message, lambda message: str(message or "").strip()),
        column("First Seen", _first_seen, fields.first_seen, wide=True),
        column("Count", _count, fields.times, wide=True),
        Column("Name", NAME.cell, "metadata.name", format="name", wide=True),
    )


LAYOUTS: Layouts = {
    ("", "Event"): _event_columns(_CORE),
    ("events.k8s.io", "Event"): _event_columns(_EVENTS),
    ("", "Node"): (
        NAME,
        Column("Status", _node_status, about="Whether the node is ready, and whether it takes new pods."),
        Column("Roles", _roles, about="What the node is for, by its role labels."),
        AGE,
        text("Version", "status.nodeInfo.kubeletVersion"),
        _address("Internal-IP", "InternalIP"),
        _address("External-IP", "ExternalIP"),
        text("OS-Image", "status.nodeInfo.osImage", cells.UNKNOWN, wide=True),
        of("Kernel-Version", "status.nodeInfo", _kernel, field="status.nodeInfo.kernelVersion", wide=True),
        text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", cells.UNKNOWN, wide=True),
    ),
    ("", "Service"): (
        NAME,
        text("Type", "spec.type"),
        Column("Cluster-IP", _cluster_ip, "spec.clusterIP"),
        Column("External-IP", _external_ip, "spec.externalIPs"),
        of("Port(s)", "spec.ports", lambda ports: ",".join(map(_port, ports or ())) or NONE),
        AGE,
        of("Selector", "spec.selector", cells.labels, wide=True),
    ),
    ("networking.k8s.io", "NetworkPolicy"): (NAME, of("Pod-Selector", "spec.podSelector", cells.selector_or_none), AGE),
    (RBAC, "ClusterRoleBinding"): _BINDING,
    (RBAC, "RoleBinding"): _BINDING,
    ("", "Namespace"): (NAME, text("Status", "status.phase"), AGE),
    ("", "ConfigMap"): (
        NAME,
        Column("Data", lambda doc, now: len(doc.get("data", ())) + len(doc.get("binaryData", ())), "data"),
        AGE,
    ),
    ("", "Secret"): (NAME, text("Type", "type"), count("Data", "data", type="string"), AGE),
    ("", "ServiceAccount"): (NAME, AGE),
    ("coordination.k8s.io", "Lease"): (NAME, text("Holder", "spec.holderIdentity"), AGE),
    ("scheduling.k8s.io", "PriorityClass"): (
        NAME,
        number("Value", "value"),
        flag("Global-Default", "globalDefault"),
        AGE,
        text("PreemptionPolicy", "preemptionPolicy"),
    ),
    ("", "PodTemplate"): (
        NAME,
        cells.of_containers("Containers", "name", template="template", wide=False),
        cells.of_containers("Images", "image", template="template", wide=False),
        of("Pod Labels", "template.metadata.labels", cells.labels),
    ),
    ("", "ResourceQuota"): (
        NAME,
        Column("Request", _quota(limits=False), about="What is in use of each limit on requests and counts."),
        Column("Limit", _quota(limits=True), about="What is in use of each limit on limits."),
        AGE,
    ),
    ("node.k8s.io", "RuntimeClass"): (NAME, text("Handler", "handler"), AGE),
    ("resource.k8s.io", "DeviceClass"): (NAME, AGE),
    ("resource.k8s.io", "ResourceClaim"): (
        NAME,
        Column("State", _claim_state, about="Whether the claim has devices, and whether pods hold them."),
        AGE,
    ),
    ("resource.k8s.io", "ResourceClaimTemplate"): (NAME, AGE),
    ("resource.k8s.io", "ResourceSlice"): (
        NAME,
        text("Node", "spec.nodeName"),
        text("Driver", "spec.driver"),
        text("Pool", "spec.pool.name"),
        AGE,
    ),
}
