"""A shadow judges what another scheduler decides, before it is applied, and sees what becomes of volumes."""

from __future__ import annotations

import io
import random

from shadow_feed import Feed, disks

from support.configurations import storage_configuration
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import attachment, capacity, claim, pod_with, volume
from tonnage.whatif.page import TextPage
from tonnage.whatif.shadow import judging

REFUSED = "node(s) did not have enough free storage"


def test_a_pod_that_goes_where_tonnage_would_send_it_is_agreed():
    feed = Feed(node("a"), node("b", cpu="100m"))
    feed.put(pod("web", cpu="1"))
    feed.put(pod("web", cpu="1", on="a"))
    told = feed.document()
    assert (told["decisions"], told["agreed"], told["ties"], told["differences"]) == (1, 1, 0, [])


def test_a_node_that_scores_as_high_is_agreed_as_a_tie():
    ties = 0
    for chosen in ("a", "b"):
        feed = Feed(node("a"), node("b"))
        feed.put(pod("web"), pod("web", on=chosen))
        told = feed.document()
        assert (told["decisions"], told["agreed"]) == (1, 1)
        ties += told["ties"]
    assert ties == 1, "one of the two is the one that our lot falls on"


def test_a_node_that_is_refused_is_a_difference_with_the_reason():
    feed = Feed(node("a", cpu="1"), node("b"))
    feed.put(pod("web", cpu="2"))
    feed.put(pod("web", cpu="2", on="a"))
    [found] = feed.document()["differences"]
    assert (found["pod"], found["theirs"], found["ours"]) == ("default/web", "a", "b")
    assert found["theirsRefused"]
    assert found["why"] == "a is refused by NodeResourcesFit: Insufficient cpu; b fits (fits on 1 of 2 nodes)"


def test_a_node_that_scores_lower_is_a_difference_with_the_scores():
    feed = Feed(node("a"), node("b"), pod("old", cpu="2", on="a"))
    feed.put(pod("web", cpu="1"))
    feed.put(pod("web", cpu="1", on="a"))
    [found] = feed.document()["differences"]
    assert found["ours"] == "b" and not found["theirsRefused"]
    assert found["why"].startswith("a scores ") and "NodeResourcesFit" in found["why"]


def test_differences_that_come_from_scoring_by_free_storage_alone_are_counted():
    feed = Feed(*disks(a="50Gi", b="100Gi"), claim("data", "10Gi"))
    feed.put(pod_with("db", "data"))
    feed.put(pod_with("db", "data", on="a"))
    told = feed.document()
    [found] = told["differences"]
    assert (found["ours"], found["byStorageCapacityScoring"]) == ("b", True)
    assert told["differencesByStorageCapacityScoring"] == 1
    out = io.StringIO()
    judging.show(feed.tally, feed.clock.now(), TextPage(out))
    assert "1 of 1 difference comes from StorageCapacityScoring, which kube-scheduler has off by default" in " ".join(
        out.getvalue().split()
    )


def test_a_difference_that_is_there_without_scoring_too_is_not_counted():
    feed = Feed(*disks(a="50Gi", b="100Gi"), pod("old", cpu="3", on="a"), claim("data", "10Gi"))
    feed.put(pod_with("db", "data"))
    feed.put(pod_with("db", "data", on="a"))
    told = feed.document()
    assert len(told["differences"]) == 1 and told["differencesByStorageCapacityScoring"] == 0


def test_a_pod_that_tonnage_would_let_wait_has_no_node_of_ours():
    feed = Feed(node("a", cpu="1"))
    feed.put(pod("web", cpu="2"))
    feed.put(pod("web", cpu="2", on="a"))
    [found] = feed.document()["differences"]
    assert found["ours"] is None
    assert "no node fits: 0/1 nodes are available" in found["why"]


def test_a_nomination_by_the_other_scheduler_does_not_lead_ours():
    feed = Feed(node("a"), node("b"), pod("old", cpu="2", on="a"))
    feed.put(pod("web", cpu="1"))
    feed.put(pod("web", cpu="1", status={"nominatedNodeName": "a"}))
    feed.put(pod("web", cpu="1", on="a", status={"nominatedNodeName": "a"}))
    [found] = feed.document()["differences"]
    assert found["ours"] == "b"


def test_what_was_decided_before_the_shadow_looked_is_not_judged():
    feed = Feed(*disks(a="10Gi"), claim("data", selected_node="a"), pod_with("begun", "data"), pod("there", on="a"))
    feed.put(pod_with("begun", "data", on="a"))
    feed.put(pod("born-bound", on="a"))
    told = feed.document()
    assert (told["decisions"], told["unseen"]) == (0, 2)


# -- volumes ----------------------------------------------------------------------------------------------------------


def test_a_decision_is_judged_when_a_claim_tells_of_it_and_not_again_when_the_pod_is_bound():
    feed = Feed(*disks(a="10Gi", b="50Gi"))
    feed.put(claim("data", "20Gi"), pod_with("db", "data"))
    feed.put(claim("data", "20Gi", selected_node="a"))
    [found] = feed.document()["differences"]
    assert (found["theirs"], found["ours"]) == ("a", "b")
    assert REFUSED in found["why"] and "10Gi" in found["why"], "the nearest miss is told"
    feed.put(volume("pv", "20Gi", on="a", claim="default/data"))
    feed.put(claim("data", "20Gi", selected_node="a", volume="pv"))
    feed.put(pod_with("db", "data", on="a"))
    told = feed.document()
    assert (told["decisions"], told["agreed"]) == (1, 0)
    assert told["volumesRefused"]["theirs"] == 0, "the volume was made after all: the figures were wrong"


def test_two_claims_of_a_pod_are_one_decision():
    feed = Feed(*disks(a="50Gi", b="50Gi"))
    feed.put(claim("one"), claim("two"), pod_with("db", "one", "two"))
    feed.put(claim("one", selected_node="a"), claim("two", selected_node="a"))
    assert feed.document()["decisions"] == 1


def test_a_volume_that_is_kept_for_the_pod_before_its_node_is_told_does_not_decide_for_us():
    feed = Feed(*disks(a="0"), node("b"), volume("va", "5Gi", on="a"), volume("vb", "2Gi", on="b"))
    feed.put(claim("data", "2Gi"), pod_with("db", "data", cpu="1"))
    feed.put(volume("vb", "2Gi", on="b", claim="default/data"))
    feed.put(pod_with("db", "data", cpu="1", on="b"))
    [found] = feed.document()["differences"]
    assert (found["theirs"], found["ours"]) == ("b", "a"), "a has the volume with more to spare"


def test_a_selected_node_that_is_taken_back_is_a_refused_volume_and_the_next_one_another_decision():
    feed = Feed(*disks(a="10Gi", b="50Gi"))
    feed.put(claim("data", "20Gi"), pod_with("db", "data"))
    feed.put(claim("data", "20Gi", selected_node="a"))
    feed.event("ProvisioningFailed", "rpc error: code = ResourceExhausted", kind="PersistentVolumeClaim", name="data")
    feed.put(claim("data", "20Gi"))
    feed.put(claim("data", "20Gi", selected_node="b"))
    told = feed.document()
    assert (told["decisions"], told["agreed"]) == (2, 1)
    refused = told["volumesRefused"]
    assert (refused["theirs"], refused["wouldHaveBeenAvoided"]) == (1, 1), "the event and the claim tell of one refusal"
    assert refused["refusals"][0]["tonnage"] == "would have sent it to b"


EXHAUSTED = "rpc error: code = ResourceExhausted"


def failed(feed: Feed, name: str, message: str = EXHAUSTED) -> None:
    feed.event("ProvisioningFailed", message, kind="PersistentVolumeClaim", name=name)


def refused_volumes(feed: Feed) -> tuple[int, int, list[list[str]]]:
    """Pods, volumes, and by pod the claims."""
    told = feed.document()["volumesRefused"]
    return told["theirs"], told["volumes"], [each["claims"] for each in told["refusals"]]


def test_each_volume_of_a_pod_that_is_refused_is_counted_once_a_decision():
    feed = Feed(*disks(a="10Gi", b="90Gi"))
    names = ("data", "log", "wal")
    feed.put(*(claim(name, "20Gi") for name in names), pod_with("db", *names))
    feed.put(*(claim(name, "20Gi", selected_node="a") for name in names))
    failed(feed, "data")
    failed(feed, "data")
    assert refused_volumes(feed) == (1, 1, [["default/data"]])
    feed.put(claim("data", "20Gi"))  # each claim is given back by itself
    feed.put(claim("log", "20Gi"))
    assert refused_volumes(feed) == (1, 2, [["default/data", "default/log"]])
    feed.put(*(claim(name, "20Gi", selected_node="b") for name in names))
    failed(feed, "log")  # late: of the first decision
    assert refused_volumes(feed)[:2] == (1, 2)
    failed(feed, "log")
    assert refused_volumes(feed)[:2] == (2, 3)


def test_any_failure_counts_where_tonnage_sees_no_room_and_codes_for_want_of_room_everywhere():
    for size, message, count in (
        ("20Gi", "rpc error: code = Internal desc = no vg has room", 1),  # a has 10Gi
        ("5Gi", "rpc error: code = Internal desc = node plugin is starting", 0),
        ("5Gi", "rpc error: code = OutOfRange desc = too large", 1),
    ):
        feed = Feed(*disks(a="10Gi", b="50Gi"))
        feed.put(claim("data", size), pod_with("db", "data"))
        feed.put(claim("data", size, selected_node="a"))
        failed(feed, "data", message)
        assert refused_volumes(feed)[0] == count, message


def test_volumes_that_are_refused_after_a_decision_that_was_not_judged_are_counted_apart():
    for way in ("event", "claim"):
        feed = Feed(*disks(a="10Gi"), claim("data", "20Gi", selected_node="a"), pod_with("db", "data"))
        if way == "event":
            failed(feed, "data")
        else:
            feed.put(claim("data", "20Gi"))
        assert refused_volumes(feed)[0] == 0
        assert feed.document()["volumesRefused"]["notJudged"] == 1, way


def test_claims_that_never_get_a_volume_are_counted_each():
    feed = Feed(*disks(a="10Gi"))
    feed.put(claim("data", "20Gi"), claim("log", "20Gi"), pod_with("db", "data", "log"))
    feed.put(pod_with("db", "data", "log", on="a"))
    feed.clock.advance(130)
    feed.shadow.tick()
    assert refused_volumes(feed) == (1, 2, [["default/data", "default/log"]])


def test_the_event_of_a_refusal_that_comes_late_is_not_held_against_the_next_decision():
    feed = Feed(*disks(a="10Gi", b="50Gi"))
    feed.put(claim("data", "20Gi"), pod_with("db", "data"))
    feed.put(claim("data", "20Gi", selected_node="a"))
    feed.put(claim("data", "20Gi"))
    feed.put(claim("data", "20Gi", selected_node="b"))
    feed.event("ProvisioningFailed", "rpc error: code = ResourceExhausted", kind="PersistentVolumeClaim", name="data")
    [found] = feed.document()["volumesRefused"]["refusals"]
    assert found["node"] == "a"


def test_a_refusal_that_tonnage_would_have_met_too_is_not_said_to_be_avoided():
    feed = Feed(*disks(a="50Gi"))  # the figure lies
    feed.put(claim("data", "20Gi"), pod_with("db", "data"))
    feed.put(claim("data", "20Gi", selected_node="a"))
    feed.put(claim("data", "20Gi"))
    refused = feed.document()["volumesRefused"]
    assert (refused["theirs"], refused["wouldHaveBeenAvoided"]) == (1, 0)
    assert refused["refusals"][0]["tonnage"] == "would have sent it there too"


def test_what_tonnage_would_have_reserved_counts_before_the_figures_are_refreshed():
    for mode in ("Object", "Ledger"):
        feed = Feed(*disks(a="30Gi", b="30Gi"), config=storage_configuration(reservation=mode))
        for name in ("one", "two"):
            feed.put(claim(name, "20Gi"), pod_with(f"pod-{name}", name))
        feed.put(claim("one", "20Gi", selected_node="a"))
        feed.put(claim("two", "20Gi", selected_node="a"))  # 30 - 20 = 10 < 20
        [found] = feed.document()["differences"]
        assert (found["pod"], found["theirs"], found["ours"]) == ("default/pod-two", "a", "b"), mode


def test_a_reservation_goes_with_the_selected_node_that_is_taken_back():
    feed = Feed(*disks(a="30Gi"), config=storage_configuration(reservation="Object"))
    feed.put(claim("one", "20Gi"), pod_with("pod-one", "one"), claim("two", "20Gi"), pod_with("pod-two", "two"))
    feed.put(claim("one", "20Gi", selected_node="a"))
    feed.put(claim("one", "20Gi"))
    feed.put(capacity(node="a", free="30Gi", metadata={"resourceVersion": "99"}))
    feed.put(claim("two", "20Gi", selected_node="a"))
    assert feed.document()["agreed"] == 2


def test_attach_refusals_are_seen_by_attachment_event_and_failed_pod():
    for way in ("attachment", "event", "failed"):
        feed = Feed(*disks(a="0", b="0"), volume("pv", claim="default/data"), claim("data", volume="pv"))
        feed.put(pod_with("db", "data"))
        feed.put(pod_with("db", "data", on="a"))
        if way == "attachment":
            feed.put(attachment("va", "pv", "a", error="rpc error: code = ResourceExhausted"))
        elif way == "event":
            feed.event("FailedAttachVolume", "Multi-Attach error for volume", kind="Pod", name="db", uid="default-db")
            assert feed.document()["volumesRefused"]["theirs"] == 0, "it is on its way from another node"
            feed.event("FailedAttachVolume", "no slots left", kind="Pod", name="db", uid="default-db")
        else:
            status = {"phase": "Failed", "reason": "VolumeAttachmentLimitExceeded"}
            failed = pod_with("db", "data", on="a", status=status)
            feed.remove(Pod, "default/db")  # a watch of pods that live says that it is gone
            feed.shadow.failed(failed)
        assert feed.document()["volumesRefused"]["theirs"] == 1, way


def test_a_pod_without_its_volume_counts_after_a_while_or_at_the_end_where_tonnage_says_so_too():
    feed = Feed(*disks(a="10Gi", b="50Gi"))
    for name in ("full", "slow"):
        feed.put(claim(name, "20Gi"), pod_with(f"pod-{name}", name))
    feed.put(pod_with("pod-full", "full", on="a"), pod_with("pod-slow", "slow", on="b"))
    feed.clock.advance(10)
    feed.shadow.close()
    [found] = feed.document()["volumesRefused"]["refusals"]
    assert found["pod"] == "default/pod-full"
    assert found["seenBy"] == "claim full is still without a volume at the end"
    feed.clock.advance(120)
    feed.shadow.tick()
    assert feed.document()["volumesRefused"]["theirs"] == 2


def test_differences_are_kept_up_to_a_number_and_counted_beyond():
    feed = Feed(node("a", cpu="1"), node("b", cpu="100"), most_kept=3)
    for number in range(5):
        feed.put(pod(f"web-{number}", cpu="2"))
        feed.put(pod(f"web-{number}", cpu="2", on="a"))
    told = feed.document()
    assert (told["decisions"], len(told["differences"]), told["differencesLeftOut"]) == (5, 3, 2)


def test_what_is_through_is_forgotten():
    feed = Feed(*disks(a="500Gi"))
    for number in range(20):
        name = f"p{number}"
        feed.put(claim(name), pod_with(name, name))
        feed.put(claim(name, selected_node="a"), pod_with(name, name, on="a"))
        feed.put(volume(f"v-{name}", on="a", claim=f"default/{name}"))
        feed.put(claim(name, selected_node="a", volume=f"v-{name}"))
        feed.put(pod_with(name, name, on="a", status={"phase": "Running"}))
    shadow = feed.shadow
    assert not shadow._under_way and not shadow._waiting and not shadow._users
    assert feed.document()["decisions"] == 20


def test_a_scheduler_that_ignores_storage_is_told_apart_from_one_that_heeds_it():
    """A naive scheduler takes a node by lot; the provisioner makes what fits and gives the rest back.

    Each refusal is one that Tonnage would have avoided, for the figures here are true and fresh.
    """
    rng, left = random.Random(5), {"a": 40, "b": 60, "c": 20}
    feed = Feed(*disks(**{name: f"{size}Gi" for name, size in left.items()}))
    refusals = 0
    for number in range(12):
        name = f"p{number}"
        size = rng.choice([5, 10, 15])
        wanted = f"{size}Gi"
        feed.put(claim(name, wanted), pod_with(name, name))
        for _ in range(3):
            chosen = rng.choice(sorted(left))
            feed.put(claim(name, wanted, selected_node=chosen))
            if left[chosen] >= size:
                left[chosen] -= size
                feed.put(volume(f"v-{name}", wanted, on=chosen, claim=f"default/{name}"))
                feed.put(claim(name, wanted, selected_node=chosen, volume=f"v-{name}"))
                feed.put(
                    capacity(node=chosen, free=f"{left[chosen]}Gi", metadata={"resourceVersion": f"{900 + number}"})
                )
                feed.put(pod_with(name, name, on=chosen), pod_with(name, name, on=chosen, status={"phase": "Running"}))
                break
            refusals += 1
            feed.put(claim(name, wanted))
        else:
            feed.remove(Pod, f"default/{name}")
            feed.remove(PersistentVolumeClaim, f"default/{name}")
    told = feed.document()["volumesRefused"]
    assert refusals > 3
    assert (told["theirs"], told["wouldHaveBeenAvoided"]) == (refusals, refusals)


def test_the_report_tells_agreement_differences_and_refusals():
    feed = Feed(*disks(a="10Gi", b="50Gi"))
    feed.put(claim("data", "20Gi"), pod_with("db", "data"))
    feed.put(claim("data", "20Gi", selected_node="a"))
    feed.put(claim("data", "20Gi"))
    feed.clock.advance(3725)
    out = io.StringIO()
    judging.show(feed.tally, feed.clock.now(), TextPage(out))
    lines = out.getvalue().splitlines()
    assert lines[0] == "1 decision in 1h2m: 0 agreed; 1 differed"
    assert lines[2].split() == ["POD", "THEIRS", "OURS", "WHY"]
    assert lines[3].startswith("default/db  a       b     a is refused by VolumeBinding: ")
    assert lines[5] == (
        "The other scheduler sent 1 pod where 1 volume could not be made; Tonnage would not have sent 1 of them there"
    )
    assert lines[8].endswith("selected-node a was taken back from claim data  would have sent it to b")


def test_names_from_the_cluster_are_made_printable_in_the_report():
    feed = Feed(node("a", cpu="1"), node("b"))
    feed.put(pod("web\x1b[31m", cpu="2"))
    feed.put(pod("web\x1b[31m", cpu="2", on="a"))
    out = io.StringIO()
    judging.show(feed.tally, feed.clock.now(), TextPage(out))
    assert "\x1b" not in out.getvalue()
