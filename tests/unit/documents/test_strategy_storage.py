"""The storage strategies with their gates on and off, and what each endpoint may write.

Of a gate that is off upstream's rule is: a new value is dropped before anyone judges it; a stored one stays, may be
changed, and once taken away does not come back. With the gate on again everything is as before.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from support.virtual_clock import VirtualClock
from tonnage.documents.kinds.node import NodeStrategy
from tonnage.documents.kinds.storage.csi import CSIDriverStrategy, CSINodeStrategy, CSIStorageCapacityStrategy
from tonnage.documents.kinds.storage.persistent_volume import PersistentVolumeStrategy
from tonnage.documents.kinds.storage.persistent_volume_claim import PersistentVolumeClaimStrategy
from tonnage.documents.kinds.storage.storage_class import StorageClassStrategy
from tonnage.documents.kinds.storage.volume_attachment import VolumeAttachmentStrategy
from tonnage.documents.strategy import Generation, Strategy
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.resources import BY_KIND, Resource

CSI = "storage.k8s.io/v1"


def resource(kind: str) -> Resource:
    return BY_KIND["v1" if ("v1", kind) in BY_KIND else CSI, kind]


def without(gate: str) -> Gates:
    return Gates.parse(f"{gate}=false")


def created(strategy: Strategy, doc: Doc) -> Doc:
    doc = copy(doc)
    strategy.default(doc)
    strategy.drop_disabled_fields(doc, {})
    strategy.prepare_create(doc)
    assert strategy.validate(doc) == []
    return doc


def updated(strategy: Strategy, new: Doc, old: Doc) -> tuple[Doc, list[str]]:
    new = copy(new)
    strategy.default(new)
    strategy.drop_disabled_fields(new, old)
    strategy.prepare_update(new, old)
    return new, [str(error) for error in strategy.validate_update(new, old)]


def status_updated(strategy: Strategy, new: Doc, old: Doc) -> tuple[Doc, list[str]]:
    new = copy(new)
    strategy.default(new)
    strategy.prepare_status(new, old)
    return new, [str(error) for error in strategy.validate_status(new, old)]


# -- fields that come and go with a gate ------------------------------------------------------------------------------


def capacity(pools: list[str] | None) -> Doc:
    doc: Doc = {"metadata": {"name": "c"}, "storageClassName": "fast"}
    return doc if pools is None else doc | {"availableCapacities": pools}


def driver(field: str, value: Any) -> Doc:
    return {"metadata": {"name": "d"}, "spec": {} if value is None else {field: value}}


# gate, strategy, a document with a value (None: without), path of the field, two legal values, one that is not.
GATED = [
    pytest.param(
        "CSIStorageCapacityV2",
        CSIStorageCapacityStrategy,
        "CSIStorageCapacity",
        capacity,
        ("availableCapacities",),
        (["1Gi", "2Gi"], ["3Gi"], ["-1Gi"]),
        id="availableCapacities",
    ),
    pytest.param(
        "CSIStorageCapacityV2",
        CSIDriverStrategy,
        "CSIDriver",
        lambda value: driver("volumeRebuilding", value),
        ("spec", "volumeRebuilding"),
        (True, False, None),
        id="volumeRebuilding",
    ),
    pytest.param(
        "MutableCSINodeAllocatableCount",
        CSIDriverStrategy,
        "CSIDriver",
        lambda value: driver("nodeAllocatableUpdatePeriodSeconds", value),
        ("spec", "nodeAllocatableUpdatePeriodSeconds"),
        (10, 60, 9),
        id="nodeAllocatableUpdatePeriodSeconds",
    ),
    pytest.param(
        "VolumeLimitScaling",
        CSIDriverStrategy,
        "CSIDriver",
        lambda value: driver("preventPodSchedulingIfMissing", value),
        ("spec", "preventPodSchedulingIfMissing"),
        (True, False, None),
        id="preventPodSchedulingIfMissing",
    ),
]


@pytest.mark.parametrize(("gate", "strategy_class", "kind", "doc", "path", "values"), GATED)
def test_a_gated_field_is_kept_with_its_gate_on(
    gate: str, strategy_class: type[Strategy], kind: str, doc: Any, path: tuple[str, ...], values: tuple[Any, ...]
) -> None:
    first, second, _ = values
    strategy = strategy_class(resource(kind), Gates())
    stored = created(strategy, doc(first))
    assert dig(stored, *path) == first
    changed, errors = updated(strategy, doc(second), stored)
    assert (dig(changed, *path), errors) == (second, [])


@pytest.mark.parametrize(("gate", "strategy_class", "kind", "doc", "path", "values"), GATED)
def test_a_new_value_is_dropped_unseen_with_the_gate_off(
    gate: str, strategy_class: type[Strategy], kind: str, doc: Any, path: tuple[str, ...], values: tuple[Any, ...]
) -> None:
    first, _, illegal = values
    strategy = strategy_class(resource(kind), without(gate))
    stored = created(strategy, doc(first))
    assert dig(stored, *path) is None
    changed, errors = updated(strategy, doc(first), stored)
    assert (dig(changed, *path), errors) == (None, [])
    # Nobody judges what is dropped.
    assert dig(created(strategy, doc(illegal)), *path) is None


@pytest.mark.parametrize(("gate", "strategy_class", "kind", "doc", "path", "values"), GATED)
def test_a_stored_value_outlives_its_gate(
    gate: str, strategy_class: type[Strategy], kind: str, doc: Any, path: tuple[str, ...], values: tuple[Any, ...]
) -> None:
    first, second, illegal = values
    on, off = strategy_class(resource(kind), Gates()), strategy_class(resource(kind), without(gate))
    stored = created(on, doc(first))
    kept, errors = updated(off, doc(first), stored)
    assert (dig(kept, *path), errors) == (first, [])
    changed, errors = updated(off, doc(second), kept)
    assert (dig(changed, *path), errors) == (second, [])
    if illegal is not None:
        assert updated(off, doc(illegal), changed)[1] != []
    removed, errors = updated(off, doc(None), changed)
    assert (dig(removed, *path), errors) == (None, [])
    again, errors = updated(off, doc(first), removed)
    assert (dig(again, *path), errors) == (None, [])
    back, errors = updated(on, doc(first), again)
    assert (dig(back, *path), errors) == (first, [])


# -- error codes of attachments ---------------------------------------------------------------------------------------


def attachment(**status: Any) -> Doc:
    source = {"persistentVolumeName": "pv"}
    spec = {"attacher": "d", "nodeName": "n", "source": source}
    return {"metadata": {"name": "a"}, "spec": spec, "status": {"attached": False} | status}


def attachments(gates: Gates) -> VolumeAttachmentStrategy:
    return VolumeAttachmentStrategy(resource("VolumeAttachment"), gates)


def test_an_error_code_is_written_through_status_alone() -> None:
    strategy = attachments(Gates())
    stored = created(strategy, attachment(attachError={"errorCode": 8}))
    assert stored["status"] == {"attached": False}
    plain, errors = updated(strategy, attachment(attachError={"errorCode": 8}), stored)
    assert (plain["status"], errors) == ({"attached": False}, [])
    failed, errors = status_updated(strategy, attachment(attachError={"errorCode": 8, "message": "full"}), stored)
    assert (failed["status"]["attachError"], errors) == ({"errorCode": 8, "message": "full"}, [])


def test_a_negative_error_code_is_refused() -> None:
    found = status_updated(attachments(Gates()), attachment(detachError={"errorCode": -1}), attachment())[1]
    assert found == ["status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive"]


def test_with_the_gate_off_each_error_keeps_only_a_code_it_had() -> None:
    strategy = attachments(without("MutableCSINodeAllocatableCount"))
    stored = attachment(attachError={"errorCode": 8, "message": "full"})
    both = attachment(attachError={"errorCode": 9}, detachError={"errorCode": 8, "message": "stuck"})
    new, errors = status_updated(strategy, both, stored)
    assert errors == []
    assert new["status"]["attachError"] == {"errorCode": 9}
    assert new["status"]["detachError"] == {"message": "stuck"}
    # Dropped before it is judged, so that a negative one is no error.
    bare, errors = status_updated(strategy, attachment(attachError={"errorCode": -1}), attachment())
    assert (bare["status"]["attachError"], errors) == ({}, [])


def test_a_status_write_changes_no_labels() -> None:
    stored = attachment() | {"metadata": {"name": "a", "labels": {"a": "1"}, "finalizers": ["x.y/z"]}}
    wanted = attachment(attached=True) | {"metadata": {"name": "a", "annotations": {"b": "2"}}}
    new, errors = status_updated(attachments(Gates()), wanted, stored)
    assert errors == []
    assert new["metadata"] == {"name": "a", "labels": {"a": "1"}, "finalizers": ["x.y/z"]}
    assert new["status"] == {"attached": True}


# -- what a gate makes mutable ----------------------------------------------------------------------------------------


def test_an_attach_limit_changes_with_its_gate() -> None:
    old = {"spec": {"drivers": [{"name": "d", "nodeID": "i", "allocatable": {"count": 1}}]}}
    new = {"spec": {"drivers": [{"name": "d", "nodeID": "i", "allocatable": {"count": 2}}]}}
    assert updated(CSINodeStrategy(resource("CSINode"), Gates()), new, old)[1] == []
    off = CSINodeStrategy(resource("CSINode"), without("MutableCSINodeAllocatableCount"))
    assert updated(off, new, old)[1] == [
        'spec.drivers: Invalid value: {"Name":"d","NodeID":"i","TopologyKeys":null,"Allocatable":{"Count":2}}: '
        "field is immutable"
    ]


def volume(host: str | None) -> Doc:
    spec: Doc = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "h"},
    }
    if host is not None:
        requirement = {"key": "host", "operator": "In", "values": [host]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
    return {"metadata": {"name": "pv"}, "spec": spec}


def test_a_node_affinity_changes_with_its_gate() -> None:
    on = PersistentVolumeStrategy(resource("PersistentVolume"), Gates())
    off = PersistentVolumeStrategy(resource("PersistentVolume"), without("MutablePVNodeAffinity"))
    stored = created(on, volume("a"))
    for wanted in (volume("b"), volume(None)):
        assert updated(on, wanted, stored)[1] == []
        assert len(updated(off, wanted, stored)[1]) == 1
    assert updated(off, volume("a"), created(off, volume(None)))[1] == []


# -- status and spec --------------------------------------------------------------------------------------------------


def test_a_volumes_phase_remembers_when_it_changed() -> None:
    clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    strategy = PersistentVolumeStrategy(resource("PersistentVolume"), Gates(), clock=clock)
    pending = created(strategy, volume(None) | {"status": {"phase": "Bound"}})
    assert pending["status"] == {"phase": "Pending", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"}
    clock.advance(60)
    bound, _ = status_updated(strategy, pending | {"status": {"phase": "Bound"}}, pending)
    assert bound["status"] == {"phase": "Bound", "lastPhaseTransitionTime": "2026-01-01T00:01:00Z"}
    clock.advance(60)
    # The phase stays: so does its time. A writer who reads and writes back the old time did not mean it.
    same, _ = status_updated(strategy, bound | {"status": {"phase": "Bound", "message": "m"}}, bound)
    assert same["status"]["lastPhaseTransitionTime"] == "2026-01-01T00:01:00Z"
    released, _ = status_updated(strategy, bound | {"status": bound["status"] | {"phase": "Released"}}, bound)
    assert released["status"]["lastPhaseTransitionTime"] == "2026-01-01T00:02:00Z"
    own = {"phase": "Failed", "lastPhaseTransitionTime": "2025-12-31T00:00:00Z"}
    assert status_updated(strategy, bound | {"status": own}, bound)[0]["status"] == own


def test_a_claim_starts_pending_and_its_spec_is_not_written_through_status() -> None:
    strategy = PersistentVolumeClaimStrategy(resource("PersistentVolumeClaim"), Gates())
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    stored = created(strategy, {"metadata": {"name": "c"}, "spec": spec, "status": {"phase": "Bound"}})
    assert stored["status"] == {"phase": "Pending"}
    new, errors = status_updated(
        strategy, {"metadata": {"name": "c"}, "spec": {"volumeName": "x"}, "status": {"phase": "Bound"}}, stored
    )
    assert errors == []
    assert (new["spec"], new["status"]) == (stored["spec"], {"phase": "Bound"})


def test_a_claim_stored_under_the_old_name_of_its_source_stays_writable() -> None:
    strategy = PersistentVolumeClaimStrategy(resource("PersistentVolumeClaim"), Gates())
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"}
    source = {"kind": "PersistentVolumeClaim", "name": "a"}
    stored = {"metadata": {"name": "c"}, "spec": spec | {"dataSource": source}, "status": {"phase": "Pending"}}
    before = copy(stored)
    new, errors = updated(strategy, stored | {"metadata": {"name": "c", "labels": {"a": "b"}}}, stored)
    assert errors == []
    assert new["spec"]["dataSourceRef"] == source
    assert stored == before


def test_a_node_is_created_with_its_status_and_then_written_apart() -> None:
    strategy = NodeStrategy(resource("Node"), Gates())
    stored = created(strategy, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}})
    assert stored["status"]["allocatable"] == {"cpu": "2"}
    plain, _ = updated(strategy, {"metadata": {"name": "n"}, "spec": {"unschedulable": True}}, stored)
    assert plain["spec"] == {"unschedulable": True}
    assert plain["status"] == stored["status"]
    status, _ = status_updated(strategy, plain | {"spec": {}, "status": {"phase": "Running"}}, plain)
    assert status["spec"] == {"unschedulable": True}
    assert status["status"]["phase"] == "Running"


# -- how a kind behaves as a whole ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "generation", "unconditional"),
    [
        (CSIDriverStrategy, Generation.LATE, False),
        (CSINodeStrategy, Generation.NONE, False),
        (CSIStorageCapacityStrategy, Generation.NONE, False),
        (VolumeAttachmentStrategy, Generation.NONE, False),
        (StorageClassStrategy, Generation.NONE, True),
        (PersistentVolumeStrategy, Generation.NONE, True),
        (PersistentVolumeClaimStrategy, Generation.NONE, True),
        (NodeStrategy, Generation.NONE, True),
    ],
)
def test_generation_and_unconditional_updates_are_upstreams(
    strategy: type[Strategy], generation: Generation, unconditional: bool
) -> None:
    assert (strategy.generation, strategy.unconditional_update) == (generation, unconditional)


def test_only_a_driver_that_changed_counts_a_generation() -> None:
    strategy = CSIDriverStrategy(resource("CSIDriver"), Gates())
    stored = created(strategy, driver("volumeRebuilding", None))
    relabelled, _ = updated(strategy, stored | {"metadata": {"name": "d", "labels": {"a": "b"}}}, stored)
    assert not strategy.spec_changed(relabelled, stored)
    rebuilt, _ = updated(strategy, driver("volumeRebuilding", True), stored)
    assert strategy.spec_changed(rebuilt, stored)
