"""Longhorn: its own Node objects with their disks, and its Setting objects.

A disk takes a replica (`getDiskCandidates`, `IsDiskEligibleForVolume` and `IsSchedulableToDisk` in
scheduler/replica_scheduler.go) if node and disk allow scheduling, are not evicted and have the condition Schedulable,
the node is Ready, both have every tag of the class's `nodeSelector` and `diskSelector`, the disk is of the data
engine's type, the Node has no label that disables the engine, more than the minimal available percentage of the disk
is free, and

    size + storageScheduled <= int((storageMaximum - storageReserved) * over-provisioning percentage / 100)

The size is at least 10Mi, in steps of 2Mi. Among several disks Longhorn balances by what is free of them on the
system, which it does not publish for each decision: the result cannot be predicted.

`dataLocality: strict-local` has the one replica on the pod's node. Every other class has its replicas on any nodes, N
of them on N nodes, and a pod reaches them from everywhere: the room is the cluster's.

    N = 1    the disks of all nodes, as pools
    N > 1    a volume is at most what the N roomiest nodes can all take; all volumes together are at most the largest T
             for which the sum over nodes of min(room, T) is N * T (every volume uses a node once)
    sharded  `dataLayout.type: sharded` spreads parts of a volume over nodes: not counted, the class has no pools

Where Longhorn publishes capacity by node itself, its rule is kept: the pod's node must have room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from tonnage.objects.document import Doc, dig
from tonnage.objects.resources import Resource
from tonnage.objects.storage_v1 import StorageClass
from tonnage.pools import reading
from tonnage.pools.class_pools import ClassPools, NodePools, Pool, PoolSource, Published
from tonnage.pools.reading import bytes_of, copies_of, labels_of, name_of, newest_by_node, number_of, records, text_of

LONGHORN_NODES: Final = Resource("longhorn.io", "v1beta2", "Node", "nodes", True, ("lhn",))
LONGHORN_SETTINGS: Final = Resource("longhorn.io", "v1beta2", "Setting", "settings", True, ("lhs",))
_DEFAULTS: Final = {
    "storage-over-provisioning-percentage": "100",
    "storage-minimal-available-percentage": "25",
    "allow-empty-node-selector-volume": "true",
    "allow-empty-disk-selector-volume": "true",
    "allow-volume-creation-with-degraded-availability": "true",
    "default-replica-count": "3",
    "default-data-locality": "disabled",
}
"""Settings that decide, and their defaults (types/setting.go)."""
_DISK_TYPES: Final = {"v1": "filesystem", "v2": "block"}
_NOT_FOR_V2: Final = "node.longhorn.io/disable-v2-data-engine"
"""Label of a Node: with "true", no volume of the second engine is made there."""


class Longhorn(PoolSource):
    name = "longhorn"
    drivers = ("driver.longhorn.io",)
    kinds = (LONGHORN_NODES, LONGHORN_SETTINGS)
    has_agent = True

    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        parameters, problems = storage_class.parameters, list[str]()
        engine = parameters.get("dataEngine", "v1")
        settings = _settings(published.objects, engine, problems)
        told = parameters.get("numberOfReplicas", "0")
        copies = copies_of(settings["default-replica-count"] if told == "0" else told)
        is_local = (parameters.get("dataLocality") or settings["default-data-locality"]) == "strict-local"
        if copies is None or (is_local and copies != 1):
            what = "a number of replicas" if copies is None else "1, which strict-local needs"
            return ClassPools(problems=(f'parameters.numberOfReplicas "{told}" is not {what}',))
        if engine not in _DISK_TYPES:
            return ClassPools(problems=(f'parameters.dataEngine "{engine}" is not one of {", ".join(_DISK_TYPES)}',))
        if parameters.get("dataLayout.type") == "sharded":
            what = "a sharded volume takes parts of its size on several nodes, which is not counted"
            return ClassPools(problems=(f"parameters.dataLayout.type: {what}",))
        nodes = newest_by_node((doc for doc in published.objects if "value" not in doc), problems)
        closed = {name_of(node) for node in published.nodes if labels_of(node).get(_NOT_FOR_V2) == "true"}
        found: dict[str, NodePools] = {}
        for node, doc in nodes.items():
            takes = _takes_replicas(doc, _words(parameters.get("nodeSelector")), settings)
            takes = takes and not (engine == "v2" and node in closed)
            pools = _disks(doc, node, _DISK_TYPES[engine], parameters, settings, problems) if takes else ()
            found[node] = NodePools(tuple(pools), reading.written_at(doc))
        if is_local:
            return ClassPools.of(found, "unknown", problems)
        eligible = [node_pools for node_pools in found.values() if node_pools.pools]
        if settings["allow-volume-creation-with-degraded-availability"] == "true":
            copies = min(copies, max(len(eligible), 1))
        times = [node_pools.observed_at for node_pools in found.values() if node_pools.observed_at is not None]
        if len(eligible) < copies:
            problems.append(f"{copies} replicas need {copies} nodes, and {len(eligible)} of {len(found)} take replicas")
        anywhere = _anywhere(eligible, copies)
        most = anywhere.largest_bytes
        if most is not None:
            found = {node: each.cut_to(most) for node, each in found.items()}
        anywhere = NodePools(anywhere.pools, max(times, default=None), most)
        return ClassPools.of(found, "unknown", problems, copies=copies, anywhere=anywhere)


def _settings(objects: Iterable[Doc], engine: str, problems: list[str]) -> dict[str, str]:
    """The settings that decide, for a data engine. An unreadable number is reported, and the default counts."""
    told = {name_of(doc): _setting(text_of(doc.get("value")), engine) for doc in objects if "value" in doc}
    found = dict(_DEFAULTS)
    for name, default in _DEFAULTS.items():
        text = told.get(name) or default
        if default.isdecimal() and not text.isdecimal():
            problems.append(f'setting {name} is "{text}", which is not a number: {default} is used')
        else:
            found[name] = text
    return found


def _setting(text: str, engine: str) -> str:
    """A setting's value; some are JSON with a value for each data engine."""
    if text.startswith("{"):
        with suppress(msgspec.DecodeError):
            return text_of(msgspec.json.decode(text, type=dict[str, str]).get(engine))
    return text.strip().lower()


def _words(text: str | None) -> list[str]:
    """Tags as the driver splits them: at commas alone."""
    return text.split(",") if text else []


def _has_tags(tags: Any, wanted: Sequence[str], *, empty_takes_all: bool) -> bool:
    """Mirrors IsSelectorsInTags: every wanted tag is there; without any, tagged ones only if the setting says so."""
    found = [text_of(tag) for tag in tags] if isinstance(tags, list) else []
    return all(each in found for each in wanted) if wanted else empty_takes_all or not found


def _is_true(conditions: Doc, name: str) -> bool:
    return any(each.get("type") == name and each.get("status") == "True" for each in records(conditions, "conditions"))


def _takes_replicas(doc: Doc, tags: Sequence[str], settings: Mapping[str, str]) -> bool:
    spec, status = _map(doc.get("spec")), _map(doc.get("status"))
    return (
        spec.get("allowScheduling") is True
        and spec.get("evictionRequested") is not True
        and dig(doc, "metadata", "deletionTimestamp") is None
        and _is_true(status, "Ready")
        and _is_true(status, "Schedulable")
        and _has_tags(spec.get("tags"), tags, empty_takes_all=settings["allow-empty-node-selector-volume"] == "true")
    )


def _disks(
    doc: Doc, node: str, kind: str, parameters: Mapping[str, str], settings: Mapping[str, str], problems: list[str]
) -> Iterable[Pool]:
    tags, takes_all = _words(parameters.get("diskSelector")), settings["allow-empty-disk-selector-volume"] == "true"
    specs = _map(dig(doc, "spec", "disks"))
    for name, told in _map(dig(doc, "status", "diskStatus")).items():
        spec, status = _map(specs.get(name)), _map(told)
        if (
            spec.get("allowScheduling") is not True
            or spec.get("evictionRequested") is True
            or not _is_true(status, "Schedulable")
            or (text_of(spec.get("diskType")) or "filesystem") != kind
            or not _has_tags(spec.get("tags"), tags, empty_takes_all=takes_all)
        ):
            continue
        largest, available = bytes_of(status.get("storageMaximum")), bytes_of(status.get("storageAvailable"))
        if largest is None or available is None:
            problems.append(f"disk {name} of node {node} does not say how large it is, and how much of it is free")
            continue
        # In floating point, as Longhorn counts.
        minimal = int(float(largest) * float(settings["storage-minimal-available-percentage"]) / 100)
        usable = float(largest - number_of(spec.get("storageReserved")))
        limit = int(usable * float(settings["storage-over-provisioning-percentage"]) / 100)
        if largest and available > minimal:
            yield Pool(
                text_of(status.get("diskUUID")) or name, max(limit - number_of(status.get("storageScheduled")), 0)
            )


def _anywhere(eligible: Sequence[NodePools], copies: int) -> NodePools:
    """The room of all nodes for volumes with this many copies."""
    if copies == 1:
        return NodePools(tuple(pool for node_pools in eligible for pool in node_pools.pools))
    if len(eligible) < copies:
        return NodePools((), largest_bytes=0)
    rooms = sorted((sum(node_pools.free_bytes) for node_pools in eligible), reverse=True)
    total = min(sum(rooms[above:]) // (copies - above) for above in range(copies))
    largest = sorted((node_pools.free_bytes[0] for node_pools in eligible), reverse=True)[copies - 1]
    return NodePools((Pool("all nodes", total),), largest_bytes=largest)


def _map(told: Any) -> Doc:
    return told if isinstance(told, dict) else {}
