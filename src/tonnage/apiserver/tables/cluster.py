"""Nodes, services, bindings of roles, and the small kinds: namespaces, configuration, identities, leases, priorities
and the device API. Roles have no columns of their own, as upstream.
"""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.column import AGE, NAME, Cell, CellOf, Column, Layout, flag, number, of, text
from tonnage.objects.document import Doc, dig
from tonnage.objects.resources import RBAC


def config_entries(doc: Doc, now: datetime) -> Cell:
    return len(doc.get("data", ())) + len(doc.get("binaryData", ()))


def claim_state(claim: Doc, now: datetime) -> Cell:
    """`pending`, `allocated`, `allocated,reserved`, with `deleted` in front while it waits to go."""
    words = []
    is_deleted = dig(claim, "metadata", "deletionTimestamp") is not None
    if is_deleted:
        words.append("deleted")
    if dig(claim, "status", "allocation") is not None:
        words.append("allocated")
        if dig(claim, "status", "reservedFor"):
            words.append("reserved")
    elif not is_deleted:
        words.append("pending")
    return ",".join(words)


def template_cell(field: str) -> CellOf:
    """One field of each container in a PodTemplate."""
    return lambda doc, now: cells.joined(dig(doc, "template", "spec", "containers"), field)


def quota_cell(*, limits: bool) -> CellOf:
    """`pods: 1/5, requests.cpu: 250m/2`: used and hard, of the names that begin with `limits.` or of the others."""

    def cell(quota: Doc, now: datetime) -> Cell:
        status = quota.get("status", {})
        hard, used = status.get("hard", {}), status.get("used", {})
        shown = [name for name in sorted(hard) if name.startswith("limits.") is limits]
        return ", ".join(f"{name}: {cells.size(used.get(name))}/{cells.size(hard[name])}" for name in shown)

    return cell


LAYOUTS = {
    ("", "Namespace"): Layout((NAME, Column("Status", text("status.phase"), field="status.phase"), AGE)),
    ("", "ConfigMap"): Layout((NAME, Column("Data", config_entries, field="data"), AGE)),
    ("", "Secret"): Layout(
        (
            NAME,
            Column("Type", text("type"), field="type"),
            Column("Data", of(lambda data: len(data or ()), "data"), field="data"),
            AGE,
        )
    ),
    ("", "ServiceAccount"): Layout((NAME, AGE)),
    ("coordination.k8s.io", "Lease"): Layout(
        (NAME, Column("Holder", text("spec.holderIdentity"), field="spec.holderIdentity"), AGE)
    ),
    ("scheduling.k8s.io", "PriorityClass"): Layout(
        (
            NAME,
            Column("Value", number("value"), type="integer", field="value"),
            Column("Global-Default", flag("globalDefault"), type="boolean", field="globalDefault"),
            AGE,
            Column("PreemptionPolicy", text("preemptionPolicy"), field="preemptionPolicy"),
        )
    ),
    ("", "PodTemplate"): Layout(
        (
            NAME,
            Column("Containers", template_cell("name"), about="Names of the containers in the template."),
            Column("Images", template_cell("image"), about="Images of the containers in the template."),
            Column("Pod Labels", of(cells.labels, "template.metadata.labels"), field="template.metadata.labels"),
        )
    ),
    ("", "ResourceQuota"): Layout(
        (
            NAME,
            Column("Request", quota_cell(limits=False), about="What is in use of each limit on requests and counts."),
            Column("Limit", quota_cell(limits=True), about="What is in use of each limit on limits."),
            AGE,
        )
    ),
    ("node.k8s.io", "RuntimeClass"): Layout((NAME, Column("Handler", text("handler"), field="handler"), AGE)),
    ("resource.k8s.io", "DeviceClass"): Layout((NAME, AGE)),
    ("resource.k8s.io", "ResourceClaim"): Layout(
        (
            NAME,
            Column("State", claim_state, about="Whether the claim has devices, and whether pods hold them."),
            AGE,
        )
    ),
    ("resource.k8s.io", "ResourceClaimTemplate"): Layout((NAME, AGE)),
    ("resource.k8s.io", "ResourceSlice"): Layout(
        (
            NAME,
            Column("Node", text("spec.nodeName"), field="spec.nodeName"),
            Column("Driver", text("spec.driver"), field="spec.driver"),
            Column("Pool", text("spec.pool.name"), field="spec.pool.name"),
            AGE,
        )
    ),
}


def bound_role(binding: Doc, now: datetime) -> Cell:
    """`ClusterRole/view`."""
    return f"{dig(binding, 'roleRef', 'kind') or ''}/{dig(binding, 'roleRef', 'name') or ''}"


def subjects_cell(kind: str) -> CellOf:
    """The subjects of one kind, accounts with their namespace."""

    def cell(binding: Doc, now: datetime) -> Cell:
        return ", ".join(_subject(each) for each in binding.get("subjects", ()) if each.get("kind") == kind)

    return cell


def _subject(subject: Doc) -> str:
    name = str(subject.get("name", ""))
    return f"{subject.get('namespace', '')}/{name}" if subject.get("kind") == "ServiceAccount" else name


_BINDING = Layout(
    (
        NAME,
        Column("Role", bound_role, field="roleRef"),
        AGE,
        Column("Users", subjects_cell("User"), wide=True, about="The users it is for."),
        Column("Groups", subjects_cell("Group"), wide=True, about="The groups it is for."),
        Column("ServiceAccounts", subjects_cell("ServiceAccount"), wide=True, about="The accounts it is for."),
    )
)
BINDING_LAYOUTS = {
    (RBAC, "ClusterRoleBinding"): _BINDING,
    (RBAC, "RoleBinding"): _BINDING,
}


def cluster_ip(service: Doc, now: datetime) -> Cell:
    spec = service.get("spec", {})
    first = next(iter(spec.get("clusterIPs", ())), None)
    return str(first or spec.get("clusterIP") or cells.NONE)


def external_ip(service: Doc, now: datetime) -> Cell:
    """Addresses from outside, by type; a load balancer that has none yet is `<pending>`."""
    spec = service.get("spec", {})
    given = list(spec.get("externalIPs", ()))
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or cells.NONE
        case "LoadBalancer":
            ingress = dig(service, "status", "loadBalancer", "ingress") or ()
            balancers = {str(point.get("ip") or point.get("hostname") or "") for point in ingress} - {""}
            return ",".join(sorted(balancers) + given) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return cells.UNKNOWN


def ports(service: Doc, now: datetime) -> Cell:
    """`80/TCP`, or `80:30080/TCP` where a node port leads to it."""
    return ",".join(map(_port, dig(service, "spec", "ports") or ())) or cells.NONE


def _port(port: Doc) -> str:
    inside = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])
    return f"{inside}/{port.get('protocol', '')}"


def pod_selector(policy: Doc, now: datetime) -> Cell:
    return cells.selector(dig(policy, "spec", "podSelector")) or cells.NONE


SERVICE_LAYOUTS = {
    ("", "Service"): Layout(
        (
            NAME,
            Column("Type", text("spec.type"), field="spec.type"),
            Column("Cluster-IP", cluster_ip, field="spec.clusterIP"),
            Column("External-IP", external_ip, field="spec.externalIPs"),
            Column("Port(s)", ports, field="spec.ports"),
            AGE,
            Column("Selector", of(cells.labels, "spec.selector"), wide=True, field="spec.selector"),
        )
    ),
    ("networking.k8s.io", "NetworkPolicy"): Layout(
        (NAME, Column("Pod-Selector", pod_selector, field="spec.podSelector"), AGE)
    ),
}


_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def status(node: Doc, now: datetime) -> Cell:
    """`Ready`, `NotReady` or `Unknown`, and `SchedulingDisabled` behind it when the node is cordoned."""
    is_ready = cells.condition_status(dig(node, "status", "conditions"), "Ready")
    word = {"True": "Ready", "": "Unknown"}.get(is_ready, "NotReady")
    return f"{word},SchedulingDisabled" if dig(node, "spec", "unschedulable") else word


def roles(node: Doc, now: datetime) -> Cell:
    """Names behind `node-role.kubernetes.io/`, and the value of `kubernetes.io/role`."""
    found = set()
    for key, value in (dig(node, "metadata", "labels") or {}).items():
        if key.startswith(_ROLE_PREFIX):
            found.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE_LABEL:
            found.add(value)
    return ",".join(sorted(found - {""})) or cells.NONE


def address(kind: str) -> CellOf:
    """The first address of a type."""
    return lambda node, now: next(
        (str(found["address"]) for found in dig(node, "status", "addresses") or () if found.get("type") == kind),
        cells.NONE,
    )


def kernel(node: Doc, now: datetime) -> Cell:
    """Kernel version with the architecture in brackets."""
    info = dig(node, "status", "nodeInfo") or {}
    version = info.get("kernelVersion") or cells.UNKNOWN
    return f"{version} ({info['architecture']})" if info.get("architecture") else str(version)


NODE_LAYOUTS = {
    ("", "Node"): Layout(
        (
            NAME,
            Column("Status", status, about="Whether the node is ready, and whether it takes new pods."),
            Column("Roles", roles, about="What the node is for, by its role labels."),
            AGE,
            Column("Version", text("status.nodeInfo.kubeletVersion"), field="status.nodeInfo.kubeletVersion"),
            Column("Internal-IP", address("InternalIP"), wide=True, field="status.addresses"),
            Column("External-IP", address("ExternalIP"), wide=True, field="status.addresses"),
            Column(
                "OS-Image",
                text("status.nodeInfo.osImage", cells.UNKNOWN),
                wide=True,
                field="status.nodeInfo.osImage",
            ),
            Column("Kernel-Version", kernel, wide=True, field="status.nodeInfo.kernelVersion"),
            Column(
                "Container-Runtime",
                text("status.nodeInfo.containerRuntimeVersion", cells.UNKNOWN),
                wide=True,
                field="status.nodeInfo.containerRuntimeVersion",
            ),
        )
    )
}
