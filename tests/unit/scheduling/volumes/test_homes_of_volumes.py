"""Where a volume without node affinity is, and that every other node is judged by capacity (DESIGN 4.5).

`pv-data` (20Gi) is on `home`, which has nothing left; `large` has 20Gi free, `small` has 10Gi. The driver rebuilds.
"""

from __future__ import annotations

from typing import Any

import pytest
from volume_rig import ELSEWHERE, FULL, Server, VolumeRig

from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET, SELECTED_NODE, VOLUME_HOME
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import attachment, capacity, claim, driver, pod_with, storage_class, volume

WEB = pod_with("web", "data")
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
OUT_OF_USE = [
    pytest.param(node("home", unschedulable=True), id="cordoned"),
    pytest.param(node("home", taints=[OUT_OF_SERVICE]), id="out of service"),
    pytest.param(None, id="gone"),
]


def pv(**options: Any) -> PersistentVolume:
    return volume("pv-data", "20Gi", claim="default/data", **options)


def freed_from(home: str) -> PersistentVolume:
    """Its driver has unset the affinity, and said where the volume is."""
    return pv(metadata={"annotations": {VOLUME_HOME: home}})


def rig_with(*objects: Object, selected_node: str = "home", **settings: Any) -> VolumeRig:
    rooms = (capacity("fast", name, free) for name, free in (("home", "0"), ("large", "20Gi"), ("small", "10Gi")))
    rig = VolumeRig(*map(node, ("home", "large", "small")), *rooms, **settings)
    rig.put(driver(rebuilding=True), pv(), claim("data", "20Gi", volume="pv-data", selected_node=selected_node))
    rig.put(*objects)
    return rig


def take_out_of_use(rig: VolumeRig, home: Node | None) -> None:
    if home is None:
        rig.remove(Node, "home")
    else:
        rig.put(home)


# -- selected-node is home --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", OUT_OF_USE)
@pytest.mark.parametrize("reservation", ["Ledger", "Object"])
def test_after_a_cancelled_drain_the_volume_is_at_home_and_elsewhere_it_needs_room(out: Node | None, reservation: str):
    rig = rig_with(capacity("fast", "large", "19Gi"), reservation=reservation)
    take_out_of_use(rig, out)
    assert rig.nodes(WEB) == []
    rig.put(node("home"))
    assert rig.nodes(WEB) == ["home"] and rig.reasons(WEB) == {"large": (FULL,), "small": (FULL,)}
    assert rig.planned(WEB, "home") == {"data": "bound pv-data"}


def test_a_home_that_never_went_keeps_its_volume_and_another_node_promises_the_room():
    """The pod cannot run at home for another reason: its CPU, say."""
    rig = rig_with(node("home", taints=["busy:NoSchedule"]), reservation="Ledger")
    assert rig.place(WEB) == "large"
    (hold,) = rig.cluster.index(Ledger).holds()
    assert (hold.capacity, hold.bytes) == ("kube-system/fast-large", 20 << 30)
    assert rig.nodes(rig.pod("db", "1Gi")) == ["small"]


def test_at_home_a_pod_is_better_off_than_where_its_volume_would_be_rebuilt():
    rig = rig_with()
    scores = rig.scores(WEB)
    assert scores["home"] == 100 > scores["large"]


@pytest.mark.parametrize("out", OUT_OF_USE)
def test_a_pod_that_waits_is_tried_when_its_home_goes_out_of_use_and_when_it_is_back(out: Node | None):
    rig = rig_with(capacity("fast", "large", "1Gi"), node("home", taints=["busy:NoSchedule"]), WEB)
    refuse(rig)
    assert rig.engine.pop() is None
    take_out_of_use(rig, out)
    refuse(rig)
    rig.put(node("home"))
    assert place_next(rig) == "home"


def place_next(rig: VolumeRig) -> str:
    """Try the pod that is woken; the node, empty if it fits nowhere and waits again."""
    queued = rig.engine.pop()
    assert queued is not None, "nobody was woken"
    attempt = rig.engine.attempt(queued)
    if attempt.placement is not None:
        return attempt.placement.node
    assert attempt.decision is not None and attempt.decision.diagnosis is not None
    rig.engine.requeue(queued, WEB, plugins=attempt.decision.diagnosis.rejecting_plugins())
    return ""


def refuse(rig: VolumeRig) -> None:
    assert place_next(rig) == ""


# -- out of service ---------------------------------------------------------------------------------------------------


def test_a_node_that_is_out_of_service_is_out_of_use_and_told_of_as_such():
    rig = rig_with(node("home", taints=[OUT_OF_SERVICE]), capacity("fast", "large", "1Gi"))
    attempt = rig.engine.place(PodInfo(WEB))
    assert [each.note for each in rig.engine.events_to_record(attempt)] == [
        "Volume of claim default/data is to be rebuilt on another node: node home is out of use; "
        "no node fits its pod now"
    ]


def test_a_volume_that_several_nodes_reach_leaves_a_home_that_is_out_of_service():
    rig = rig_with(pv(on=["home", "large", "small"]), node("home", taints=[OUT_OF_SERVICE]))
    assert rig.nodes(WEB) == ["large"] and rig.reasons(WEB)["small"] == (FULL,)


def test_a_home_out_of_service_that_the_pod_tolerates_stays_a_candidate():
    tolerant = pod_with("web", "data", spec={"tolerations": [{"operator": "Exists"}]})
    assert rig_with(node("home", taints=[OUT_OF_SERVICE])).nodes(tolerant) == ["home", "large"]


# -- no selected-node -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", OUT_OF_USE)
def test_without_selected_node_every_node_is_judged(out: Node | None):
    """A volume of an Immediate class, or one bound anew by volumeName."""
    rig = rig_with(storage_class(delayed=False), selected_node="")
    take_out_of_use(rig, out)
    assert rig.nodes(WEB) == ["large"] and rig.reasons(WEB)["small"] == (FULL,)


def test_a_volume_of_an_immediate_class_without_published_capacity_goes_anywhere():
    """external-provisioner publishes none for such classes by default; nobody could ever say that there is room."""
    rig = rig_with(storage_class("soon", delayed=False), node("home", unschedulable=True))
    rig.put(claim("data", "20Gi", class_name="soon", volume="pv-data"))
    assert rig.nodes(WEB) == ["large", "small"] and rig.planned(WEB, "small") == {"data": "rebuilt"}
    rig.put(capacity("soon", "large", "20Gi"))
    assert rig.nodes(WEB) == ["large"]


async def test_a_claim_without_selected_node_gets_one_with_the_mark_and_the_room_is_promised():
    rig = rig_with(node("home", unschedulable=True), selected_node="", reservation="Ledger")
    assert rig.place(WEB) == "large"
    api = Server(rig)
    assert (await rig.plugin.pre_bind(rig.placed["web"].cycle, "large", api)).is_success
    asked = {SELECTED_NODE: "large", REBUILD_TARGET: "large"}
    assert api.patches == [("default/data", {"metadata": {"annotations": asked}})]
    assert [note for _, _, note in api.events] == [
        "Volume of claim default/data will be rebuilt on large: it may move, and no node is selected for it"
    ]
    assert [hold.bytes for hold in rig.cluster.index(Ledger).holds()] == [20 << 30]
    rig.put(claim("data", "20Gi", volume="pv-data", selected_node="large", metadata={"annotations": asked}))
    rig.use(reservation="Ledger")  # a restart
    assert [hold.bytes for hold in rig.cluster.index(Ledger).holds()] == [20 << 30]


def test_an_affinity_that_confines_the_volume_says_where_it_is_without_selected_node():
    rig = rig_with(pv(on="small"), selected_node="")
    assert rig.nodes(WEB) == ["small"] and rig.reasons(WEB)["large"] == (ELSEWHERE,)


# -- what else tells where it is --------------------------------------------------------------------------------------


@pytest.mark.parametrize("selected_node", ["", "small", "never-was"], ids=["none", "stale", "stale and gone"])
def test_an_attachment_tells_where_the_volume_is(selected_node: str):
    rig = rig_with(attachment("va", "pv-data", "home"), freed_from("small"), selected_node=selected_node)
    assert rig.nodes(WEB) == ["home", "large"] and rig.reasons(WEB) == {"small": (FULL,)}


@pytest.mark.parametrize("selected_node", ["", "small", "never-was"], ids=["none", "stale", "stale and gone"])
@pytest.mark.parametrize("out", OUT_OF_USE)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_volume_is_where_its_driver_said_when_it_unset_the_affinity(
    out: Node | None, selected_node: str, is_restarted: bool
):
    rig = rig_with(pv(on="home"), selected_node=selected_node)
    take_out_of_use(rig, out)
    rig.put(freed_from("home"))
    if is_restarted:
        rig.use()
    assert rig.nodes(WEB) == ["large"] and rig.reasons(WEB)["small"] == (FULL,)
    rig.put(node("home"))
    assert sorted(rig.nodes(WEB)) == ["home", "large"]
    assert rig.planned(WEB, "home") == {"data": "bound pv-data"}


def test_a_volume_that_moves_on_while_it_is_free_is_where_its_driver_says_now():
    rig = rig_with(freed_from("home"), WEB, selected_node="")
    rig.put(node("large", taints=["busy:NoSchedule"]), node("home", taints=["busy:NoSchedule"]))
    refuse(rig)
    rig.put(freed_from("small"))
    # Whoever waits is tried again. Home would have to hold it anew, and has nothing left.
    assert place_next(rig) == "small"
    assert rig.reasons(pod_with("other", "data"))["home"]


def test_what_the_driver_said_counts_no_more_when_the_affinity_is_set_again():
    rig = rig_with(pv(on="small", metadata={"annotations": {VOLUME_HOME: "home"}}), selected_node="home")
    assert rig.nodes(WEB) == ["small"]


def test_a_volume_that_was_refused_on_its_way_is_still_at_home():
    marked = {"annotations": {REBUILD_TARGET: "small"}}
    rig = rig_with(pv(on="home"), node("home", unschedulable=True))
    rig.put(freed_from("home"), claim("data", "20Gi", volume="pv-data", selected_node="small", metadata=marked))
    assert rig.nodes(WEB) == ["large", "small"]
    rig.put(attachment("va", "pv-data", "small", error="no pool has room"), node("home"))
    assert rig.nodes(WEB) == ["home", "large"] and rig.reasons(WEB) == {"small": (FULL,)}


def test_a_volume_on_its_way_that_is_still_attached_at_home_has_its_room_at_the_target():
    marked = {"annotations": {REBUILD_TARGET: "large"}}
    rig = rig_with(node("home", unschedulable=True), attachment("va", "pv-data", "home"), reservation="Ledger")
    rig.put(claim("data", "20Gi", volume="pv-data", selected_node="large", metadata=marked))
    # The 20Gi that are promised on large are its own.
    assert rig.nodes(WEB) == ["large"] and rig.nodes(rig.pod("db", "5Gi")) == ["small"]


def test_where_the_driver_does_not_say_it_selected_node_does():
    rig = rig_with(pv(on="small"))
    rig.put(pv())
    assert rig.nodes(WEB) == ["home", "large"]
