"""A profile with its plugins made: upstream's order and weights, one instance a plugin, and what is left out."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from tonnage.scheduling.configuration.configuration import default_configuration, parse
from tonnage.scheduling.configuration.profile_plugins import KnownPlugin
from tonnage.scheduling.engine.profiles import Assembled, assemble
from tonnage.scheduling.framework import Cycle, FilterPlugin, Judgement, Plugin
from tonnage.testing.builders import cluster_of, info, node

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def assembled(profile: str = "{}", **options: Any) -> Assembled:
    configuration = parse(f"{HEAD}profiles:\n- {profile}\n", source="a test", **options)
    return assemble(configuration.profiles[0], random.Random(1))


def test_the_default_profile_runs_upstreams_plugins_in_upstreams_order():
    made = assemble(default_configuration().profiles[0], random.Random(1))
    assert made.scheduler_name == "default-scheduler"
    # OutOfScope is ours, and first: nobody else may place a pod that it would turn away.
    assert [each.name for each in made.pipeline.pre_filter] == [
        "OutOfScope",
        "NodeAffinity",
        "NodePorts",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ]
    assert [each.name for each in made.pipeline.filter] == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ]
    assert [(each.name, weight) for each, weight in made.pipeline.score] == [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("VolumeBinding", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ]
    assert [each.name for each in made.reserve] == ["VolumeBinding"]
    assert [each.name for each in made.pre_bind] == ["VolumeBinding"]
    assert [each.name for each in made.bind] == ["DefaultBinder"]
    assert [each.name for each in made.rules.pre_enqueue] == ["SchedulingGates", "DefaultPreemption"]
    assert [each.name for each in made.post_filter] == ["DefaultPreemption"]


def test_a_plugin_is_one_instance_wherever_it_takes_part():
    pipeline = assembled().pipeline
    points: tuple[Iterable[Plugin], ...] = (
        pipeline.filter,
        pipeline.pre_filter,
        pipeline.pre_score,
        [each for each, _ in pipeline.score],
    )
    found = [each for point in points for each in point if each.name == "NodeAffinity"]
    assert len(found) == 4 and all(each is found[0] for each in found)


def test_what_is_not_here_is_left_out_with_its_reason():
    made = assembled()
    assert made.left_out["DynamicResources"].startswith("Tonnage does not allocate devices")
    assert all(made.left_out.values())
    taking_part = {*made.pipeline.filter, *made.pipeline.pre_filter, *made.post_filter, *made.reserve, *made.pre_bind}
    assert not {each.name for each in taking_part} & made.left_out.keys()


def test_a_plugin_that_is_switched_off_does_not_run_and_weights_are_the_profiles():
    made = assembled(
        "{plugins: {filter: {disabled: [{name: NodePorts}]}, "
        "score: {disabled: [{name: ImageLocality}], enabled: [{name: NodeAffinity, weight: 9}]}}}"
    )
    assert "NodePorts" not in [each.name for each in made.pipeline.filter]
    weights = {each.name: weight for each, weight in made.pipeline.score}
    assert "ImageLocality" not in weights and weights["NodeAffinity"] == 9


def test_nobody_can_switch_off_what_turns_away_pods_we_cannot_place():
    made = assembled(
        "{plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}}"
    )
    decision = made.decider.decide(cluster_of(node("a")), info("web", spec={"schedulingGroup": {"podGroupName": "g"}}))
    assert decision.diagnosis is not None
    assert decision.diagnosis.message() == (
        "0/1 nodes are available: pod belongs to a pod group, and Tonnage does not place groups."
    )
    claims = info("web", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]})
    decision = made.decider.decide(cluster_of(node("a")), claims)
    assert decision.diagnosis is not None
    assert decision.diagnosis.message() == (
        "0/1 nodes are available: pod asks for devices by resource claims, which Tonnage does not allocate."
    )


def test_arguments_reach_their_plugins():
    made = assembled(
        "{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/gpu], "
        "scoringStrategy: {type: MostAllocated}}}]}"
    )
    gpu = info("gpu", cpu="2", **{"example.com/gpu": "1"})
    # Nobody has the resource, and nobody is asked for it. MostAllocated: b is fuller with 2 of 3 than a with 2 of 4.
    assert made.decider.decide(cluster_of(node("a"), node("b", cpu="3")), gpu).node == "b"


class Picky(FilterPlugin):
    """Somebody else's plugin."""

    name = "Picky"

    def __init__(self, args: Any = None) -> None:
        self.args = args

    def filter(self, cycle: Cycle, rows: Any) -> Judgement | None:
        return None


def test_somebody_elses_plugin_is_made_from_its_raw_arguments():
    profile = "{plugins: {filter: {enabled: [{name: Picky}]}}, pluginConfig: [{name: Picky, args: {level: 3}}]}"
    known = KnownPlugin.of(Picky)
    configuration = parse(f"{HEAD}profiles:\n- {profile}\n", source="a test", known_plugins=[known])
    made = assemble(configuration.profiles[0], random.Random(1))
    picky = made.pipeline.filter[-1]
    assert isinstance(picky, Picky) and picky.args == {"level": 3}
