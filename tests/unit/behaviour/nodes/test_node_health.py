"""When a node counts as silent, and what its conditions say then."""

from __future__ import annotations

from support.node_builders import at, condition, lease, node
from tonnage.behaviour.nodes.node_lifecycle_plan import is_overdue, observe, unknown_conditions

GRACE = {"grace_s": 50.0, "startup_grace_s": 60.0}


def test_a_node_first_seen_has_the_whole_grace_period_however_old_its_heartbeat() -> None:
    seen = observe(None, node("n", condition("Ready", "True", heartbeat_s=-3600)), None, at(0))
    assert not is_overdue(seen, at(50), **GRACE)
    assert is_overdue(seen, at(50.001), **GRACE)


def test_a_new_heartbeat_is_a_sign_of_life() -> None:
    first = observe(None, node("n", condition("Ready", "True", heartbeat_s=0)), None, at(0))
    same = observe(first, node("n", condition("Ready", "True", heartbeat_s=0)), None, at(40))
    moved = observe(same, node("n", condition("Ready", "True", heartbeat_s=10)), None, at(45))
    # Its own clock does not count: it was heard when we noticed, at 45 s, whatever time it says.
    assert (same.last_seen_at, moved.last_seen_at) == (at(0), at(45))


def test_a_renewed_lease_is_a_sign_of_life_without_any_status() -> None:
    ready = node("n", condition("Ready", "True"))
    first = observe(None, ready, lease(0), at(0))
    renewed = observe(first, ready, lease(10), at(12))
    unchanged = observe(renewed, ready, lease(10), at(30))
    assert (renewed.last_seen_at, unchanged.last_seen_at) == (at(12), at(12))


def test_a_lease_that_goes_back_in_time_is_none() -> None:
    ready = node("n", condition("Ready", "True"))
    first = observe(None, ready, lease(10), at(0))
    assert observe(first, ready, lease(5), at(30)).last_seen_at == at(0)


def test_after_a_clock_was_set_back_the_next_renewal_counts() -> None:
    ready = node("n", condition("Ready", "True"))
    first = observe(None, ready, lease(7200), at(0))
    set_back = observe(first, ready, lease(10), at(10))
    assert observe(set_back, ready, lease(20), at(20)).last_seen_at == at(20)


def test_a_node_that_never_posted_its_status_is_given_longer_from_its_creation_on() -> None:
    seen = observe(None, node("n"), None, at(55))
    assert seen.last_seen_at == at(0)
    assert not is_overdue(seen, at(60), **GRACE)
    assert is_overdue(seen, at(61), **GRACE)


def test_the_first_status_of_a_node_is_a_sign_of_life() -> None:
    bare = observe(None, node("n"), None, at(0))
    assert observe(bare, node("n", condition("Ready", "False", heartbeat_s=0)), None, at(59)).last_seen_at == at(59)


def test_another_node_of_the_same_name_starts_anew() -> None:
    ready = condition("Ready", "True", heartbeat_s=0)
    old = observe(None, node("n", ready, uid="1"), lease(5), at(0))
    new = observe(old, node("n", ready, uid="2"), None, at(40))
    assert (new.last_seen_at, new.renewed) == (at(40), None)


def test_a_silent_node_that_was_ready_says_unknown_and_keeps_its_heartbeat() -> None:
    silent = node(
        "n",
        condition("Ready", "True", heartbeat_s=5),
        condition("MemoryPressure", "False", heartbeat_s=5),
        condition("DiskPressure", "Unknown"),
        condition("NetworkUnavailable", "False"),
    )
    stopped = {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastHeartbeatTime": "2026-11-15T12:00:05Z",
        "lastTransitionTime": "2026-11-15T12:01:00Z",
    }
    never = {
        "status": "Unknown",
        "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": "2026-11-15T12:00:00Z",
        "lastTransitionTime": "2026-11-15T12:01:00Z",
    }
    # DiskPressure is Unknown already; the network is somebody else's affair.
    assert unknown_conditions(silent, at(60)) == [
        {"type": "Ready", **stopped},
        {"type": "MemoryPressure", **stopped},
        {"type": "PIDPressure", **never},
    ]


def test_a_node_known_to_be_silent_has_nothing_more_to_say() -> None:
    unknown = [condition(each, "Unknown") for each in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")]
    assert unknown_conditions(node("n", *unknown), at(60)) == []
