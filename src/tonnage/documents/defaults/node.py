"""Defaults of Node: what it offers is what it has, unless it says otherwise; two names for its pod ranges."""

from __future__ import annotations

from tonnage.documents.defaults.amounts import round_amounts
from tonnage.objects.document import Doc

# A Go server writes these structs whole, even for a node that has told nothing yet, and clients read them unasked.
_SYSTEM_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def default_node(doc: Doc) -> None:
    """Mirrors SetDefaults_NodeStatus, and the conversion that keeps podCIDR and podCIDRs alike."""
    spec, status = doc.setdefault("spec", {}), doc.setdefault("status", {})
    _default_pod_ranges(spec)
    if spec.get("unschedulable") is False:
        del spec["unschedulable"]
    for taint in spec.get("taints", []):
        if taint.get("value") == "":
            del taint["value"]
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    round_amounts(status.get("capacity"))
    round_amounts(status.get("allocatable"))
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    info = status.setdefault("nodeInfo", {})
    for field in _SYSTEM_INFO:
        info.setdefault(field, "")


def _default_pod_ranges(spec: Doc) -> None:
    """`podCIDR` is the first of `podCIDRs`; where they differ it wins, for an old client knows only the one."""
    single, ranges = spec.pop("podCIDR", ""), spec.get("podCIDRs", [])
    if single and ranges[:1] != [single]:
        ranges = spec["podCIDRs"] = [single]
    if ranges:
        spec["podCIDR"] = ranges[0]
