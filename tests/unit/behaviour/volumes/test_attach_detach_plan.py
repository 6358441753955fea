"""Where a volume is attached and from where it goes: nodes that hold on, that are lost, and that want it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tonnage.behaviour.volumes.attach_detach_plan import (
    AttachDetachPlan,
    allows_many_nodes,
    needs_attaching,
    plan,
)
from tonnage.clock import parse_rfc3339
from tonnage.controllers.volumes.attach_detach import attached_note, failed_note, multi_attach_note
from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.meta import Condition
from tonnage.objects.storage_v1 import VolumeAttachment, attachment_name, unique_volume_name
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import DRIVER, csi_node, driver, volume
from tonnage.testing.storage_builders import attachment as attachment_of

PV = volume("pv", handle="h")
NAME = unique_volume_name(DRIVER, "h")


def state(*, is_ready: bool = False, in_use: tuple[str, ...] = (), **options: Any) -> Node:
    found = node("n", **options)
    conditions = (Condition(type="Ready", status="True"),) if is_ready else ()
    return replace(found, status=replace(found.status, conditions=conditions, volumes_in_use=in_use))


READY, MOUNTED, LOST = state(is_ready=True), state(is_ready=True, in_use=(NAME,)), state(in_use=(NAME,))
GONE = None


def on(name: str, *, is_going: bool = False) -> VolumeAttachment:
    found = attachment_of(attachment_name("h", DRIVER, name), "pv", name)
    deleted_at = parse_rfc3339("2026-11-15T00:00:00Z") if is_going else None
    return replace(found, metadata=replace(found.metadata, deletion_timestamp=deleted_at))


def drawn(
    *wanted: str,
    at: tuple[VolumeAttachment, ...] = (),
    states: Mapping[str, Node | None] | None = None,
    drivers: Mapping[str, int | None] | None = None,
    pv: PersistentVolume = PV,
    unwanted_s: float = 0.0,
    **options: Any,
) -> AttachDetachPlan:
    known, registered = states or {}, csi_node("n", {DRIVER: 3} if drivers is None else drivers)
    return plan(
        pv, wanted, at, lambda name: known.get(name, READY), lambda _: registered, lambda _: unwanted_s, **options
    )


def detached(found: AttachDetachPlan) -> list[tuple[str, bool]]:
    return [(attachment.spec.node_name, is_forced) for attachment, is_forced in found.detach]


def test_names_are_those_that_kubelets_compute() -> None:
    # echo -n "vol-1csi.examplenode-1" | sha256sum
    assert attachment_name("vol-1", "csi.example", "node-1") == (
        "csi-f20516bb0708be9dc03626b69ff5871a92939c9852140d6de257409ba2f03ad7"
    )
    assert unique_volume_name("csi.example", "vol-1") == "kubernetes.io/csi/csi.example^vol-1"


def test_a_wanted_volume_is_attached_once() -> None:
    assert drawn("a").attach == ("a",)
    assert drawn("a", at=(on("a"),)) == AttachDetachPlan()


def test_nothing_is_attached_to_a_node_that_is_gone_or_lacks_the_driver() -> None:
    assert drawn("a", states={"a": GONE}) == AttachDetachPlan()
    assert drawn("a", drivers={}) == AttachDetachPlan(without_driver=("a",))
    assert drawn("a", drivers={"other": 3}) == AttachDetachPlan(without_driver=("a",))


def test_a_volume_of_one_node_goes_to_the_first_that_wants_it() -> None:
    assert drawn("a", "b") == AttachDetachPlan(attach=("a",), attached_elsewhere={"b": ("a",)})


def test_a_volume_of_one_node_waits_until_the_other_attachment_is_really_gone() -> None:
    waiting = drawn("b", at=(on("a"),))
    assert (waiting.attach, waiting.attached_elsewhere, detached(waiting)) == ((), {"b": ("a",)}, [("a", False)])
    assert drawn("b", at=(on("a", is_going=True),)) == AttachDetachPlan(attached_elsewhere={"b": ("a",)})
    assert drawn("b").attach == ("b",)


def test_a_volume_of_many_nodes_goes_to_all_of_them() -> None:
    shared = volume("pv", handle="h", modes=["ReadWriteMany"])
    assert drawn("a", "b", pv=shared).attach == ("a", "b")
    assert drawn("b", at=(on("a", is_going=True),), pv=shared).attach == ("b",)
    assert allows_many_nodes(volume("v", modes=["ReadOnlyMany"])) and allows_many_nodes(volume("v", modes=[]))
    assert not allows_many_nodes(volume("v", modes=["ReadWriteOncePod"]))


def test_a_volume_that_the_node_uses_stays() -> None:
    assert drawn(at=(on("a"),), states={"a": MOUNTED}, unwanted_s=1e6) == AttachDetachPlan()


def test_a_volume_that_the_node_let_go_of_is_detached() -> None:
    assert detached(drawn(at=(on("a"),))) == [("a", False)]


def test_a_lost_node_is_waited_for_six_minutes() -> None:
    waiting = drawn(at=(on("a"),), states={"a": LOST}, unwanted_s=100.0)
    # 360 s - 100 s.
    assert (waiting.detach, waiting.again_s) == ((), 260.0)
    assert detached(drawn(at=(on("a"),), states={"a": LOST}, unwanted_s=360.0)) == [("a", True)]


def test_a_lost_node_keeps_its_volumes_when_force_is_forbidden() -> None:
    assert drawn(at=(on("a"),), states={"a": LOST}, unwanted_s=1e6, force_on_timeout=False) == AttachDetachPlan()


def test_a_node_that_is_gone_or_out_of_service_is_not_waited_for() -> None:
    out = state(in_use=(NAME,), taints=["node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"])
    assert detached(drawn(at=(on("a"),), states={"a": out})) == [("a", True)]
    assert detached(drawn(at=(on("a"),), states={"a": GONE})) == [("a", False)]


def test_an_attachment_that_somebody_made_by_hand_is_left_alone_and_counts() -> None:
    by_hand = attachment_of("mine", "pv", "a")
    assert drawn("b", at=(by_hand,)) == AttachDetachPlan(attached_elsewhere={"b": ("a",)})
    # A kubelet looks for the computed name, so that ours is made beside it.
    assert drawn("a", at=(by_hand,)) == AttachDetachPlan(attach=("a",))


def test_a_volume_that_is_no_drivers_is_none_of_our_business() -> None:
    assert drawn("a", pv=volume("pv", driver=None)) == AttachDetachPlan()


def test_only_drivers_that_attach_need_attaching() -> None:
    assert needs_attaching(PV, None) and needs_attaching(PV, driver())
    assert not needs_attaching(PV, driver(attachRequired=False))
    assert not needs_attaching(volume("v", driver=None), None)


def test_a_waiting_pod_is_told_who_has_the_volume_but_no_names_of_other_namespaces() -> None:
    waiting = pod("w")
    prefix = 'Waiting for detach for volume "pv" Volume is already'
    assert multi_attach_note("pv", waiting, []) == (
        f"{prefix} exclusively attached to one node, waiting on detach before it can be attached to another node"
    )
    near, far = [pod("b"), pod("a")], [pod("x", namespace="far")]
    assert multi_attach_note("pv", waiting, near) == f"{prefix} used by pod(s) a, b"
    assert (
        multi_attach_note("pv", waiting, near + far)
        == f"{prefix} used by pod(s) a, b and 1 pod(s) in different namespaces"
    )
    assert multi_attach_note("pv", waiting, far) == f"{prefix} used by 1 pod(s) in different namespaces"


def test_success_and_failure_are_told_in_upstreams_words() -> None:
    assert attached_note("pv") == 'AttachVolume.Attach succeeded for volume "pv" '
    assert failed_note("pv", "no") == 'AttachVolume.Attach failed for volume "pv" : no'
