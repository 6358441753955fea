"""drain-preview says what a replay of the same steps says: cordon, free the volumes, delete each pod, decide anew."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolume, Pod
from tonnage.objects.core_v1.persistent_volume import VolumeNodeAffinity
from tonnage.objects.core_v1.pod import PodStatus
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume
from tonnage.whatif.drain.preview import Preview
from tonnage.whatif.drain.rehearsal import Scene
from tonnage.whatif.replay import Replay
from tonnage.whatif.sources import ClusterState, clock_of

RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
PROFILES = default_configuration(gates=Gates()).profiles
NODES = ("a", "b", "c", "d")


def cluster(rng: random.Random) -> list[Object]:
    """A few nodes with pools, and on the first of them a few pods, most with a volume there."""
    rebuilds = rng.random() < 0.8
    made: list[Object] = [storage_class(), driver(rebuilding=rebuilds)]
    for name in NODES:
        pools = [f"{rng.choice((20, 40, 60, 90))}Gi" for _ in range(rng.randint(1, 2))]
        total = sum(int(each.removesuffix("Gi")) for each in pools)
        made += [node(name, cpu=rng.choice(("1", "2", "4"))), capacity("fast", name, f"{total}Gi", pools=pools)]
    for number in range(rng.randint(1, 4)):
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": f"db{number}", "uid": f"set-{number}"}
        home = "a" if rng.random() < 0.8 else rng.choice(NODES)
        claims = []
        if rng.random() < 0.7:
            size, data = f"{rng.choice((10, 30, 50, 80))}Gi", f"data-{number}"
            made += [
                claim(data, size, volume=f"pv-{number}", selected_node=home),
                volume(f"pv-{number}", size, on=home, claim=f"default/{data}"),
            ]
            claims.append(data)
        metadata = {"ownerReferences": [{**owner, "controller": True}]}
        cpu = rng.choice(("200m", "500m", "900m"))
        made.append(pod_with(f"db{number}-0", *claims, on=home, status=RUNNING, cpu=cpu, metadata=metadata))
    return made


def replayed(objects: list[Object]) -> dict[str, str]:
    """Where each pod of node a goes when the steps of a drain are replayed; empty for nowhere."""
    replace = msgspec.structs.replace
    replay = Replay(objects, PROFILES, takes_any_pod=True)
    rebuilds = any(getattr(getattr(each, "spec", None), "volume_rebuilding", False) for each in objects)
    for each in objects:
        if isinstance(each, Node) and each.name == "a":
            replay.apply(replace(each, spec=replace(each.spec, unschedulable=True)))
        elif isinstance(each, PersistentVolume) and rebuilds and "'a'" in str(each.spec.node_affinity):
            replay.apply(replace(each, spec=replace(each.spec, node_affinity=VolumeNodeAffinity())))
    pods = sorted(
        (each for each in objects if isinstance(each, Pod) and each.spec.node_name == "a"), key=lambda p: p.key
    )
    for each in pods:
        replay.delete("Pod", each.namespace, each.name)
        metadata = replace(each.metadata, uid=f"{each.uid}~2", resource_version="")
        replay.apply(replace(each, metadata=metadata, spec=replace(each.spec, node_name=""), status=PodStatus()))
    return {each.key: replay.schedule(each.key).node for each in pods}


@settings(max_examples=tries(25), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_the_preview_says_what_a_replay_of_the_same_steps_says(seed: int):
    objects = cluster(random.Random(seed))
    state = ClusterState(objects, "the test", clock_of(objects))
    preview = Preview(Scene(state, PROFILES), ("a",))
    preview.run()
    found = preview.document()
    told = {each["pod"]: each["to"] for each in found["moves"]} | dict.fromkeys(
        (each["pod"] for each in found["stuck"]), ""
    )
    assert told == replayed(objects)
    again = Preview(Scene(state, PROFILES), ("a",))
    again.run()
    assert again.document() == found
