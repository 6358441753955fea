"""Decoders of what storage writes: definitions of custom resources and their objects, what drivers publish, records.

A definition comes from a driver's installation, its objects from the driver's agents, a record from a disk that may
have been half-written: none of them may do more than be refused.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from support.definition_builders import DEFINITIONS
from tonnage.apiserver import bodies
from tonnage.documents.custom.custom_resource import CustomResource, custom_resource
from tonnage.driver.state.records import (
    SNAPSHOTS,
    VOLUMES,
    Capability,
    Publication,
    SnapshotRecord,
    Target,
    VolumeOrigin,
    VolumeRecord,
    read_records,
)
from tonnage.objects.codec import convert
from tonnage.objects.document import Doc, copy, encode
from tonnage.objects.resources import BY_KIND
from tonnage.objects.storage_v1 import StorageClass
from tonnage.pools.class_pools import PoolSource, Published
from tonnage.pools.sources.openebs import OpenEbsLvm, OpenEbsZfs
from tonnage.pools.sources.topolvm import TopoLvm

CRDS = BY_KIND["apiextensions.k8s.io/v1", "CustomResourceDefinition"]
UNIT = Path(__file__).parent.parent / "unit"


@cache
def definitions() -> list[Doc]:
    folder = UNIT / "documents" / "custom" / "definitions"
    return [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]


def read_definition(data: bytes) -> None:
    """What is let in can be served: compiled, told in OpenAPI and as a table, and an empty object judged by it."""
    doc = bodies.read_object(data, "application/json", CRDS, "Warn", [])
    DEFINITIONS.default(doc)
    DEFINITIONS.warnings(doc, None)
    if DEFINITIONS.validate(doc):
        return
    for version in doc["spec"]["versions"]:
        kind = custom_resource(doc, version["name"])
        kind.openapi_definition(is_v3=True)
        for column in kind.columns:
            column.definition()
        judge(kind, {"metadata": {"name": "x"}, "spec": {}, "status": []})


def read_custom_object(data: bytes) -> None:
    """What was pruned and filled stays so, whatever the object; errors are told, not raised."""
    doc, _ = bodies.read_document(data, "application/json", must_be="an object")
    for kind in kinds():
        judge(kind, copy(doc))


@cache
def kinds() -> list[CustomResource]:
    return [custom_resource(each, each["spec"]["versions"][0]["name"]) for each in definitions()]


def judge(kind: CustomResource, doc: Doc) -> None:
    kind.admit(doc)
    once = copy(doc)
    kind.admit(doc)
    assert doc == once, "a second reading reads otherwise"
    kind.validate(doc)
    kind.validate_update(doc, once)
    [column.cell(doc, lambda at: at) for column in kind.columns]


def read_published(data: bytes) -> None:
    """Objects of drivers and classes' parameters, as JSON: pools or a problem, never less than nothing free."""
    told, _ = bodies.read_document(data, "application/json", must_be="an object")
    parameters, objects = told.get("parameters"), told.get("objects")
    doc = {"metadata": {"name": "fast"}, "provisioner": "p", "parameters": parameters}
    storage_class = convert(StorageClass, doc)
    published = Published(nodes=(NODE,), objects=[each for each in as_list(objects) if isinstance(each, dict)])
    for source in SOURCES:
        found = source.pools_of(storage_class, published)
        assert all(size >= 0 for node in found.by_node.values() for size in node.free_bytes)


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


NODE: Doc = {
    "metadata": {
        "name": "node-1",
        "annotations": {"capacity.topolvm.io/00default": "5368709120", "capacity.topolvm.io/ssd": "1073741824"},
    }
}
SOURCES: tuple[PoolSource, ...] = (OpenEbsLvm(), OpenEbsZfs(), TopoLvm())


@cache
def recorded(name: str) -> list[Doc]:
    found: list[Doc] = yaml.safe_load((UNIT / "pools" / "recorded" / f"{name}.yaml").read_text())
    return found


@cache
def published_seeds() -> list[bytes]:
    lvm, zfs = recorded("lvmnodes"), recorded("zfsnodes")
    return [
        encode({"parameters": {"vgpattern": "^data-[0-9]+$", "thinProvision": "no"}, "objects": lvm}),
        encode({"parameters": {"poolname": "tank/child"}, "objects": zfs}),
        encode({"parameters": {"topolvm.io/device-class": "ssd"}, "objects": []}),
    ]


RECORDS: tuple[VolumeRecord | SnapshotRecord, ...] = (
    VolumeRecord(
        volume_id="vol-" + "0" * 32,
        name="pvc-1",
        order=1,
        node="node-1",
        pool=0,
        capacity_bytes=1 << 30,
        access_type="mount",
        parameters={"k": "v"},
        source=VolumeOrigin("snapshot", "snap-" + "1" * 32),
        published={"node-1": Publication(Capability("mount", 1))},
        targets=(Target("node-1", "/target", Capability("mount", 1)),),
    ),
    SnapshotRecord(
        snapshot_id="snap-" + "1" * 32,
        name="s",
        order=2,
        source_volume_id="vol-" + "0" * 32,
        node="node-1",
        pool=0,
        size_bytes=1 << 30,
        access_type="mount",
        created_at_ns=1,
    ),
)


def read_record_in(folder: Path, data: bytes) -> None:
    """A record that is read leads to its own contents, and is written as it was read."""
    record = RECORDS[b"snapshot_id" in data]
    path = folder / (VOLUMES if isinstance(record, VolumeRecord) else SNAPSHOTS) / f"{record.id}.json"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    try:
        found = read_records(folder)
    finally:
        path.unlink()
    assert [each.id for each in found] == [record.id]
    assert msgspec.json.decode(msgspec.json.encode(found[0]), type=type(record)) == found[0]
