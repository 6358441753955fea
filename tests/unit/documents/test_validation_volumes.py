"""PersistentVolumes: node affinity without the gate that makes it mutable, and what is excused."""

from __future__ import annotations

from typing import Any

from tonnage.documents.kinds.storage.persistent_volume import PersistentVolumeStrategy, sources_in
from tonnage.gates import Gates
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors
from tonnage.objects.resources import BY_PLURAL

SOURCES = sources_in("core.PersistentVolumeSpec")


def told(errors: Errors) -> list[str]:
    return [str(error) for error in errors]


def volume(**spec: Any) -> Doc:
    base = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "h"},
        "volumeMode": "Filesystem",
    }
    return {"metadata": {"name": "pv"}, "spec": base | spec}


def on(key: str, *values: str) -> Doc:
    """A node affinity with one requirement."""
    requirement = {"key": key, "operator": "In", "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


def strategy(*, is_mutable: bool = True) -> PersistentVolumeStrategy:
    gates = Gates.parse(f"MutablePVNodeAffinity={str(is_mutable).lower()}")
    return PersistentVolumeStrategy(BY_PLURAL["", "persistentvolumes"], gates)


def moved(new: Doc, old: Doc, *, is_mutable: bool) -> list[str]:
    return told(strategy(is_mutable=is_mutable).validate_update(new, old))


IMMUTABLE = "field is immutable, except for updating from beta label to GA"


def test_an_affinity_may_be_set_once() -> None:
    assert moved(volume(nodeAffinity=on("host", "a")), volume(), is_mutable=False) == []


def test_an_affinity_that_is_set_does_not_change() -> None:
    old, new = volume(nodeAffinity=on("host", "a")), volume(nodeAffinity=on("host", "b"))
    assert moved(old, old, is_mutable=False) == []
    assert moved(new, old, is_mutable=False) == [
        'nodeAffinity: Invalid value: {"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"host",'
        f'"Operator":"In","Values":["b"]}}],"MatchFields":null}}]}}}}: {IMMUTABLE}'
    ]


def test_an_affinity_that_is_set_does_not_go() -> None:
    old = volume(nodeAffinity=on("host", "a"))
    assert moved(volume(), old, is_mutable=False) == [f"nodeAffinity: Invalid value: null: {IMMUTABLE}"]


def test_an_affinity_changes_and_goes_where_it_is_mutable() -> None:
    old, new = volume(nodeAffinity=on("host", "a")), volume(nodeAffinity=on("host", "b"))
    assert moved(new, old, is_mutable=True) == []
    assert moved(volume(), old, is_mutable=True) == []


def test_a_beta_label_becomes_its_successor_and_not_back() -> None:
    beta = volume(nodeAffinity=on("failure-domain.beta.kubernetes.io/zone", "a"))
    successor = volume(nodeAffinity=on("topology.kubernetes.io/zone", "a"))
    elsewhere = volume(nodeAffinity=on("topology.kubernetes.io/zone", "b"))
    assert moved(successor, beta, is_mutable=False) == []
    assert len(moved(elsewhere, beta, is_mutable=False)) == 1
    assert len(moved(beta, successor, is_mutable=False)) == 1


def test_a_stored_affinity_with_a_bad_value_may_stay() -> None:
    old = volume(nodeAffinity=on("host", "a b"))
    assert len(strategy().validate(old)) == 1
    assert moved(old, old, is_mutable=True) == []


def test_a_volume_has_one_source_of_whatever_kind() -> None:
    for source in SOURCES:
        spec = volume(nodeAffinity=on("host", "a"), **{source: {}})["spec"]
        if source != "csi":
            del spec["csi"]
        found = told(strategy().validate({"metadata": {}, "spec": spec}))
        assert "spec: Required value: must specify a volume type" not in found, source
        assert found, f"an empty {source} lacks something"


def test_a_second_source_is_refused_whatever_its_kind() -> None:
    # hostPath is the first upstream looks for. A flexVolume is counted, but never refused for being second.
    for source in set(SOURCES) - {"hostPath", "flexVolume"}:
        spec = volume()["spec"]
        del spec["csi"]
        spec |= {source: {}, "hostPath": {"path": "/x"}}
        shown = "cephFS" if source == "cephfs" else source
        assert told(strategy().validate({"metadata": {}, "spec": spec})) == [
            f"spec.{shown}: Forbidden: may not specify more than 1 volume type"
        ]
