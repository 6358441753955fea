"""What is found for one pod is not given to the next: KEP-5925's second enhancement through a whole profile.

First the unit tests that the KEP lists, by name, and its second story in all three modes. What a reservation and the
ledger are by themselves is in test_reservations.py and test_ledger.py; here it is what decisions make of them.
"""

from __future__ import annotations

import pytest
from volume_rig import FULL, GI, UNBINDABLE, VolumeRig, refused

from tonnage.scheduling.volumes.reservations.holds import REFRESH
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

NO_ROOM = refused({FULL: 1}, 1)


def one_node(free: str = "100Gi", *, reservation: str = "Object") -> VolumeRig:
    return VolumeRig(node("a"), capacity("fast", "a", free), reservation=reservation)


def reserved(rig: VolumeRig) -> list[str]:
    return [hold.capacity for hold in rig.cluster.index(Reservations).holds()]


# -- KEP-5925, enhancement 2: the unit tests it lists -----------------------------------------------------------------


def test_an_object_is_skipped_when_reserved_with_the_resource_version_it_has():
    rig = one_node()
    assert rig.place(rig.pod("web", "20Gi")) == "a"
    assert rig.place(rig.pod("db", "20Gi")) == NO_ROOM
    # The informer shows the same version once more, after it reconnected say: nothing is new.
    rig.put(rig.cluster.storage.capacities["kube-system/fast-a"])
    assert rig.place(rig.pod("kv", "20Gi")) == NO_ROOM


def test_an_object_is_available_when_its_resource_version_has_changed():
    rig = one_node()
    assert rig.place(rig.pod("web", "20Gi")) == "a"
    rig.put(capacity("fast", "a", "80Gi"))
    assert rig.place(rig.pod("db", "20Gi")) == "a"


def test_the_reservation_is_recorded_in_the_reserve_phase():
    rig = one_node()
    web = rig.pod("web", "20Gi")
    assert rig.decide(web).node == "a" and reserved(rig) == []
    assert rig.place(web) == "a" and reserved(rig) == ["kube-system/fast-a"]


def test_the_reservation_is_cleared_by_the_informers_update():
    rig = one_node()
    rig.place(rig.pod("web", "20Gi"))
    rig.put(capacity("fast", "a", "100Gi"))  # whatever it says
    assert reserved(rig) == []
    assert rig.cluster.index(Reservations).ended[REFRESH] == 1


def test_a_restarted_scheduler_has_no_reservations():
    rig = one_node()
    rig.place(rig.pod("web", "20Gi"))
    after = one_node()
    after.put(*rig.cluster.storage.capacities.values(), claim("web-0", "20Gi", selected_node="a"))
    assert after.place(after.pod("db", "20Gi")) == "a"


def test_of_two_decisions_the_first_reserves_and_the_second_sees_it_reserved():
    rig = one_node()
    rig.put(node("b"), capacity("fast", "b", "50Gi"))
    assert [rig.place(rig.pod(name, "20Gi")) for name in ("web", "db", "kv")] == ["a", "b", refused({FULL: 2}, 2)]


# -- story 2: ten pods of 20 Gi, one node of 100 Gi, stale figures ----------------------------------------------------


def ten_pods(rig: VolumeRig) -> list[str]:
    """Where each of them goes, all decided before anything is provisioned; "" for those that wait."""
    answers = [rig.place(rig.pod(f"job-{number}", "20Gi")) for number in range(10)]
    assert set(answers) <= {"a", NO_ROOM}
    return ["a" if answer == "a" else "" for answer in answers]


def test_story_2_in_mode_object_one_pod_goes_per_refresh_and_none_too_many():
    rig = one_node()
    assert ten_pods(rig) == ["a", *[""] * 9]
    # Each is provisioned, and what is left is published: 80, 60, 40, 20 and nothing.
    placed = 1
    for left in (80, 60, 40, 20, 0):
        rig.put(capacity("fast", "a", f"{left}Gi"))
        went = [rig.place(rig.pod(f"late-{left}-{number}", "20Gi")) for number in range(3)].count("a")
        assert went == (1 if left else 0)
        placed += went
    assert placed * 20 == 100


def test_story_2_in_mode_ledger_five_go_at_once_and_none_too_many():
    rig = one_node(reservation="Ledger")
    assert ten_pods(rig) == ["a"] * 5 + [""] * 5
    assert sum(hold.bytes for hold in rig.cluster.index(Ledger).holds()) == 100 * GI


def test_story_2_without_reservation_all_ten_go_and_five_of_them_will_fail():
    assert ten_pods(one_node(reservation="None")) == ["a"] * 10


# -- pods that share a claim ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reservation", ["Object", "Ledger"])
def test_a_second_pod_on_the_same_unbound_claim_is_not_refused_by_that_claims_own_reservation(reservation: str):
    rig = VolumeRig(
        node("a"), node("b"), capacity("fast", "a", "100Gi"), capacity("fast", "b", "10Gi"), reservation=reservation
    )
    rig.put(claim("shared", "60Gi"))
    first, second = pod_with("first", "shared"), pod_with("second", "shared")
    assert (rig.place(first), rig.place(second)) == ("a", "a")
    # Another pod is still kept out, also after one of the two failed.
    rig.fail(second)
    # a: 100 - 60 = 40 < 60; b: 10 < 60
    assert rig.place(rig.pod("other", "60Gi")) == refused({FULL: 2}, 2)


def test_in_mode_object_a_second_pod_with_a_claim_of_its_own_beside_the_shared_one_is_judged_by_both():
    rig = one_node()
    rig.put(claim("shared", "60Gi"))
    assert rig.place(pod_with("first", "shared")) == "a"
    rig.put(claim("more", "60Gi"), claim("less", "40Gi"))
    assert rig.place(pod_with("second", "shared", "more")) == NO_ROOM  # 60 + 60 > 100
    assert rig.place(pod_with("third", "shared", "less")) == "a"  # 60 + 40
    # Now the object is held for all three claims: whoever brings a fourth cannot know what is left.
    rig.put(claim("least", "1Gi"))
    assert rig.place(pod_with("fourth", "shared", "least")) == NO_ROOM
    assert rig.place(pod_with("fifth", "shared", "less")) == "a"


# -- older figures ----------------------------------------------------------------------------------------------------


def test_independent_with_the_ledger_sends_five_pods_of_20gi_to_100gi_and_not_seven():
    rig = VolumeRig(
        node("a"), capacity("fast", "a", "100Gi", maximum="50Gi"), reservation="Ledger", legacyPools="Independent"
    )
    assert [rig.place(rig.pod(f"job-{number}", "20Gi")) for number in range(7)] == ["a"] * 5 + [NO_ROOM] * 2
    (refusal,) = rig.reasons(rig.pod("late", "20Gi")).values()
    assert refusal == (FULL,)


def test_independent_with_the_ledger_judges_a_pods_own_claims_one_by_one_beside_what_is_promised():
    rig = VolumeRig(
        node("a"), capacity("fast", "a", "100Gi", maximum="50Gi"), reservation="Ledger", legacyPools="Independent"
    )
    assert rig.place(rig.pod("wide", "50Gi", "50Gi", "50Gi")) == "a"  # as without the gate: each is 50 at most
    assert rig.place(rig.pod("next", "1Gi")) == NO_ROOM  # 150 of 100 are promised


# -- what is given back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reservation", ["Object", "Ledger"])
def test_unreserve_gives_everything_back(reservation: str):
    local = storage_class("local", provisioner="kubernetes.io/no-provisioner")
    rig = VolumeRig(node("a"), capacity("fast", "a", "20Gi"), local, reservation=reservation)
    rig.put(volume("disk", "5Gi", class_name="local", on="a"), claim("old", "5Gi", class_name="local"))
    rig.put(claim("new", "20Gi"))
    web = pod_with("web", "old", "new")
    assert rig.place(web) == "a"
    assert rig.selected_node("new") == "a"
    given = rig.cluster.storage.volumes.get("disk")
    assert given is not None and given.spec.claim_ref is not None and given.spec.claim_ref.name == "old"
    rig.put(claim("rival", "5Gi", class_name="local"))
    assert rig.message(pod_with("db", "rival")) == refused({UNBINDABLE: 1}, 1)
    assert rig.message(rig.pod("kv", "1Gi")) == NO_ROOM

    rig.fail(web)
    assert rig.selected_node("new") == ""
    assert not rig.cluster.storage.volumes.is_assumed("disk")
    assert not any(each.holds() for each in rig.engine.held.modes.values())
    assert rig.message(pod_with("db", "rival")) == "" and rig.message(rig.pod("fs", "20Gi")) == ""
    assert rig.place(web) == "a"


def test_a_pod_whose_claims_had_their_node_before_gives_the_object_back_as_well():
    """Nothing is assumed about such a claim, and nothing restored: what was reserved is to go all the same."""
    rig = one_node()
    rig.put(claim("data", "20Gi", selected_node="a"))
    web = pod_with("web", "data")
    assert rig.place(web) == "a" and reserved(rig) == ["kube-system/fast-a"]
    rig.fail(web)
    assert reserved(rig) == [] and rig.selected_node("data") == "a"
    assert rig.place(rig.pod("db", "20Gi")) == "a"


def test_unreserve_of_a_pod_that_reserved_nothing_takes_nothing_from_others():
    rig = one_node()
    rig.place(rig.pod("web", "20Gi"))
    bound = pod_with("db", "data")
    rig.put(claim("data", volume="pv"), volume("pv", claim="default/data"))
    assert rig.place(bound) == "a"
    rig.fail(bound)
    assert reserved(rig) == ["kube-system/fast-a"]


def test_a_claim_that_changed_since_the_decision_is_an_error_and_nothing_is_kept():
    rig = one_node()
    web = rig.pod("web", "20Gi")
    decision = rig.decide(web)
    seen = rig.cluster.storage.claims.get("default/web-0")
    rig.put(claim("web-0", "20Gi"))
    now = rig.cluster.storage.claims.get("default/web-0")
    assert seen is not None and now is not None
    status = rig.plugin.reserve(decision.cycle, "a")
    assert status.message == (
        f'"default/web-0" is out of sync (stored: {now.metadata.resource_version}, '
        f"assume: {seen.metadata.resource_version})"
    )
    rig.plugin.unreserve(decision.cycle, "a")
    assert reserved(rig) == [] and rig.selected_node("web-0") == ""


def test_what_the_provisioner_gives_back_is_free_again():
    rig = one_node()
    rig.place(rig.pod("web", "20Gi"))
    rig.put(claim("web-0", "20Gi", selected_node="a"))  # our own write comes back
    assert rig.message(rig.pod("db", "20Gi")) == NO_ROOM
    rig.put(claim("web-0", "20Gi"))  # the provisioner could not make it
    assert rig.message(rig.pod("kv", "20Gi")) == ""


# -- several objects, several claims ----------------------------------------------------------------------------------


def test_a_pod_with_claims_of_two_classes_reserves_an_object_of_each():
    rig = one_node("9Gi")
    rig.put(storage_class("slow"), capacity("slow", "a", "9Gi"))
    rig.put(claim("one", "1Gi"), claim("two", "1Gi", class_name="slow"), claim("three", "1Gi"))
    assert rig.place(pod_with("web", "one", "two", "three")) == "a"
    assert sorted(reserved(rig)) == ["kube-system/fast-a", "kube-system/slow-a"]


def test_what_nobody_keeps_count_of_is_not_reserved():
    rig = one_node("9Gi")
    rig.put(driver(capacity=False))
    assert rig.place(rig.pod("web", "1Ei")) == "a" and reserved(rig) == []


def test_a_reserved_object_leaves_another_that_reaches_the_node():
    rig = one_node("30Gi")
    rig.put(node("b"), capacity(name="shared", free="20Gi", topology={}))
    # Objects are met in order of their keys: fast-a, then shared; b has only what is shared.
    assert rig.planned(rig.pod("web", "20Gi"), "a") == {"web-0": "made of fast-a"}
    rig.cluster.put_node(node("b", unschedulable=True))
    assert [rig.place(rig.pod(name, "20Gi")) for name in ("db", "kv")] == ["a", "a"]
    assert reserved(rig) == ["kube-system/fast-a", "kube-system/shared"]


@pytest.mark.parametrize("others", [0, 3], ids=["one node", "among others"])
def test_the_ledger_counts_on_any_choice_of_pools(others: int):
    full = [node(f"full-{number}") for number in range(others)]
    rig = VolumeRig(node("a"), *full, capacity("fast", "a", pools=["60Gi", "50Gi"]), reservation="Ledger")
    no_room = refused({FULL: 1 + others}, 1 + others)
    assert rig.place(rig.pod("web", "20Gi")) == "a"
    # The driver may put the 20 into either: 40 + 50 or 60 + 30 are left. 50 fit both times, 51 do not.
    assert rig.message(rig.pod("db", "51Gi")) == no_room
    assert rig.message(rig.pod("kv", "50Gi")) == ""
    rig = VolumeRig(node("a"), *full, capacity("fast", "a", pools=["60Gi", "60Gi"]), reservation="Ledger")
    assert rig.place(rig.pod("web", "20Gi")) == "a"
    # 60 + 40 are left, whichever it takes.
    assert rig.message(rig.pod("db", "60Gi", "40Gi")) == ""
    assert rig.message(rig.pod("kv", "60Gi", "41Gi")) == no_room


def test_a_promise_follows_its_node_to_other_objects():
    """The node is relabelled while a volume is being made there: another zone's object is what will shrink."""
    zones = {name: capacity(name=name, free="30Gi", topology={"matchLabels": {"zone": name}}) for name in ("z1", "z2")}
    rig = VolumeRig(node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z2"}), reservation="Ledger")
    rig.put(*zones.values(), claim("coming", "20Gi", selected_node="a"))
    web = rig.pod("web", "20Gi")
    assert rig.reasons(web) == {"a": (FULL,)}
    rig.put(node("a", labels={"zone": "z2"}))
    assert rig.message(web) == refused({FULL: 2}, 2)


def test_equal_pods_see_at_once_what_the_one_before_them_reserved():
    """The answer is remembered; the rows that a reservation touches are asked again."""
    rig = VolumeRig(*(node(f"n{i}") for i in range(4)), reservation="Object")
    rig.put(*(capacity("fast", f"n{i}", "100Gi") for i in range(4)))
    answers = [rig.place(rig.pod(f"web-{i}", "20Gi")) for i in range(5)]
    assert sorted(answers[:4]) == ["n0", "n1", "n2", "n3"] and answers[4] == refused({FULL: 4}, 4)
    rig.put(capacity("fast", "n2", "80Gi"))
    assert rig.place(rig.pod("web-5", "20Gi")) == "n2"
