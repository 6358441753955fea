"""Who holds the room on a node, since when, and who wrote it: told in conditions, events, explain and metrics."""

from __future__ import annotations

from typing import Any

from scheduler_volume_rig import SchedulerRig

from tonnage.objects.core_v1 import Pod
from tonnage.testing.builders import node, pod

GATED = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}
BY_KUEUE = {
    "managedFields": [
        {"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}},
        {
            "manager": "kueue",
            "operation": "Apply",
            "subresource": "status",
            "time": "1999-12-31T23:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}},
        },
    ]
}
UPSTREAM = (
    "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
    "2 No preemption victims found for incoming pod."
)
HELD = "Room on a is held for default/job (nominated by kueue since 1999-12-31T23:00:00Z)."


def job(**options: Any) -> Pod:
    return pod("job", cpu="1", priority=5, spec=GATED, status={"nominatedNodeName": "a"}, **options)


def held_room() -> SchedulerRig:
    """a is held for job; b is full: nobody holds it."""
    return SchedulerRig(
        node("a", cpu="1"), node("b", cpu="1"), pod("r", cpu="1", priority=9, on="b"), job(metadata=BY_KUEUE)
    )


async def test_the_pods_condition_and_event_name_the_holder_beside_upstreams_words():
    rig = held_room()
    rig.add(pod("web", cpu="1"))
    async with rig.running():
        await rig.settle()
        assert rig.conditions == [("default/web", "Unschedulable", f"{UPSTREAM} {HELD}")]
        assert rig.events == [("Warning", "FailedScheduling", f"{UPSTREAM} {HELD}")]


async def test_nothing_is_said_of_holders_where_the_node_refuses_anyway():
    rig = SchedulerRig(
        node("a", cpu="1"), job(metadata=BY_KUEUE), pod("web", cpu="2", spec={"preemptionPolicy": "Never"})
    )
    async with rig.running():
        await rig.settle()
        ((_, _, told),) = rig.conditions
        assert told.endswith("preemptionPolicy=Never.")


def test_explain_names_the_holder_of_each_node():
    told = held_room().engine.explain(pod("web", cpu="1"))
    assert told.message == f"0/2 nodes are available: 2 Insufficient cpu. {HELD}"
    by_name = {each["name"]: each for each in told.document()["nodes"]}
    assert by_name["a"]["heldBy"] == [{"pod": "default/job", "since": "1999-12-31T23:00:00Z", "by": "kueue"}]
    assert by_name["a"]["reasons"] == ["Insufficient cpu"], "upstream's reason stays"
    assert "heldBy" not in by_name["b"]


async def test_nominations_are_listed_with_what_they_hold():
    rig = held_room()
    rig.add(pod("big", cpu="2", status={"nominatedNodeName": "a"}), pod("early", status={"nominatedNodeName": "new"}))
    rig.change(Pod, "default/early", {"spec": {"schedulingGates": [{"name": "wait"}]}})
    async with rig.running():
        await rig.settle(3.0)
        assert [(each["node"], each["pod"], each["holds"], each["nodeExists"]) for each in rig.pages.nominations()] == [
            ("a", "default/big", False, True),
            ("a", "default/job", True, True),
            ("new", "default/early", True, False),
        ] or rig.bound
        (first,) = [each for each in rig.pages.nominations() if each["pod"] == "default/job"]
        assert first == {
            "node": "a",
            "nodeExists": True,
            "pod": "default/job",
            "uid": "default-job",
            "priority": 5,
            "holds": True,
            "since": "1999-12-31T23:00:00Z",
            "by": "kueue",
        }


async def test_what_the_scheduler_nominated_itself_and_is_not_in_the_api_yet_bears_its_name():
    rig = SchedulerRig(node("a", cpu="1"), pod("low", cpu="1", on="a"), is_graceful=True)
    rig.add(pod("web", cpu="1", priority=5))
    async with rig.running():
        await rig.settle()
        (listed,) = rig.pages.nominations()
        assert (listed["pod"], listed["since"]) == ("default/web", "2000-01-01T00:00:00Z")
        assert listed["by"] == "", "the server here keeps no managedFields"
    rig.queue.nominator.expect(pod("web"), "elsewhere")
    (listed,) = rig.pages.nominations()
    assert (listed["node"], listed["by"]) == ("elsewhere", "default-scheduler")


async def test_metrics_count_held_nominations_and_their_age():
    rig = held_room()
    assert rig.metric("scheduler_held_nominations") == 1.0
    assert rig.metric("scheduler_held_nominations_oldest_seconds") == 3600.0
    rig.clock.advance(5.0)
    assert rig.metric("scheduler_held_nominations_oldest_seconds") == 3605.0
    rig.delete(Pod, "default/job")
    assert rig.metric("scheduler_held_nominations") == rig.metric("scheduler_held_nominations_oldest_seconds") == 0.0
