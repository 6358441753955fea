"""Planning for pods whose claims need room that a node to come will have."""

from __future__ import annotations

from typing import Any

from pool_builders import member, stuck, template

from tonnage.nodescaler.node_pool import NodePool
from tonnage.nodescaler.plan import plan
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import Pod
from tonnage.testing.storage_builders import capacity, claim, csi_node, driver, storage_class

NO_ROOM = "node(s) did not have enough free storage"


def pool(**limits: Any) -> NodePool:
    """A pool whose nodes publish 100Gi for the class, and attach two volumes each."""
    storage = (to_doc(csi_node("burst", {"csi.example": 2})), to_doc(capacity(node="burst", free="100Gi")))
    return NodePool(template=template(), max_nodes=3, storage=storage, **limits)


def with_claim(name: str, nominated: str = "") -> Pod:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    return stuck(name, "1", nominated=nominated, spec={"volumes": volumes})


CLASS = (storage_class(), driver())


def test_a_pod_that_needs_room_is_planned_for_when_the_template_promises_it():
    objects = [*CLASS, claim("db", "60Gi"), with_claim("db")]
    assert plan(objects, pool()).proposals == {"default/db": "burst-1"}
    bare = NodePool(template=template(), max_nodes=3)
    assert plan(objects, bare).remaining_unschedulable == {"default/db": NO_ROOM}
    assert plan([*CLASS, claim("db", "101Gi"), with_claim("db")], pool()).remaining_unschedulable == {
        "default/db": NO_ROOM
    }


def test_room_is_counted_by_the_byte():
    # 100Gi a node: 60 and 40 go together, another 60 does not.
    sizes = {"a": "60Gi", "b": "40Gi", "c": "60Gi"}
    objects = [*CLASS, *(claim(name, size) for name, size in sizes.items()), *map(with_claim, sizes)]
    assert plan(objects, pool()).proposals == {"default/a": "burst-1", "default/b": "burst-1", "default/c": "burst-2"}


def test_a_node_that_is_ready_before_its_driver_has_spoken_keeps_its_pods():
    mine = with_claim("db", nominated="burst-1")
    objects = [*CLASS, claim("db", "60Gi"), mine, member("burst-1")]
    found = plan(objects, pool(), ours={mine.uid})
    assert (found.proposals, found.withdrawals, found.wanted) == ({}, (), ())


def test_what_a_driver_says_stands_once_it_has_spoken():
    # 50Gi there, 60Gi asked for: another node, as promised by the template.
    mine = with_claim("db", nominated="burst-1")
    said = (csi_node("burst-1", {"csi.example": 2}), capacity(node="burst-1", free="50Gi"))
    found = plan([*CLASS, claim("db", "60Gi"), mine, member("burst-1"), *said], pool(), ours={mine.uid})
    assert found.proposals == {"default/db": "burst-2"}
