"""What may make a pod schedulable again, by the plugin that refused it.

The table is upstream's EventsToRegister with queueing hints on (they are, and locked, in 1.36); each hint is then asked
about events that help and events that do not.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import NodeAffinity as Affinity
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.profiles import assemble
from tonnage.scheduling.events import QUEUE, SKIP, ActionType, ClusterEvent, EventResource, changes_of
from tonnage.scheduling.framework import Plugin
from tonnage.scheduling.plugins.node_resources import NodePorts, NodeResourcesFit
from tonnage.scheduling.plugins.pod_and_node import NodeAffinity, NodeUnschedulable, SchedulingGates, TaintToleration
from tonnage.testing.builders import info, node, pod

A, R = ActionType, EventResource
NODE, POD = R.NODE, R.POD

UPSTREAM = {
    "NodeName": {(NODE, A.ADD)},
    "NodeUnschedulable": {(NODE, A.ADD | A.UPDATE_NODE_TAINT), (POD, A.UPDATE_POD_TOLERATION)},
    "TaintToleration": {(NODE, A.ADD | A.UPDATE_NODE_TAINT), (POD, A.UPDATE_POD_TOLERATION)},
    "NodeAffinity": {(NODE, A.ADD | A.UPDATE_NODE_LABEL)},
    "NodePorts": {(POD, A.DELETE), (NODE, A.ADD)},
    "NodeResourcesFit": {(POD, A.DELETE | A.UPDATE_POD_SCALE_DOWN), (NODE, A.ADD | A.UPDATE_NODE_ALLOCATABLE)},
    "SchedulingGates": {(POD, A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)},
    "NodeResourcesBalancedAllocation": set(),
    "ImageLocality": set(),
    "PrioritySort": set(),
    "DefaultBinder": set(),
}


@pytest.mark.parametrize("plugin", UPSTREAM)
def test_a_plugin_registers_for_the_events_upstream_registers_for(plugin: str):
    rules = assemble(default_configuration().profiles[0], random.Random(1)).rules
    assert {(event.resource, event.action) for event, _ in rules.hints[plugin]} == UPSTREAM[plugin]


def woken(plugin: Plugin, waiting: PodInfo, old: Any, new: Any) -> bool:
    """Would any of a plugin's hints let the pod be tried again, after an object went from `old` to `new`?"""
    answers = []
    for seen in changes_of(old, new):
        for mask, hint in plugin.events():
            if mask.covers(seen.event):
                answers.append(QUEUE if hint is None else hint(waiting, seen.event, seen.old, seen.new))
    assert all(answer in (QUEUE, SKIP) for answer in answers)
    return QUEUE in answers


WEB = info("web", cpu="1", memory="1Gi")


# -- nodes ------------------------------------------------------------------------------------------------------------


def test_a_node_that_is_or_becomes_schedulable_wakes_who_met_only_cordoned_ones():
    plugin, cordoned, open_ = NodeUnschedulable(), node("a", unschedulable=True), node("a")
    assert woken(plugin, WEB, None, open_)
    assert woken(plugin, WEB, cordoned, open_)
    assert not woken(plugin, WEB, None, cordoned)
    assert not woken(plugin, WEB, open_, cordoned)
    assert not woken(plugin, WEB, cordoned, node("a", unschedulable=True, taints=["x:NoSchedule"]))


def test_a_node_whose_last_untolerated_taint_goes_wakes_the_pod():
    plugin = TaintToleration()
    one, two = node("a", taints=["x:NoSchedule"]), node("a", taints=["x:NoSchedule", "y:NoExecute"])
    soft = node("a", taints=["x:PreferNoSchedule"])
    assert woken(plugin, WEB, None, node("a")) and woken(plugin, WEB, None, soft)
    assert woken(plugin, WEB, one, node("a")) and woken(plugin, WEB, two, soft)
    assert not woken(plugin, WEB, None, one)
    assert not woken(plugin, WEB, two, one)
    assert not woken(plugin, WEB, node("a"), soft)  # it was not the taints of this node
    tolerant = info("web", tolerations=[{"key": "x", "operator": "Exists"}])
    assert woken(plugin, tolerant, two, one)


def test_a_node_that_comes_to_match_wakes_the_pod():
    plugin, wants_ssd = NodeAffinity(), info("web", node_selector={"disk": "ssd"})
    ssd, hdd = node("a", labels={"disk": "ssd"}), node("a", labels={"disk": "hdd"})
    assert woken(plugin, wants_ssd, None, ssd) and woken(plugin, wants_ssd, hdd, ssd)
    assert not woken(plugin, wants_ssd, None, hdd)
    assert not woken(plugin, wants_ssd, ssd, node("a", labels={"disk": "ssd", "other": "label"}))


def test_a_node_that_comes_to_match_the_operators_affinity_wakes_the_pod():
    """Upstream lets it sleep when the pod's own affinity matched before (isSchedulableAfterNodeChange)."""
    blue = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["blue"]}]}]}
    plugin = NodeAffinity(convert(Affinity, {"requiredDuringSchedulingIgnoredDuringExecution": blue}))
    assert woken(plugin, WEB, node("a"), node("a", labels={"pool": "blue"}))
    assert not woken(plugin, WEB, node("a"), node("a", labels={"pool": "red"}))
    assert not woken(plugin, WEB, node("a", labels={"pool": "blue"}), node("a", labels={"pool": "blue", "x": "y"}))


def test_a_node_with_room_for_the_pod_if_it_were_empty_wakes_it():
    plugin = NodeResourcesFit()
    assert woken(plugin, WEB, None, node("a", cpu="1", memory="1Gi"))
    assert not woken(plugin, WEB, None, node("a", cpu="900m"))
    assert not woken(plugin, WEB, None, node("a", pods=0))
    assert not woken(plugin, info("gpu", **{"example.com/gpu": "1"}), None, node("a"))


def test_a_node_that_has_more_of_what_the_pod_asks_for_wakes_it():
    plugin, before = NodeResourcesFit(), node("a", cpu="4", memory="8Gi", pods=10)
    assert woken(plugin, WEB, before, node("a", cpu="5", memory="8Gi", pods=10))
    assert woken(plugin, WEB, before, node("a", cpu="4", memory="8Gi", pods=11))
    assert not woken(plugin, WEB, before, node("a", cpu="3", memory="8Gi", pods=10))
    gpu: dict[str, Any] = {"example.com/gpu": "1"}
    assert not woken(plugin, WEB, before, node("a", cpu="4", memory="8Gi", pods=10, **gpu))


def test_an_ignored_resource_keeps_no_pod_asleep():
    """Upstream's hint forgets what the plugin ignores, and lets the pod sleep (isFit)."""
    plugin = NodeResourcesFit(ignored=frozenset({"example.com/gpu"}))
    assert woken(plugin, info("gpu", cpu="1", **{"example.com/gpu": "1"}), None, node("a"))


# -- pods -------------------------------------------------------------------------------------------------------------


def test_any_pod_that_leaves_a_node_wakes_who_found_no_room():
    plugin = NodeResourcesFit()
    assert woken(plugin, WEB, pod("db", on="a"), None)
    assert woken(plugin, WEB, pod("db", on="a"), pod("db", on="a", status={"phase": "Succeeded"}))
    assert woken(plugin, WEB, pod("db", status={"nominatedNodeName": "a"}), None)
    assert not woken(plugin, WEB, pod("db"), None)


def test_a_pod_that_shrinks_wakes_who_asks_for_what_it_gave_up():
    plugin, large = NodeResourcesFit(), pod("db", cpu="3", memory="3Gi", on="a")
    assert woken(plugin, WEB, large, pod("db", cpu="2", memory="3Gi", on="a"))
    assert not woken(plugin, info("only-memory", memory="1Gi"), large, pod("db", cpu="2", memory="3Gi", on="a"))
    assert not woken(plugin, WEB, pod("db", cpu="3"), pod("db", cpu="2"))  # it has no node to make room on
    still_held = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}
    assert not woken(plugin, WEB, large, pod("db", cpu="2", memory="3Gi", on="a", status=still_held))


def test_a_waiting_pod_that_asks_for_less_wakes_itself():
    plugin = NodeResourcesFit()
    assert woken(plugin, WEB, pod("web", cpu="2", memory="1Gi"), pod("web", cpu="1", memory="1Gi"))


def test_a_pod_that_leaves_a_port_wakes_who_wants_it():
    plugin, wants_80 = NodePorts(), info("web", host_ports=[80])
    assert woken(plugin, wants_80, pod("old", host_ports=[80, 443], on="a"), None)
    assert not woken(plugin, wants_80, pod("old", host_ports=[443], on="a"), None)
    assert not woken(plugin, wants_80, pod("old", on="a"), None)
    assert not woken(plugin, wants_80, pod("old", host_ports=[80]), None)
    assert woken(plugin, wants_80, None, node("a"))


@pytest.mark.parametrize(
    ("plugin", "helps"),
    [(TaintToleration(), {"key": "x", "operator": "Exists"}), (NodeUnschedulable(), {"operator": "Exists"})],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_new_toleration_wakes_the_pod_that_got_it(plugin: Plugin, helps: dict[str, str]):
    before, after = pod("web"), pod("web", tolerations=[helps])
    assert woken(plugin, PodInfo(before), before, after)
    assert not woken(plugin, info("another"), before, after)


def test_a_toleration_of_something_else_does_not_open_cordoned_nodes():
    before, after = pod("web"), pod("web", tolerations=[{"key": "x", "operator": "Exists"}])
    assert not woken(NodeUnschedulable(), PodInfo(before), before, after)


def test_a_pod_whose_last_gate_is_removed_wakes_itself():
    gated, free = pod("web", spec={"schedulingGates": [{"name": "a"}]}), pod("web")
    plugin = SchedulingGates()
    assert woken(plugin, PodInfo(gated), gated, free)
    assert not woken(plugin, info("another"), gated, free)
    status = plugin.pre_enqueue(info("web", spec={"schedulingGates": [{"name": "a"}, {"name": "b/c"}]}))
    assert status.reasons == ("waiting for scheduling gates: [a b/c]",)
    assert plugin.pre_enqueue(PodInfo(free)).is_success


def test_what_does_not_concern_a_plugin_is_not_asked_of_it():
    heartbeat = convert(type(node("a")), {"kind": "Node", "metadata": {"name": "a", "annotations": {"beat": "1"}}})
    bare = convert(type(node("a")), {"kind": "Node", "metadata": {"name": "a"}})
    for plugin in (NodeUnschedulable(), TaintToleration(), NodeAffinity(), NodePorts(), NodeResourcesFit()):
        assert not woken(plugin, WEB, bare, heartbeat)
        assert not any(mask.covers(ClusterEvent(R.STORAGE_CLASS, A.ADD)) for mask, _ in plugin.events())
