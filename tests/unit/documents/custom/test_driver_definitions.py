"""Definitions with the fields of storage drivers' own, and documents as those drivers write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.definition_builders import DEFINITIONS, read_definition
from tonnage.documents.custom.custom_resource import CustomResource, custom_resource
from tonnage.documents.custom.definition_rules import accept_names, establish, is_established
from tonnage.objects.document import Doc

FOLDER = Path(__file__).parent / "definitions"
FILES = sorted(FOLDER.glob("*.yaml"))
NOW = "2026-01-01T00:00:00Z"


def kind_of(stem: str) -> CustomResource:
    return next(iter(kinds_of(stem).values()))


def kinds_of(stem: str) -> dict[str, CustomResource]:
    made = read_definition(FOLDER / f"{stem}.yaml")
    return {each["name"]: custom_resource(made, each["name"]) for each in made["spec"]["versions"] if each["served"]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_drivers_definition_is_accepted_and_established(path: Path) -> None:
    made = read_definition(path)
    assert [str(error) for error in DEFINITIONS.validate(made)] == []
    assert DEFINITIONS.warnings(made, None) == []
    accept_names(made, [], NOW)
    assert establish(made, NOW)
    assert is_established(made)


def volume_group(**fields: object) -> Doc:
    return {
        "name": "lvmvg", "uuid": "u", "size": "100Gi", "free": 107374182400, "lvCount": 0, "pvCount": 1, "maxLv": 0,
        "maxPv": 0, "snapCount": 0, "missingPvCount": 0, "permissions": 0, "allocationPolicy": 0, **fields,
    }  # fmt: skip


def lvm_node(*groups: Doc) -> Doc:
    return {
        "apiVersion": "local.openebs.io/v1alpha1",
        "kind": "LVMNode",
        "metadata": {"name": "node-1", "namespace": "openebs"},
        "volumeGroups": list(groups),
    }


def test_an_lvm_node_lists_its_groups_with_quantities_or_numbers() -> None:
    kind = kind_of("lvmnodes")
    good = lvm_node(volume_group(), volume_group(name="b", size=5, free="1.5Ti"))
    assert kind.admit(good).unknown == []
    assert kind.validate(good) == []
    bad = lvm_node(volume_group(free="100 gigs", lvCount=-1, name=""))
    assert [error.field for error in kind.validate(bad)] == [
        "volumeGroups[0].name", "volumeGroups[0].free", "volumeGroups[0].lvCount",
    ]  # fmt: skip
    assert [str(error) for error in kind.validate({**lvm_node(), "volumeGroups": [{}]})][:2] == [
        "volumeGroups[0].allocationPolicy: Required value",
        "volumeGroups[0].free: Required value",
    ]


def test_an_lvm_volume_shows_its_columns_and_has_a_status_of_its_own() -> None:
    kind = kind_of("lvmvolumes")
    assert kind.subresources == ("status",)
    assert kind.short_names == ("lvmvol",)
    doc = {
        "metadata": {"creationTimestamp": NOW},
        "spec": {"volGroup": "lvmvg", "ownerNodeID": "node-1", "capacity": "1073741824"},
        "status": {"state": "Ready"},
    }
    assert [column.name for column in kind.columns] == [
        "VolGroup",
        "Node",
        "Size",
        "Status",
        "Age",
    ]
    assert [column.cell(doc, lambda text: "3d") for column in kind.columns] == [
        "lvmvg",
        "node-1",
        "1073741824",
        "Ready",
        "3d",
    ]


def test_a_zfs_node_is_served_in_two_versions_of_one_shape() -> None:
    kinds = kinds_of("zfsnodes")
    assert list(kinds) == ["v1", "v1alpha1"]
    pool = {"name": "zfspv", "uuid": "u", "free": "20Gi", "used": "1Gi"}
    for name, kind in kinds.items():
        doc = {"apiVersion": f"zfs.openebs.io/{name}", "kind": "ZFSNode", "metadata": {"name": "n"}, "pools": [pool]}
        assert kind.admit(doc).unknown == []
        assert kind.validate(doc) == []


def test_a_logical_volume_of_topolvm_is_cluster_scoped() -> None:
    kind = kind_of("logicalvolumes")
    assert not kind.namespaced
    doc = {
        "apiVersion": "topolvm.io/v1", "kind": "LogicalVolume", "metadata": {"name": "pvc-1"},
        "spec": {"name": "pvc-1", "nodeName": "n", "size": "1Gi", "deviceClass": "ssd"},
        "status": {"volumeID": "v", "code": 0, "currentSize": 5},
    }  # fmt: skip
    assert kind.admit(doc).unknown == []
    assert kind.validate(doc) == []
    doc["spec"] = {"name": "x"}
    assert [str(error) for error in kind.validate(doc)] == [
        "spec.nodeName: Required value",
        "spec.size: Required value",
    ]


def test_a_version_that_does_not_exist_has_no_kind() -> None:
    with pytest.raises(KeyError):
        custom_resource(read_definition(FILES[0]), "v9")
