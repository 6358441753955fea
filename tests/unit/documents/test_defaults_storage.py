"""Defaults of the storage kinds and of Node beyond the recorded cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tonnage.clock import SystemClock
from tonnage.documents.creation import strategies
from tonnage.documents.kinds.storage.persistent_volume_claim import mirror_data_sources
from tonnage.documents.kinds.storage.storage_class import default_class_for
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy

RULES = strategies(Gates(), SystemClock())
default_csi_driver = RULES["storage.k8s.io", "csidrivers"].default
default_claim = RULES["", "persistentvolumeclaims"].default
default_node = RULES["", "nodes"].default
default_persistent_volume = RULES["", "persistentvolumes"].default
default_storage_class = RULES["storage.k8s.io", "storageclasses"].default
default_volume_attachment = RULES["storage.k8s.io", "volumeattachments"].default

DEFAULT = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT = "storageclass.beta.kubernetes.io/is-default-class"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def storage_class(name: str, *, made: str = "2026-01-01T00:00:00Z", **annotations: str) -> Doc:
    return {"metadata": {"name": name, "creationTimestamp": made, "annotations": annotations}}


def default_one(name: str, *, made: str = "2026-01-01T00:00:00Z") -> Doc:
    return storage_class(name, made=made, **{DEFAULT: "true"})


def test_a_claim_without_a_class_gets_the_default_one() -> None:
    classes = [storage_class("a"), default_one("b"), storage_class("c", **{DEFAULT: "false"})]
    assert default_class_for({"spec": {}}, classes) == "b"
    assert default_class_for({"spec": {}}, [storage_class("c", **{BETA_DEFAULT: "true"})]) == "c"


def test_a_claim_that_names_a_class_keeps_it() -> None:
    classes = [default_one("b")]
    assert default_class_for({"spec": {"storageClassName": "a"}}, classes) is None
    assert default_class_for({"spec": {"storageClassName": ""}}, classes) is None
    assert default_class_for({"metadata": {"annotations": {BETA_CLASS: ""}}, "spec": {}}, classes) is None


def test_without_a_default_class_a_claim_stays_without() -> None:
    assert default_class_for({"spec": {}}, []) is None
    assert default_class_for({"spec": {}}, [storage_class("a")]) is None


def test_of_several_defaults_the_newest_wins_then_the_first_by_name() -> None:
    old = default_one("a", made="2026-01-01T00:00:00Z")
    new_z, new_m = (default_one(name, made="2026-01-02T00:00:00Z") for name in ("z", "m"))
    assert default_class_for({"spec": {}}, [old, new_z]) == "z"
    assert default_class_for({"spec": {}}, [new_z, old, new_m]) == "m"


def test_a_driver_gets_the_scaling_field_with_its_gate() -> None:
    doc: Doc = {}
    default_csi_driver(doc)
    assert doc["spec"]["preventPodSchedulingIfMissing"] is False
    doc = {}
    without = strategies(Gates().with_(VolumeLimitScaling=False), SystemClock())
    without["storage.k8s.io", "csidrivers"].default(doc)
    assert "preventPodSchedulingIfMissing" not in doc["spec"]


def test_what_is_said_is_not_overruled() -> None:
    said = {
        "attachRequired": False,
        "podInfoOnMount": True,
        "storageCapacity": True,
        "fsGroupPolicy": "None",
        "volumeLifecycleModes": ["Ephemeral"],
        "requiresRepublish": True,
        "seLinuxMount": True,
        "preventPodSchedulingIfMissing": True,
    }
    doc: Doc = {"spec": dict(said)}
    default_csi_driver(doc)
    assert doc["spec"] == said


def test_sources_get_their_own_defaults() -> None:
    doc: Doc = {"spec": {"azureDisk": {"diskName": "d", "diskURI": "u"}}}
    default_persistent_volume(doc)
    assert doc["spec"]["azureDisk"] == {
        "diskName": "d",
        "diskURI": "u",
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "readOnly": False,
        "kind": "Shared",
    }


def test_a_data_source_is_written_under_both_names() -> None:
    spec: Doc = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}}
    mirror_data_sources(spec)
    assert spec["dataSourceRef"] == spec["dataSource"]
    # Another namespace cannot be said by the old name.
    spec = {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "a", "namespace": "other"}}
    mirror_data_sources(spec)
    assert "dataSource" not in spec


@pytest.mark.parametrize(
    ("fill", "doc"),
    [
        (default_storage_class, {}),
        (default_volume_attachment, {}),
        (default_persistent_volume, {"spec": {"hostPath": {"path": "/x"}, "capacity": {"storage": "1.5Gi"}}}),
        (default_claim, {"spec": {"resources": {"requests": {"storage": "1500u"}}}}),
        (default_node, {"spec": {"podCIDR": "10.0.0.0/24"}, "status": {"capacity": {"cpu": "0.5"}}}),
    ],
)
def test_defaults_filled_twice_are_filled_once(fill: Callable[[Any], None], doc: Doc) -> None:
    fill(doc)
    once = copy(doc)
    fill(doc)
    assert doc == once
