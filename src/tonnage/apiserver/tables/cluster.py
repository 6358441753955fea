"""The small kinds: namespaces, configuration, identities, leases, priorities and the device API."""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.column import AGE, NAME, Cell, CellOf, Column, Layout, flag, number, of, text
from tonnage.objects.document import Doc, dig


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
