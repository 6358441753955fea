"""How a driver picks pools (`tonnage.dev/pool-policy`): what is read, and what it does to a decision."""

from __future__ import annotations

import io
from typing import Any

import pytest
from volume_rig import FULL, VolumeRig, refused

from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.queue.queues import QueueName
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.pools import pool_policy_of
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class
from tonnage.whatif.explain_report import print_volumes
from tonnage.whatif.page import TextPage
from tonnage.whatif.replay import Replay

SURE: dict[str, Any] = {"poolFit": "Guaranteed"}


def rig(policy: str, *pools: str, **settings: Any) -> VolumeRig:
    return VolumeRig(node("a"), storage_class(pool_policy=policy), capacity("fast", "a", pools=pools), **settings)


# -- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_class", "of_driver", "policy"),
    [
        ("", "", PoolPolicy.UNKNOWN),
        ("most-free", "", PoolPolicy.MOST_FREE),
        ("", "best-fit", PoolPolicy.BEST_FIT),
        ("first-fit", "best-fit", PoolPolicy.FIRST_FIT),
        ("unknown", "best-fit", PoolPolicy.UNKNOWN),
        ("random", "best-fit", PoolPolicy.RANDOM),
        (" most-free ", "", PoolPolicy.MOST_FREE),
        ("Most-Free", "best-fit", PoolPolicy.UNKNOWN),
        ("roundrobin", "", PoolPolicy.UNKNOWN),
    ],
)
def test_a_class_goes_before_its_driver(of_class: str, of_driver: str, policy: PoolPolicy):
    assert pool_policy_of(storage_class(pool_policy=of_class), driver(pool_policy=of_driver)) is policy


def test_nobody_to_ask_is_unknown():
    assert pool_policy_of(None, None) is PoolPolicy.UNKNOWN


def test_a_value_that_is_none_is_told_once_with_what_there_is(caplog: pytest.LogCaptureFixture):
    made = rig("emptiest", "100Gi")
    made.put(storage_class(pool_policy="emptiest"), driver(pool_policy="fullest"), driver(pool_policy="fullest"))
    told = [str(record.__dict__) for record in caplog.records if "pool policy" in record.message]
    assert len(told) == 2
    assert "StorageClass fast" in told[0] and "emptiest" in told[0]
    assert "CSIDriver csi.example" in told[1] and "fullest" in told[1]
    assert all("write one of most-free, best-fit, first-fit, random, unknown" in each for each in told)


# -- what it does to a decision ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "pools", "sizes", "is_sure"),
    [
        # 60 then 100: the smallest pool with room is the 60, so that the 100 stays whole.
        ("best-fit", ["100Gi", "60Gi"], ["60Gi", "100Gi"], True),
        # The same to the one with most room: the 100 has 40 left.
        ("most-free", ["100Gi", "60Gi"], ["60Gi", "100Gi"], False),
        ("unknown", ["100Gi", "60Gi"], ["60Gi", "100Gi"], False),
        ("random", ["100Gi", "60Gi"], ["60Gi", "100Gi"], False),
        # 40 and 40 go to different pools, and each has 60 left.
        ("most-free", ["100Gi", "100Gi"], ["40Gi", "40Gi", "60Gi"], True),
        ("best-fit", ["100Gi", "100Gi"], ["40Gi", "40Gi", "60Gi"], True),
        # 3 and 3 fill one pool, whichever comes first, and the 5 has the other.
        ("first-fit", ["6Gi", "6Gi"], ["5Gi", "3Gi", "3Gi"], True),
        ("most-free", ["6Gi", "6Gi"], ["5Gi", "3Gi", "3Gi"], False),
    ],
)
def test_a_guaranteed_fit_is_judged_by_what_the_driver_does(
    policy: str, pools: list[str], sizes: list[str], is_sure: bool
):
    made = rig(policy, *pools, **SURE)
    assert made.nodes(made.pod("web", *sizes)) == (["a"] if is_sure else [])
    possible = rig(policy, *pools)
    assert possible.nodes(possible.pod("web", *sizes)) == ["a"]


def test_promised_claims_go_where_the_driver_puts_them():
    # Two of 40 are promised. Most-free spreads them: 60 and 60 are left. Another driver may leave 20 and 100.
    for policy, fits in (("most-free", True), ("unknown", False)):
        made = rig(policy, "100Gi", "100Gi", reservation="Ledger")
        assert made.place(made.pod("one", "40Gi", "40Gi")) == "a"
        assert made.nodes(made.pod("two", "60Gi", "60Gi")) == (["a"] if fits else [])


def test_a_promise_that_is_certain_to_be_in_the_way_refuses_the_node():
    # Best-fit has put the 40 into the 60, of which 20 are left: 60 still goes into the 100, 2 of 60 do not.
    made = rig("best-fit", "100Gi", "60Gi", reservation="Ledger")
    assert made.place(made.pod("one", "40Gi")) == "a"
    assert made.nodes(made.pod("two", "100Gi")) == ["a"]
    assert made.message(made.pod("three", "60Gi", "60Gi")) == refused({FULL: 1}, 1)


@pytest.mark.parametrize(
    "after",
    [
        storage_class(pool_policy="best-fit"),
        driver(pool_policy="best-fit"),
    ],
    ids=["of the class", "of the driver"],
)
def test_pods_alike_are_judged_anew_when_the_policy_changes(after: Object):
    made = VolumeRig(node("a"), capacity("fast", "a", pools=["100Gi", "60Gi"]), **SURE)
    assert made.nodes(made.pod("one", "60Gi", "100Gi")) == []
    made.put(after)
    assert made.nodes(made.pod("two", "60Gi", "100Gi")) == ["a"]
    made.put(storage_class(), driver())
    assert made.nodes(made.pod("three", "60Gi", "100Gi")) == []


def test_pods_of_other_policies_are_unlike():
    made = VolumeRig(node("a"), capacity("fast", "a", pools=["100Gi", "60Gi"]))
    asked = PodInfo(made.pod("one", "60Gi", "100Gi"))
    before = made.profile.decider.decide(made.cluster, asked).cycle.apart
    made.put(storage_class(pool_policy="best-fit"))
    assert made.profile.decider.decide(made.cluster, asked).cycle.apart != before


def test_a_change_of_policy_wakes_pods_that_wait():
    made = VolumeRig(node("a"), capacity("fast", "a", pools=["100Gi", "60Gi"]), **SURE)
    waiting = made.pod("one", "60Gi", "100Gi")
    made.put(waiting)
    queued = made.engine.pop()
    assert queued is not None
    attempt = made.engine.attempt(queued)
    assert attempt.placement is None and attempt.decision is not None and attempt.decision.diagnosis is not None
    made.engine.requeue(queued, waiting, plugins=attempt.decision.diagnosis.rejecting_plugins())
    assert len(made.engine.queue.pods_in(QueueName.UNSCHEDULABLE)) == 1
    made.put(driver(pool_policy="best-fit"))
    assert made.engine.queue.pods_in(QueueName.UNSCHEDULABLE) == []


# -- classes that share their pools -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("other", "fits"), [("best-fit", True), ("most-free", False), ("", False)])
def test_classes_of_a_group_are_judged_by_the_policy_that_they_have_in_common(other: str, fits: bool):
    made = VolumeRig(
        node("a"),
        storage_class("fast", group="disks", pool_policy="best-fit"),
        storage_class("slow", group="disks", pool_policy=other),
        *(capacity(name, "a", pools=["100Gi", "60Gi"]) for name in ("fast", "slow")),
        **SURE,
    )
    made.put(claim("f", "60Gi"), claim("s", "100Gi", class_name="slow"))
    assert made.nodes(pod_with("web", "f", "s")) == (["a"] if fits else [])
    joint = made.cluster.index(CapacityIndex).of("fast,slow")
    assert joint.pool_policy is (PoolPolicy.BEST_FIT if fits else PoolPolicy.UNKNOWN)
    made.put(storage_class("slow", group="disks", pool_policy="best-fit"))
    assert made.nodes(pod_with("web", "f", "s")) == ["a"]


def test_what_is_promised_to_a_class_of_another_policy_may_be_anywhere_in_the_pools_that_it_shares():
    # Best-fit would have put the 40 of "slow" into the 60; whatever its own driver does may have put it into the 100.
    made = VolumeRig(
        node("a"),
        storage_class("fast", group="disks", pool_policy="best-fit"),
        storage_class("slow", group="disks", pool_policy="random"),
        *(capacity(name, "a", pools=["100Gi", "60Gi"]) for name in ("fast", "slow")),
        reservation="Ledger",
        poolFit="Guaranteed",
    )
    made.put(claim("s", "40Gi", class_name="slow"))
    assert made.place(pod_with("one", "s")) == "a"
    assert made.nodes(made.pod("two", "100Gi")) == []
    made.put(storage_class("slow", group="disks", pool_policy="best-fit"))
    assert made.nodes(made.pod("three", "100Gi")) == ["a"]
    made.put(storage_class("slow", group="others", pool_policy="random"))
    assert made.nodes(made.pod("four", "100Gi")) == ["a"]
    made.put(storage_class("slow", group="disks", pool_policy="random"))
    assert made.nodes(made.pod("five", "100Gi")) == []


# -- what is told -----------------------------------------------------------------------------------------------------

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - {name: StorageCapacity, args: {apiVersion: tonnage.dev/v1alpha1, kind: StorageCapacityArgs, poolFit: %s}}
"""


def explained(policy: str, *, pool_fit: str = "Possible") -> Any:
    objects = [
        node("a"),
        driver(),
        storage_class(pool_policy=policy),
        capacity("fast", "a", pools=["100Gi", "60Gi"]),
        claim("data", "100Gi"),
        claim("log", "60Gi"),
        pod_with("x", "data", "log"),
    ]
    profiles = parse(CONFIG % pool_fit, source="a test").profiles
    return Replay(objects, profiles).schedule("default/x")


def test_explain_shows_the_policy_and_the_order_that_goes_wrong():
    entries = explained("most-free").document()["volumes"]["a"]
    assert [(each["claim"], each["grade"], each["poolPolicy"]) for each in entries] == [
        ("default/log", "ordered", "most-free"),
        ("default/data", "ordered", "most-free"),
    ]
    assert entries[0]["order"] == ["default/data", "default/log"]
    assert entries[0]["badSequence"] == [
        {"claim": "default/log", "size": "60Gi", "pool": "100Gi"},
        {"claim": "default/data", "size": "100Gi", "pool": None},
    ]


def test_explain_shows_the_pools_that_the_driver_takes():
    entries = explained("best-fit").document()["volumes"]["a"]
    assert [(each["claim"], each["takes"], each["grade"]) for each in entries] == [
        ("default/log", {"pool": 1}, "guaranteed"),
        ("default/data", {"pool": 0}, "guaranteed"),
    ]
    assert all("badSequence" not in each for each in entries)


def test_a_refusal_for_want_of_a_guarantee_says_what_the_driver_would_do():
    (refused_node,) = explained("most-free", pool_fit="Guaranteed").nodes
    assert refused_node.miss.told == (
        "100Gi, 60Gi fit 100Gi, 60Gi only if the driver is asked in the right order: "
        "most-free puts 60Gi into the pool of 100Gi, and 100Gi finds no room (poolFit: Guaranteed)"
    )


def test_the_page_for_people_shows_the_policy_and_the_order_that_goes_wrong():
    out = io.StringIO()
    accounts = explained("most-free").volumes
    print_volumes(accounts.items(), TextPage(out), max_rows=20)
    page = out.getvalue()
    assert "POLICY" in page and "most-free" in page
    told = "most-free puts 60Gi into the pool of 100Gi, and 100Gi finds no room"
    first = "ordered: default/data, then default/log is asked for, each when the one before was made"
    assert f"{first}; asked in the wrong order, {told} (a)" in page


def test_of_an_unknown_policy_nothing_is_shown():
    for each in explained("").document()["volumes"]["a"]:
        assert "poolPolicy" not in each and "badSequence" not in each
