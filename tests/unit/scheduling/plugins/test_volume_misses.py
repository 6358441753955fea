"""How near a node came that VolumeZone or VolumeRestrictions refused: which volume is where, and who has it."""

from __future__ import annotations

import random
from typing import Any

from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.engine.engine import Engine
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import claim, pod_with, storage_class, volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"


def misses(incoming: Pod, *objects: Object) -> dict[str, tuple[str, str]]:
    """By refused node: who refused it, and the nearest miss."""
    engine = Engine(default_configuration().profiles, clock=VirtualClock(), rng=random.Random(1))
    engine.load([storage_class(), *objects, incoming])
    answer = engine.explain(incoming).document()
    return {each["name"]: (each["rejectedBy"], each.get("nearestMiss", "")) for each in answer["nodes"]}


def bound(name: str, labels: dict[str, str], **options: Any) -> list[Object]:
    return [
        claim(f"data-{name}", volume=name),
        volume(name, claim=f"default/data-{name}", labels=labels, **options),
    ]


def test_a_volume_in_another_zone_is_told_with_both_zones():
    nodes = [node("a", labels={ZONE: "z1"}), node("b", labels={ZONE: "z2"}), node("c", labels={REGION: "r"})]
    found = misses(pod_with("web", "data-pv"), *nodes, *bound("pv", {ZONE: "z1"}))
    assert found == {
        "a": ("", ""),
        "b": ("VolumeZone", "volume pv is in zone z1, this node in zone z2"),
        "c": ("VolumeZone", "volume pv is in zone z1, this node in no zone"),
    }


def test_several_zones_regions_and_volumes_are_all_told():
    nodes = [node("a", labels={ZONE: "z3", REGION: "north"})]
    objects = [*bound("pv", {BETA_ZONE: "z2__z1"}), *bound("pw", {REGION: "south"})]
    found = misses(pod_with("web", "data-pv", "data-pw"), *nodes, *objects)
    assert found["a"][1] == (
        "volume pv is in zone z1 or z2, this node in zone z3; volume pw is in region south, this node in region north"
    )


def test_who_has_the_claim_that_only_one_pod_may_have_is_named():
    taken = claim("data", modes=("ReadWriteOncePod",), volume="pv")
    holder = pod_with("first", "data", on="a")
    objects = [node("a"), node("b"), taken, volume("pv", claim="default/data"), holder]
    told = "claim default/data is for one pod (ReadWriteOncePod); default/first on a has it"
    assert misses(pod_with("second", "data"), *objects) == {
        "a": ("VolumeRestrictions", told),
        "b": ("VolumeRestrictions", told),
    }


def test_who_has_the_disk_on_a_node_is_named():
    disk = {"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "vol-7"}}]}
    objects = [node("a"), node("b"), pod("first", on="a", spec=disk)]
    assert misses(pod("second", spec=disk), *objects) == {
        "a": ("VolumeRestrictions", "disk vol-7 is in use by default/first"),
        "b": ("", ""),
    }


def test_a_claim_that_is_missing_speaks_for_itself():
    found = misses(pod_with("web", "nothing"), node("a"))
    assert found == {"a": ("VolumeRestrictions", "")}
