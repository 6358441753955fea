"""What node labels offer to pods that wait for volumes (queue/waiting_pods.py, volumes/hints.py).

A change of a node's labels that `TopologyKeys` takes for idle changes no object's mind about the node.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.hints import TopologyKeys
from tonnage.testing.storage_builders import capacity, storage_class, volume

KEYS = ("zone", "rack", "disk", "turn")


def some_object(rng: random.Random, number: int) -> Any:
    key, value, name = rng.choice(KEYS[:3]), rng.choice("xyz"), f"o{number}"
    wanted = {"key": key, "operator": rng.choice(("In", "NotIn")), "values": [value]}
    match rng.randrange(4):
        case 0:
            return capacity(name=name, free="1Gi", topology={"matchLabels": {key: value}})
        case 1:
            return capacity(name=name, free="1Gi", topology={"matchExpressions": [wanted]})
        case 2:
            return volume(name, affinity=wanted)
        case _:
            return storage_class(name, topologies=[{key: [value]}])


def admits(each: Object, labels: dict[str, str]) -> bool:
    match each:
        case CSIStorageCapacity():
            return each.node_topology is not None and each.node_topology.matches(labels)
        case PersistentVolume():
            required = each.spec.node_affinity.required
            return required is None or required.matches("", labels)
        case StorageClass():
            return not each.allowed_topologies or any(term.matches(labels) for term in each.allowed_topologies)
    raise AssertionError(each)


def some_labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice("xyz") for key in rng.sample(KEYS, rng.randint(0, len(KEYS)))}


@pytest.mark.parametrize("seed", range(10))
def test_labels_that_nobody_asks_for_change_nobodys_mind(seed: int) -> None:
    rng, cluster, idle = random.Random(seed), Cluster(), 0
    objects: dict[tuple[type[Object], str], Any] = {}
    for number in range(120):
        known = cluster.index(TopologyKeys) if cluster.has_index(TopologyKeys) else None
        if known is None and number == 10:
            add_indexes(cluster, [TopologyKeys])  # one that comes later has to read what is there
        if objects and rng.random() < 0.5:
            cluster.storage.remove(objects.pop(rng.choice(sorted(objects, key=str))))
        else:
            each = some_object(rng, rng.randrange(6))
            objects[type(each), each.key] = each
            cluster.storage.put(each)
        if known is not None:
            before, after = some_labels(rng), some_labels(rng)
            if rng.random() < 0.5:
                after = {**before, rng.choice(KEYS): "new"}
            if not known.may_tell_apart(before, after):
                idle += 1
                assert all(admits(each, before) == admits(each, after) for each in objects.values())
    assert idle


def test_a_key_that_nobody_asks_for_any_more_says_nothing() -> None:
    cluster = add_indexes(Cluster(), [TopologyKeys])
    keys, zonal = cluster.index(TopologyKeys), volume("v", affinity={"key": "zone", "operator": "In", "values": ["x"]})
    cluster.storage.put(zonal)
    assert keys.may_tell_apart({}, {"zone": "x"})
    assert not keys.may_tell_apart({"zone": "x"}, {"zone": "x", "turn": "1"})
    cluster.storage.put(volume("v"))
    assert not keys.may_tell_apart({}, {"zone": "x"})
