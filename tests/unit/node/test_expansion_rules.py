"""When the node has to do its half of an expansion, and what the claim says afterwards."""

from __future__ import annotations

from typing import Any

from tonnage.documents.patches.strategic_merge import strategic_merge
from tonnage.documents.schema import schema_of
from tonnage.node.mounts.mounter import finished_patch, pending_size
from tonnage.objects.codec import convert, to_doc
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.quantity import Quantity
from tonnage.testing.storage_builders import claim, volume


def sized(capacity: str = "1Gi", **status: Any) -> PersistentVolumeClaim:
    doc = {"apiVersion": "v1", **to_doc(claim("data", "2Gi", volume="pv-1"))}
    doc["status"] |= {"capacity": {"storage": capacity}, **status}
    return convert(PersistentVolumeClaim, doc)


def test_a_volume_that_is_larger_than_its_claim_says_is_expanded():
    assert pending_size(sized("1Gi"), volume("pv-1", "2Gi")) == Quantity.of("2Gi")


def test_a_claim_as_large_as_its_volume_or_without_a_capacity_needs_nothing():
    assert pending_size(sized("2Gi"), volume("pv-1", "2Gi")) is None
    assert pending_size(sized("3Gi"), volume("pv-1", "2Gi")) is None
    assert pending_size(claim("data", volume="pv-1"), volume("pv-1", "2Gi")) is None


def test_the_node_waits_while_the_controller_side_is_at_it():
    busy = sized("1Gi", allocatedResourceStatuses={"storage": "ControllerResizeInProgress"})
    assert pending_size(busy, volume("pv-1", "2Gi")) is None
    pending = sized("1Gi", allocatedResourceStatuses={"storage": "NodeResizePending"})
    assert pending_size(pending, volume("pv-1", "2Gi")) == Quantity.of("2Gi")


def test_afterwards_the_claim_has_the_new_size_and_no_word_of_resizing():
    conditions = [{"type": "FileSystemResizePending", "status": "True"}, {"type": "Other", "status": "True"}]
    before = sized("1Gi", conditions=conditions, allocatedResourceStatuses={"storage": "NodeResizePending"})
    patch = finished_patch(before, Quantity.of("2Gi"))
    doc = {"apiVersion": "v1", **to_doc(before)}
    after = convert(
        PersistentVolumeClaim,
        strategic_merge(schema_of("", "v1", "PersistentVolumeClaim"), doc, {"status": patch["status"]}),
    )
    assert str(after.status.capacity["storage"]) == "2Gi"
    assert [each.type for each in after.status.conditions] == ["Other"]
    assert after.status.allocated_resource_statuses == {}
