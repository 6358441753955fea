"""Decisions in sequence: what the scheduler remembers, what undoes it, and what an API server would say meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.configurations import storage_configuration
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.configuration.configuration import default_configuration, parse
from tonnage.scheduling.configuration.profile_plugins import KnownPlugin
from tonnage.scheduling.framework import Cycle, ReservePlugin, Status, unschedulable
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume
from tonnage.whatif.replay import Replay, ReplayError

LEDGER = storage_configuration(reservation="Ledger")
OBJECT = storage_configuration(reservation="Object")
NOT_ENOUGH = "0/1 nodes are available: 1 node(s) did not have enough free storage."


def replay(*objects: Object, config: str = "", **options: Any) -> Replay:
    configuration = parse(config, source="config.yaml") if config else default_configuration()
    return Replay(objects, configuration.profiles, **options)


def room(free: str, **metadata: Any) -> CSIStorageCapacity:
    """The capacity object of node a as a manifest has it: without a version of its own."""
    return capacity(node="a", free=free, metadata={"resourceVersion": "", **metadata})


def one_node(*pods: str, free: str = "100Gi", size: str = "20Gi") -> list[Object]:
    """Node a with some room, and pods that have one claim each."""
    found: list[Object] = [node("a"), driver(), storage_class(), room(free)]
    for name in pods:
        found += [claim(f"{name}-data", size), pod_with(name, f"{name}-data")]
    return found


def refusal(run: Replay, name: str) -> tuple[str, str]:
    """A pod's message, and the nearest miss on node a."""
    answer = run.schedule(f"default/{name}")
    (only,) = answer.nodes
    miss = only.miss
    return answer.message, miss.told if miss is not None else ""


# -- decisions --------------------------------------------------------------------------------------------------------


def test_a_scheduled_pod_takes_its_room_at_once():
    run = replay(node("a", cpu="4"), pod("x", cpu="3"), pod("y", cpu="2"))
    assert run.schedule("default/x").node == "a"
    assert run.schedule("default/y").message == "0/1 nodes are available: 1 Insufficient cpu."


def test_the_answer_is_that_of_explain():
    answer = replay(node("a"), pod("x")).schedule("default/x").document()
    assert list(answer) == ["pod", "schedulable", "node", "message", "nodes", "volumes"]
    assert (answer["node"], answer["message"]) == ("a", "fits on 1 of 1 nodes")


def test_a_failed_binding_gives_everything_back():
    run = replay(*one_node("x", "y"), config=OBJECT)
    run.schedule("default/x")
    assert refusal(run, "y") == (
        f"{NOT_ENOUGH} On 1 of 1 nodes the room is reserved for default/x (since 00:00:00Z).",
        "reserved by default/x since 2000-01-01T00:00:00Z",
    )
    assert run.fail_binding("default/x") == "a"
    assert run.engine.cluster.storage.claims.is_assumed("default/x-data") is False
    assert run.schedule("default/y").node == "a"


def test_a_pod_whose_binding_failed_may_be_scheduled_again():
    run = replay(node("a"), pod("x"))
    run.schedule("default/x")
    run.fail_binding("default/x")
    assert run.schedule("default/x").node == "a"


def test_a_gated_pod_is_told_so_and_takes_nothing():
    run = replay(node("a", pods=1), pod("x", spec={"schedulingGates": [{"name": "wait"}]}), pod("y"))
    assert run.schedule("default/x").document()["schedulable"] is False
    assert run.schedule("default/y").node == "a"


def test_a_pod_nominated_to_a_node_goes_there_and_others_leave_it_room():
    expected = pod("x", cpu="3", priority=1, status={"nominatedNodeName": "b"})
    run = replay(node("a", cpu="2"), node("b", cpu="4"), expected, pod("y", cpu="2"))
    assert run.schedule("default/y").node == "a"
    assert run.schedule("default/x").node == "b"


class Refuses(ReservePlugin):
    """Has nothing for pods named late."""

    name = "Refuses"

    def __init__(self, args: object) -> None:
        """It takes none."""

    def reserve(self, cycle: Cycle, node_name: str) -> Status:
        return unschedulable("nothing left") if cycle.pod.pod.name == "late" else Status()


def test_a_refusal_at_reserve_is_reported_and_leaves_nothing_behind():
    text = LEDGER.replace(
        "  pluginConfig:", "  plugins: {reserve: {enabled: [{name: Refuses}]}}\n  pluginConfig:"
    ).replace("Ledger", "Object")
    configuration = parse(text, source="c", known_plugins=(KnownPlugin.of(Refuses),))
    run = Replay(one_node("late", "y"), configuration.profiles)
    answer = run.schedule("default/late")
    assert (answer.node, answer.schedulable) == ("", False)
    assert answer.message == 'fits on 1 of 1 nodes; Reserve plugin "Refuses" refused a: nothing left'
    # VolumeBinding reserved before, and has given it back: the next pod finds the object free.
    assert run.engine.cluster.index(Reservations).holds() == []
    assert run.schedule("default/y").node == "a"


# -- what cannot be done ----------------------------------------------------------------------------------------------


def error(call: Callable[[], object]) -> tuple[str, str | None]:
    """What a step that cannot be taken is answered with."""
    with pytest.raises(ReplayError) as raised:
        call()
    return raised.value.message, raised.value.hint


def test_a_pod_that_is_not_there_cannot_be_scheduled():
    assert error(lambda: replay(node("a"), pod("x")).schedule("default/z")) == (
        'there is no pod "default/z" among the 1 there are now',
        "give it with the manifests or in an apply step before this one",
    )


def test_a_pod_that_was_sent_to_a_node_cannot_be_scheduled_again():
    run = replay(node("a"), pod("x"))
    run.schedule("default/x")
    assert error(lambda: run.schedule("default/x")) == (
        "pod default/x is placed already: it was sent to a",
        "a fail_binding step undoes that",
    )


@pytest.mark.parametrize(
    ("options", "problem", "hint"),
    [
        ({"on": "a"}, "is placed already: it is bound to a", "delete it, and apply it again"),
        ({"status": {"phase": "Failed"}}, "has ended (Failed)", "delete it, and apply it again"),
        (
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "is being deleted, so schedulers ignore it",
            "leave out its metadata.deletionTimestamp",
        ),
    ],
)
def test_a_pod_that_does_not_wait_cannot_be_scheduled(options, problem, hint):
    run = replay(node("a"), pod("x", **options))
    assert error(lambda: run.schedule("default/x")) == (f"pod default/x {problem}", hint)


def test_a_pod_of_another_scheduler_is_refused_unless_any_will_do():
    other = pod("x", spec={"schedulerName": "other"})
    assert error(lambda: replay(node("a"), other).schedule("default/x")) == (
        "pod default/x asks for schedulerName other, and no profile has that name",
        "the profiles are default-scheduler",
    )
    assert replay(node("a"), other, takes_any_pod=True).schedule("default/x").node == "a"


@pytest.mark.parametrize(("on", "found"), [("", "it has not been sent to a node"), ("a", "it is bound to a")])
def test_without_a_decision_no_binding_fails(on, found):
    assert error(lambda: replay(node("a"), pod("x", on=on)).fail_binding("default/x")) == (
        f"the binding of pod default/x cannot fail: {found}",
        "schedule it first, and fail it before it is bound",
    )


def test_a_bound_pod_does_not_leave_its_node():
    run = replay(node("a"), node("b"), pod("x", on="a"))
    assert error(lambda: run.apply(pod("x"))) == (
        "pod default/x is bound to a and cannot be unbound",
        "delete it, and apply it again",
    )
    assert error(lambda: run.apply(pod("x", on="b"))) == (
        "pod default/x is bound to a and cannot be bound to b as well",
        "delete it, and apply it again",
    )


def test_what_is_not_there_cannot_be_deleted():
    assert error(lambda: replay(node("a")).delete("Pod", "default", "x")) == (
        "there is no Pod default/x to delete",
        None,
    )


# -- the world --------------------------------------------------------------------------------------------------------


def test_apply_creates_configures_or_changes_nothing():
    run = replay(*one_node())
    assert run.apply(room("80Gi")) == "configured"
    assert run.apply(room("80Gi")) == "unchanged"
    assert run.apply(pod("x")) == "created"


def test_a_change_bumps_the_version_and_no_change_keeps_it():
    run = replay(*one_node())

    def version() -> int:
        found = run.named("CSIStorageCapacity", "kube-system/fast-a")
        assert found is not None
        return int(found.metadata.resource_version)

    first = version()
    run.apply(room("100Gi"))
    assert version() == first
    run.apply(room("80Gi"))
    assert version() > first
    given = version() + 1_000_000  # past everything that other builders have counted up to
    run.apply(room("80Gi", resourceVersion=str(given)))
    assert version() == given
    run.apply(room("70Gi"))
    assert version() == given + 1


def test_an_update_keeps_uid_and_creation_and_a_new_life_has_its_own():
    run = replay(node("a"))
    nameless = pod("x", metadata={"uid": ""})
    run.advance(30)
    run.apply(nameless)
    first = run.pod("default/x").metadata
    run.advance(30)
    run.apply(pod("x", metadata={"uid": ""}, labels={"a": "b"}))
    assert run.pod("default/x").metadata.uid == first.uid
    assert run.pod("default/x").metadata.creation_timestamp == first.creation_timestamp
    run.delete("Pod", "default", "x")
    run.apply(nameless)
    second = run.pod("default/x").metadata
    assert second.uid != first.uid
    start = datetime(2000, 1, 1, tzinfo=UTC)
    assert (first.creation_timestamp, second.creation_timestamp) == (
        start + timedelta(seconds=30),
        start + timedelta(seconds=60),
    )


def test_another_uid_under_the_same_name_is_another_pod():
    run = replay(node("a", pods=1), pod("x"))
    run.schedule("default/x")
    run.apply(pod("x", metadata={"uid": "second"}))
    assert run.schedule("default/x").node == "a"


def test_time_starts_at_the_last_instant_the_objects_tell_of():
    told = pod(
        "x",
        metadata={"creationTimestamp": "2026-02-01T00:00:00Z"},
        status={"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-02-02T00:00:00Z"}]},
    )
    assert replay(node("a"), told).clock.now() == datetime(2026, 2, 2, tzinfo=UTC)
    assert replay(node("a")).advance(90) == datetime(2000, 1, 1, 0, 1, 30, tzinfo=UTC)


def test_a_pod_applied_with_its_node_confirms_the_decision():
    run = replay(node("a", cpu="4"), pod("x", cpu="3"), pod("y", cpu="2"))
    run.schedule("default/x")
    run.apply(pod("x", cpu="3", on="a"))
    assert run.schedule("default/y").node == ""
    assert run.restart() == []
    assert run.schedule("default/y").node == ""


def test_a_pod_bound_elsewhere_is_moved_and_its_reservation_ends():
    run = replay(*one_node("x", "y"), node("b"))
    run.schedule("default/x")
    run.apply(pod_with("x", "x-data", on="b"))
    assert run.engine.cluster.node_of("default-x") == "b"
    assert run.schedule("default/y").node == "a"


def test_an_assumed_pod_that_changes_meanwhile_stays_assumed():
    run = replay(node("a", pods=1), pod("x"), pod("y"))
    run.schedule("default/x")
    run.apply(pod("x", labels={"new": "label"}))
    assert run.schedule("default/y").node == ""


def test_a_pod_that_ends_frees_its_room():
    run = replay(*one_node("x", "y"))
    run.schedule("default/x")
    run.apply(pod_with("x", "x-data", status={"phase": "Failed"}))
    assert run.schedule("default/y").node == "a"


def test_a_deleted_pod_frees_its_room_and_its_reservation():
    run = replay(*one_node("x", "y"))
    run.schedule("default/x")
    run.delete("Pod", "default", "x")
    assert run.schedule("default/y").node == "a"


def test_nodes_come_and_go():
    run = replay(node("a"), pod("x"))
    run.delete("Node", "", "a")
    assert run.schedule("default/x").message == "no nodes available to schedule pods"
    run.apply(node("b"))
    assert run.schedule("default/x").node == "b"


# -- memory -----------------------------------------------------------------------------------------------------------


def test_a_refresh_frees_a_reserved_object_also_when_less_is_left():
    run = replay(*one_node("x", "y"), config=OBJECT)
    run.schedule("default/x")
    run.apply(room("100Gi"))  # published again as it was: an API server keeps the version, and nobody is told
    assert run.schedule("default/y").node == ""
    run.apply(room("80Gi"))
    assert run.schedule("default/y").node == "a"


def test_time_alone_frees_what_is_bound_and_never_refreshed():
    run = replay(*one_node("x", "y"), config=OBJECT)
    run.schedule("default/x")
    run.advance(3600)
    assert refusal(run, "y")[1] == "reserved by default/x since 2000-01-01T00:00:00Z"
    run.apply(volume("pv-x", "20Gi", on="a", claim="default/x-data"))
    run.apply(claim("x-data", "20Gi", volume="pv-x", selected_node="a"))
    run.advance(59)
    assert run.schedule("default/y").node == ""
    run.advance(1)
    assert run.schedule("default/y").node == "a"


def test_a_restart_forgets_reservations_and_assumed_pods():
    run = replay(*one_node("x", "y"), config=OBJECT)
    run.schedule("default/x")
    assert run.restart() == [("default/x", "a")]
    assert run.schedule("default/x").node == "a"


def test_a_restarted_ledger_remembers_what_the_claims_say():
    run = replay(*one_node("x", "y", size="60Gi"), config=LEDGER)
    run.schedule("default/x")
    run.apply(claim("x-data", "60Gi", selected_node="a"))
    run.restart()
    # 100 free - 60 promised = 40 < 60
    assert refusal(run, "y") == (
        f"{NOT_ENOUGH} On 1 of 1 nodes the room is reserved for claim default/x-data (since 00:00:00Z).",
        "100Gi free, 60Gi promised to default/x-data since 2000-01-01T00:00:00Z, needs 60Gi",
    )


def test_volumes_that_are_there_from_the_start_are_no_promises():
    bound = [claim("old", "60Gi", volume="pv-old", selected_node="a"), volume("pv-old", "60Gi", claim="default/old")]
    run = replay(*one_node("x", size="60Gi"), *bound, config=LEDGER)
    assert run.schedule("default/x").node == "a"


def test_the_same_steps_give_the_same_answers():
    def told() -> list[str]:
        run = replay(*(node(f"n{i}") for i in range(9)), *(pod(f"p{i}") for i in range(9)))
        return [run.schedule(f"default/p{i}").node for i in range(9)]

    assert told() == told()


# -- story 2 of KEP-5925 ----------------------------------------------------------------------------------------------

JOBS = [f"job-{i}" for i in range(10)]


def test_story_2_object_lets_one_pod_in_per_refresh_and_never_too_many():
    run = replay(*one_node(*JOBS), config=OBJECT)
    waiting, placed, free_gi = list(JOBS), [], 100
    for _ in range(8):
        went = [name for name in waiting if run.schedule(f"default/{name}").node]
        waiting = [name for name in waiting if name not in went]
        placed.append(len(went))
        free_gi -= 20 * len(went)
        run.apply(room(f"{free_gi}Gi"))
    # 100Gi hold five of 20Gi, one after each refresh; the others never get in.
    assert placed == [1, 1, 1, 1, 1, 0, 0, 0]
    assert len(waiting) == 5


def test_story_2_ledger_lets_five_in_at_once_and_never_too_many():
    run = replay(*one_node(*JOBS), config=LEDGER)
    assert [bool(run.schedule(f"default/{name}").node) for name in JOBS] == [True] * 5 + [False] * 5
    # The volumes are made one by one; each refresh shows what has been made. No byte is promised twice meanwhile.
    for made, name in enumerate(JOBS[:5], 1):
        run.apply(volume(f"pv-{name}", "20Gi", on="a", claim=f"default/{name}-data"))
        run.apply(claim(f"{name}-data", "20Gi", volume=f"pv-{name}", selected_node="a"))
        run.apply(room(f"{100 - 20 * made}Gi"))
        assert not run.schedule("default/job-9").node
