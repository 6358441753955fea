"""A pod is judged by what was there when it was decided about, whichever watch is back first; else it is not judged."""

from __future__ import annotations

import itertools

import pytest
from shadow_feed import disks
from shadow_streams import Streams

from tonnage.objects.core_v1 import Node
from tonnage.objects.meta import Object
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, pod_with
from tonnage.whatif.shadow.follow import CALM_S, LIMIT_S, RESUMED_S

KINDS = ("pods", "claims", "nodes", "capacity")
DISKS = tuple(disks(a="10Gi", b="50Gi"))


def streams(*start: Object) -> Streams:
    return Streams(*KINDS, start=(*DISKS, *start))


def decided(feed: Streams, first: int = 101) -> None:
    """What pods' watch tells of db, which goes to b after its claim was sent there."""
    feed.tell("pods", first + 1, pod_with("db", "data"))
    feed.tell("pods", first + 3, pod_with("db", "data", on="b"))


def claimed(feed: Streams, first: int = 101) -> None:
    feed.tell("claims", first, claim("data", "20Gi"))
    feed.tell("claims", first + 2, claim("data", "20Gi", selected_node="b"))


@pytest.mark.parametrize("back", [decided, claimed])
def test_a_pod_waits_for_its_claim_when_one_watch_is_back_before_the_other(back):
    feed = streams()
    feed.cut(*KINDS)
    feed.wait(1)
    feed.reopen("pods" if back is decided else "claims")
    back(feed)
    feed.wait(10)
    assert feed.counts() == (0, 0, 0), "nobody knows yet"
    feed.reopen(*KINDS)
    feed.wait(0)
    (claimed if back is decided else decided)(feed)
    feed.wait(RESUMED_S)
    assert feed.counts() == (1, 0, 0)


def test_every_order_in_which_two_watches_can_tell_gives_the_same_answer():
    news = [
        ("claims", 101, claim("data", "20Gi")),
        ("pods", 102, pod_with("db", "data")),
        ("claims", 103, claim("data", "20Gi", selected_node="a")),
        ("claims", 104, claim("data", "20Gi")),
        ("claims", 105, claim("data", "20Gi", selected_node="b")),
        ("pods", 106, pod_with("db", "data", on="b")),
    ]
    for chosen in itertools.combinations(range(6), 2):  # when the two of pods come among the four of claims
        claims, pods = (iter([each for each in news if each[0] == name]) for name in ("claims", "pods"))
        feed = streams()
        for number in range(6):
            feed.tell(*next(pods if number in chosen else claims))
        feed.wait(CALM_S)
        [found] = feed.told()["differences"]
        assert (found["theirs"], found["ours"]) == ("a", "b")
        assert feed.counts() == (1, 1, 0)
        assert feed.told()["volumesRefused"]["theirs"] == 1


@pytest.mark.parametrize(
    ("kind", "late"),
    [
        ("nodes", node("c", cpu="64")),
        ("capacity", capacity(node="a", free="5Gi")),
    ],
)
def test_what_else_a_decision_reads_is_waited_for(kind, late):
    """Their node is right by what was there: the watch that tells so is back last."""
    feed = streams(claim("data", "7Gi"), pod_with("db", "data", cpu="1"))
    feed.cut(kind)
    on = "c" if isinstance(late, Node) else "b"
    if on == "c":
        feed.tell("pods", 101, pod("web", cpu="40"))
        feed.tell("pods", 103, pod("web", cpu="40", on="c"))
    else:
        feed.tell("claims", 103, claim("data", "7Gi", selected_node="b"))
    feed.wait(10)
    assert feed.counts() == (0, 0, 0)
    feed.reopen(kind)
    feed.tell(kind, 102, late)
    feed.wait(CALM_S)
    assert feed.counts() == (1, 0, 0)


def test_what_came_later_is_not_there_yet_when_a_decision_is_judged():
    feed = streams()
    feed.tell("nodes", 110, node("huge", cpu="640"))
    feed.tell("pods", 101, pod("web", cpu="1"))
    feed.tell("pods", 105, pod("web", cpu="1", on="a"))
    feed.wait(CALM_S)
    assert feed.counts() == (1, 0, 0), "huge would have been better, and came later"


def test_a_bookmark_of_every_watch_is_proof_and_nothing_is_waited_for():
    feed = streams()
    feed.tell("pods", 101, pod("web"))
    feed.tell("pods", 102, pod("web", on="a"))
    feed.wait(0)
    assert feed.counts() == (0, 0, 0)
    feed.bookmark(102)
    feed.wait(0)
    assert feed.counts() == (1, 0, 0)


def test_a_stream_that_is_open_again_and_silent_is_given_longer():
    feed = streams()
    feed.cut("claims")
    feed.reopen("claims")
    decided(feed)
    feed.wait(CALM_S + 1)
    claimed(feed)
    feed.wait(CALM_S)
    assert feed.counts() == (1, 0, 0)


def test_a_claim_that_is_not_there_is_waited_for_even_in_the_calm():
    feed = streams()
    decided(feed)
    feed.wait(LIMIT_S / 2)
    assert feed.counts() == (0, 0, 0)
    claimed(feed)
    feed.wait(CALM_S)
    assert feed.counts() == (1, 0, 0)


def test_a_sign_of_a_pod_that_is_not_there_is_waited_for_even_in_the_calm():
    feed = streams()
    claimed(feed)
    feed.wait(LIMIT_S / 2)
    decided(feed)
    feed.wait(CALM_S)
    assert feed.counts() == (1, 0, 0)


@pytest.mark.parametrize("lagging", ["claims", "nodes", "capacity"])
def test_a_watch_that_does_not_come_back_leaves_pods_unseen(lagging):
    feed = streams()
    feed.cut(lagging)
    feed.tell("pods", 101, pod("web"))
    feed.tell("pods", 102, pod("web", on="a"))
    feed.wait(LIMIT_S - 1)
    assert feed.counts() == (0, 0, 0)
    feed.wait(2)
    assert feed.counts() == (0, 0, 1)


def test_with_proof_a_claim_that_is_not_there_does_not_exist():
    feed = streams()
    decided(feed)
    feed.bookmark(200)
    feed.wait(0)
    agreed, differing, unseen = feed.counts()
    assert (agreed, differing, unseen) == (0, 1, 0)
    assert feed.told()["differences"][0]["ours"] is None


# -- states that were fetched -----------------------------------------------------------------------------------------


def test_a_decision_from_before_a_watch_knew_its_state_is_not_judged():
    """Claims were listed at 110, pods at 100: what happened to the pod in between the claims show already."""
    feed = Streams(*KINDS, start=(*DISKS, claim("data", "20Gi", selected_node="b")))
    claims = feed.watches["claims"]
    claims.gap, claims.telling, claims.reached = (claims.reached, 110), 110, 110
    feed.tell("pods", 105, pod_with("db", "data"))
    feed.tell("pods", 111, pod_with("db", "data", on="b"))
    feed.tell("pods", 112, pod("web"))
    feed.tell("pods", 113, pod("web", on="a"))
    feed.wait(CALM_S)
    assert feed.counts() == (1, 0, 1), "db was decided about before; web is judged"


@pytest.mark.parametrize("kind", KINDS)
def test_a_decision_in_a_gap_of_any_watch_is_not_judged_and_the_next_is(kind):
    feed = streams(pod("one"), pod("two"), pod("three"))
    feed.cut(kind)
    if kind != "pods":
        feed.tell("pods", 120, pod("one", on="a"))
    feed.wait(2)
    feed.fetch(kind, 130, *([pod("one", on="a")] if kind == "pods" else []))  # 410: listed anew
    feed.tell("pods", 131, pod("two", on="b"))
    feed.wait(RESUMED_S)
    assert feed.counts() == (1, 0, 1)


def test_a_claim_sent_somewhere_in_a_gap_makes_its_pod_unseen_once():
    feed = streams(claim("data", "20Gi"), pod_with("db", "data"))
    feed.cut("claims")
    feed.fetch("claims", 130, claim("data", "20Gi", selected_node="a"))
    feed.tell("pods", 140, pod_with("db", "data", on="a"))
    feed.wait(RESUMED_S)
    assert feed.counts() == (0, 0, 1)


def test_what_happened_before_the_gap_is_judged():
    feed = streams()
    feed.cut("nodes")
    feed.watches["nodes"].reached = 110
    feed.tell("pods", 101, pod("web"))
    feed.tell("pods", 102, pod("web", on="a"))
    feed.fetch("nodes", 130)
    feed.wait(RESUMED_S)
    assert feed.counts() == (1, 0, 0)


def test_a_server_put_back_to_an_older_copy_is_followed_once_all_have_fetched_its_state():
    feed = streams(pod("one"), pod("two"), pod("three"))
    feed.bookmark(500)
    feed.wait(0)
    feed.fetch("pods", 50)
    feed.tell("pods", 51, pod("one", on="a"))
    feed.wait(LIMIT_S + 1)
    assert feed.counts() == (0, 0, 1), "the others count as of another past"
    for kind in ("claims", "nodes", "capacity"):
        feed.fetch(kind, 52)
    feed.tell("pods", 53, pod("two", on="b"))
    feed.wait(RESUMED_S)
    assert feed.counts() == (1, 0, 1)


# -- how it waits -----------------------------------------------------------------------------------------------------


def test_a_pause_of_our_own_is_no_calm():
    """A program that did not run for a minute has not read what came in it."""
    feed = streams()
    feed.tell("pods", 101, pod("web"))
    feed.tell("pods", 102, pod("web", on="a"))
    feed.now_s += 30
    feed.wait(0)
    assert feed.counts() == (0, 0, 0)


def test_versions_that_are_no_numbers_are_taken_as_they_come():
    feed = Streams(*KINDS, start=DISKS, version=0)
    feed.tell("pods", 0, pod("web"))
    feed.tell("pods", 0, pod("web", on="a"))
    feed.wait(CALM_S)
    assert feed.counts() == (1, 0, 0)


def test_at_the_end_what_still_waits_is_not_judged():
    feed = streams()
    feed.cut("claims")
    decided(feed)
    feed.wait(1)
    feed.order.close()
    assert feed.counts() == (0, 0, 1)
    assert len(feed.order) == 0


def test_an_event_is_told_after_the_decision_that_it_is_about():
    feed = streams(claim("data", "20Gi"), pod_with("db", "data"))
    feed.tell("claims", 101, claim("data", "20Gi", selected_node="a"))
    said: list[int] = []
    feed.order.put_last(lambda _: said.append(feed.feed.tally.decisions))
    feed.wait(0)
    assert not said
    feed.wait(CALM_S)
    assert said == [1]
