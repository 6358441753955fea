"""A driver's entry in a CSINode: made from what it tells of itself, put in, left alone, taken out.

An entry is compared before anything is written: where node id, topology keys and count are what they were, there is
nothing to write. One that differs is removed and put at the end, as upstream does. Documents in, documents out; the
caller writes them with the resourceVersion that it read.
"""

from __future__ import annotations

from typing import Final

from tonnage.csi import csi_pb2 as csi
from tonnage.objects.document import Doc, copy, dig

_MAX_COUNT: Final = 2**31 - 1


def new_csi_node(node_name: str, node_uid: str) -> Doc:
    """A CSINode without drivers, which goes when its node goes."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node_name, "ownerReferences": [owner]},
        "spec": {"drivers": []},
    }


def belongs_to(csi_node: Doc, node_uid: str) -> bool:
    """Whether this is the CSINode of this life of the node, and not of one that was deleted."""
    owners = csi_node["metadata"].get("ownerReferences", ())
    return any(owner.get("kind") == "Node" and owner.get("uid") == node_uid for owner in owners)


def entry_of(driver: str, info: csi.NodeGetInfoResponse) -> Doc:
    """What a driver says of itself and this node. A count of 0 is unknown, and a negative one makes no sense."""
    entry: Doc = {"name": driver, "nodeID": info.node_id}
    if keys := sorted(info.accessible_topology.segments):
        entry["topologyKeys"] = keys
    if info.max_volumes_per_node > 0:
        entry["allocatable"] = {"count": min(info.max_volumes_per_node, _MAX_COUNT)}
    return entry


def with_entry(csi_node: Doc, entry: Doc, *, count_may_change: bool = True) -> Doc | None:
    """The CSINode with this entry; None when it has it already. Without `count_may_change` a count that is there stays.

    Mirrors installDriverToCSINode.
    """
    drivers = dig(csi_node, "spec", "drivers") or []
    before = next((driver for driver in drivers if driver["name"] == entry["name"]), None)
    if before is not None and not count_may_change:
        entry = {key: value for key, value in entry.items() if key != "allocatable"}
        if "allocatable" in before:
            entry["allocatable"] = before["allocatable"]
    if before is not None and _says(before) == _says(entry):
        return None
    changed: Doc = copy(csi_node)
    changed.setdefault("spec", {})["drivers"] = [each for each in drivers if each is not before] + [entry]
    return changed


def without_entry(csi_node: Doc, driver: str) -> Doc | None:
    """The CSINode without a driver; None when it is not there."""
    drivers = dig(csi_node, "spec", "drivers") or []
    left = [each for each in drivers if each["name"] != driver]
    if len(left) == len(drivers):
        return None
    changed: Doc = copy(csi_node)
    changed["spec"]["drivers"] = left
    return changed


def patch_to(csi_node: Doc) -> Doc:
    """The merge patch that gives a CSINode these drivers, if it is still in the state that was read."""
    metadata = {"uid": csi_node["metadata"]["uid"], "resourceVersion": csi_node["metadata"]["resourceVersion"]}
    return {"metadata": metadata, "spec": {"drivers": dig(csi_node, "spec", "drivers") or []}}


def _says(entry: Doc) -> tuple[object, ...]:
    return entry["nodeID"], frozenset(entry.get("topologyKeys", ())), dig(entry, "allocatable", "count")
