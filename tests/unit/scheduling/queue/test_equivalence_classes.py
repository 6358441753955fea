"""Pods that cannot be told apart: one of them is tried, and what becomes of it tells about the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from queue_rig import NODE_LABEL, QueueRig

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.queue.waiting_pods import QueuedPod, WakingRules, uid_of
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import pod_with, storage_class

HINTS = dict.fromkeys(("Labels", "Other"), ((NODE_LABEL, None),))


class Alike(WakingRules):
    """A queue whose plugins see of a pod what its labels say: "Labels" the label `kind`, "Other" the label `other`."""

    def __init__(self, **kinds: str) -> None:
        self.signs = {"Labels": "kind", "Other": "other"}
        self.on_sign: Callable[[str], None] = lambda name: None
        self.rig = QueueRig(HINTS, rules=self)
        for name, kind in kinds.items():
            self.rig.add(pod(name, labels={"kind": kind[:1], "other": kind[1:]}))
            self.end(self.rig.pop(), "Labels")

    def sign(self, profile: str, pod: PodInfo, plugins: frozenset[str]) -> Hashable:
        self.on_sign(pod.pod.name)
        return tuple(pod.labels[self.signs[each]] for each in sorted(plugins))

    def end(self, queued: QueuedPod, *plugins: str) -> None:
        queued.left_behind = queued.left_behind._replace(is_like_others=True)
        self.rig.queue.add_unschedulable_if_not_present(queued, unschedulable_plugins=plugins)

    def event(self) -> None:
        self.rig.queue.move_all_to_active_or_backoff(NODE_LABEL, node("a"), node("a"))

    def tried(self, *plugins: str) -> list[str]:
        """Who is tried until nobody is left, all of them refused by these."""
        names = []
        while (queued := self.rig.queue.pop_nowait()) is not None:
            names.append(queued.pod.name)
            self.end(queued, *plugins)
        return names

    def rejectors(self) -> dict[str, set[str]]:
        return {
            each.pod.name: set(each.unschedulable_plugins) for each in self.rig.queue.pods_in(QueueName.UNSCHEDULABLE)
        }


def test_one_of_each_kind_is_tried_and_the_others_are_refused_with_it():
    alike = Alike(a="x", b="x", c="y", d="x", e="y")
    alike.event()
    assert alike.tried("Labels") == ["a", "c"]
    assert alike.tried("Labels") == []
    alike.event()
    assert alike.tried("Labels") == ["b", "e"]  # those that waited longer come first


def test_when_one_is_placed_the_next_has_its_turn():
    alike = Alike(a="x", b="x", c="x", d="x")
    alike.event()
    for name in ("a", "b"):
        queued = alike.rig.pop()
        assert queued.pod.name == name
        alike.rig.queue.done(queued.pod)
    assert alike.tried("Labels") == ["c"]
    assert [each.pod.name for each in alike.rig.queue.pods_in(QueueName.UNSCHEDULABLE)] == ["d", "c"]


def test_one_that_is_gone_or_met_an_error_tells_nothing_about_the_others():
    alike = Alike(a="x", b="x", c="x")
    alike.event()
    alike.rig.queue.delete(alike.rig.pop().pod)
    broken = alike.rig.pop()
    assert broken.pod.name == "b"
    alike.rig.queue.add_unschedulable_if_not_present(broken)
    assert alike.tried("Labels") == ["c"]


def test_those_who_are_refused_with_it_wait_for_what_it_waits_for():
    """Another plugin refuses the pod now: its hints are to be asked about those that it sees alike, too."""
    alike = Alike(a="x1", b="x1", c="x2")
    alike.event()
    assert alike.tried("Labels", "Other") == ["a", "c"]  # c is another to "Other"
    assert alike.rejectors() == {name: {"Labels", "Other"} for name in "abc"}
    assert alike.rig.queue.refusals() == {("Labels", "default-scheduler"): 3, ("Other", "default-scheduler"): 3}


def test_a_pod_that_is_nominated_is_like_no_other():
    alike = Alike(a="x", b="x", c="x")
    waiting = alike.rig.queue.waiting(uid_of(pod("b")))
    assert waiting is not None
    alike.rig.queue.nominator.expect(waiting.pod, "n")
    alike.event()
    assert sorted(alike.tried("Labels")) == ["a", "b"]


def test_what_happens_while_one_is_being_tried_is_not_answered_by_it():
    alike = Alike(a="x", b="x")
    alike.event()
    early = alike.rig.pop()
    alike.event()  # too late for the pod that is in flight
    alike.end(early, "Labels")
    assert set(alike.tried("Labels")) == {"a", "b"}


def test_a_pod_that_changes_is_signed_anew():
    alike = Alike(a="x", b="x", c="x")
    before = alike.rig.queue.waiting(uid_of(pod("b")))
    assert before is not None
    alike.rig.queue.update(before.pod, pod("b", labels={"kind": "z", "other": ""}))
    alike.event()
    assert sorted(alike.tried("Labels")) == ["a", "b"]


def test_a_sign_that_breaks_leaves_a_pod_alone():
    alike = Alike()
    for name in ("a", "b"):
        alike.rig.add(pod(name))  # without the labels that the sign reads
        alike.end(alike.rig.pop(), "Labels")
    alike.event()
    assert alike.tried("Labels") == ["a", "b"]


def test_a_pod_that_becomes_unlike_those_it_waits_with_keeps_its_turn():
    alike = Alike(a="x", b="x", c="x")
    alike.event()
    first = alike.rig.pop()
    waiting = alike.rig.queue.waiting(uid_of(pod("b")))
    assert waiting is not None
    alike.rig.queue.update(waiting.pod, pod("b", labels={"kind": "y", "other": ""}))
    told = alike.rig.wakes
    alike.end(first, "Labels")
    assert alike.rig.wakes > told  # somebody may be popped
    assert alike.tried("Labels") == ["b"]  # refused with the first was the one that is still like it


def with_claims(name: str, *claims: str) -> Pod:
    return pod_with(name, *claims, labels={"kind": "x", "other": ""})


def test_pods_that_share_a_claim_are_signed_anew_when_one_is_on_its_way():
    alike = Alike()
    for each in (with_claims("a", "one"), *(with_claims(name, "two") for name in "bcd")):
        alike.rig.add(each)
        alike.end(alike.rig.pop(), "Labels")
    alike.event()
    first = alike.rig.pop()
    asked: list[str] = []
    alike.on_sign = asked.append
    alike.rig.queue.pod_assumed(first.pod, "n")
    assert asked == []
    alike.rig.queue.pod_assumed(with_claims("other", "two"), "n")
    assert asked == ["c", "d"]  # it is b's turn: it is signed when it comes back


def test_pods_with_claims_are_signed_anew_when_a_class_comes_or_goes():
    alike = Alike(plain="x")
    for each in (with_claims("a", "one"), with_claims("b", "two", "three")):
        alike.rig.add(each)
        alike.end(alike.rig.pop(), "Labels")
    asked: list[str] = []
    alike.on_sign = asked.append
    alike.rig.queue.cluster_changed(None, storage_class())
    alike.rig.queue.cluster_changed(storage_class(), storage_class(group="g"))
    assert asked == ["a", "b"]
    alike.rig.queue.cluster_changed(storage_class(), None)
    assert asked == ["a", "b", "a", "b"]
