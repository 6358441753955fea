"""Owner references to objects, plain and controlling."""

from __future__ import annotations

import msgspec

from support.workload_builders import replica_set, stateful_set
from tonnage.behaviour.workloads.templates import controller_ref, owner_ref, refers_to
from tonnage.objects.codec import to_doc

WEB = replica_set("web")
NAMED = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": WEB.uid}


def test_a_plain_reference_names_the_owner_and_says_no_more() -> None:
    assert to_doc(owner_ref(WEB)) == NAMED


def test_a_controller_reference_manages_and_blocks() -> None:
    assert to_doc(controller_ref(WEB)) == {**NAMED, "controller": True, "blockOwnerDeletion": True}


def test_a_reference_is_to_every_life_of_a_name_and_to_no_other_kind() -> None:
    later = msgspec.structs.replace(WEB, metadata=msgspec.structs.replace(WEB.metadata, uid="later"))
    assert refers_to(controller_ref(WEB), later)
    assert not refers_to(controller_ref(WEB), replica_set("other"))
    assert not refers_to(controller_ref(WEB), stateful_set("web"))
