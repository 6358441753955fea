"""On every node at once claims take the volumes that upstream would give them on that node alone.

The twin goes through the volumes one by one, as FindMatchingVolume does. Upstream's order is that of a hash map; the
twin meets volumes kept for the claim first, those that the node can reach before others, then all by name: one of the
orders upstream may have. Sizes, labels, classes and names are few, so that things meet; nodes come, change and go,
volumes come, change, go, and are assumed and restored, singly and many at once.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.core_v1 import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.requirements import NodeSelectorTerm
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Rows, row_numbers
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.static_volumes import StaticVolumes
from tonnage.testing.builders import Doc, node
from tonnage.testing.storage_builders import claim, volume

modest = settings(max_examples=tries(150), deadline=None)

ZERO = Quantity.from_int(0)
HOST, ZONE, DISK = "kubernetes.io/hostname", "zone", "disk"
NODES = [f"n{number}" for number in range(6)]
VOLUMES = [f"v{number:02}" for number in range(40)]
CLAIMS = [f"c{number}" for number in range(3)]
# The second is half a byte less than the first, and as many whole bytes; the third is the first in other words.
SIZES = ["1Gi", "1073741823500m", "1024Mi", "2Gi", "3Gi"]
MODES = ["ReadWriteOnce", "ReadOnlyMany"]
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


# -- the twin: one node, one volume after the other -------------------------------------------------------------------


def is_reached(each: PersistentVolume, on: Node) -> bool:
    affinity = each.spec.node_affinity.required
    return affinity is None or any(holds(term, on.metadata.labels) for term in affinity.node_selector_terms)


def holds(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    """By labels; names are passed over, and a term that asks for nothing at all holds nowhere."""
    if not term.match_expressions:
        return bool(term.match_fields)
    return NodeSelectorTerm(match_expressions=term.match_expressions).matches("", labels)


def class_name(each: PersistentVolume | PersistentVolumeClaim) -> str:
    return each.metadata.annotations.get(BETA_CLASS, each.spec.storage_class_name or "")


def is_for(each: PersistentVolume, wanted: PersistentVolumeClaim) -> bool:
    ref = each.spec.claim_ref
    if ref is None or (ref.namespace, ref.name) != (wanted.namespace, wanted.name):
        return False
    return not ref.uid or ref.uid == wanted.uid


def find_volume(
    wanted: PersistentVolumeClaim, volumes: list[PersistentVolume], on: Node, taken: set[str]
) -> PersistentVolume | None:
    """The rules of FindMatchingVolume, in its order."""
    smallest: PersistentVolume | None = None
    smallest_size = asked = wanted.spec.resources.requests.get("storage", ZERO)
    for each in volumes:
        size = each.spec.capacity["storage"]
        if each.name in taken or (each.spec.claim_ref is not None and not is_for(each, wanted)) or size < asked:
            continue
        if each.spec.volume_mode != wanted.spec.volume_mode:
            continue
        if each.spec.volume_attributes_class_name != wanted.spec.volume_attributes_class_name:
            continue
        if each.metadata.deletion_timestamp is not None:
            continue
        if is_for(each, wanted):
            return each if is_reached(each, on) else None
        selector = wanted.spec.selector
        if each.status.phase != "Available" or (selector is not None and not selector.matches(each.metadata.labels)):
            continue
        if not is_reached(each, on) or not set(wanted.spec.access_modes) <= set(each.spec.access_modes):
            continue
        if smallest is None or size < smallest_size:
            smallest, smallest_size = each, size
    return smallest


def twin(claims: list[PersistentVolumeClaim], volumes: list[PersistentVolume], on: Node) -> list[tuple[str, str]]:
    """Claims in the order they are served, each with its volume, "" for none."""
    served, taken = [], set[str]()
    for wanted in sorted(claims, key=lambda each: each.spec.resources.requests.get("storage", ZERO)):
        of_class = [each for each in volumes if class_name(each) == class_name(wanted)]
        of_class.sort(key=lambda each: each.name)
        # Among volumes kept for it: the smallest within reach first, then those out of reach.
        kept = sorted(
            (each for each in of_class if is_for(each, wanted)),
            key=lambda each: (not is_reached(each, on), each.spec.capacity["storage"], each.name),
        )
        found = find_volume(wanted, kept + [each for each in of_class if not is_for(each, wanted)], on, taken)
        if found is not None:
            taken.add(found.name)
        served.append((wanted.name, found.name if found is not None else ""))
    return served


# -- worlds -----------------------------------------------------------------------------------------------------------


class StaticVolumesCluster:
    """A cluster to which things happen, by lot."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = add_indexes(Cluster())
        for name in NODES[:3]:
            self.cluster.put_node(self.node(name))
        for _ in range(self.rng.choice([2, 40])):
            self.put_volume()

    def happen(self) -> None:
        rng, cluster = self.rng, self.cluster
        volumes = cluster.storage.volumes
        known = [each.name for each in volumes]
        match rng.choice(["node", "nodes", "node gone", "volume", "volumes", "gone", "assume", "assume", "restore"]):
            case "node":
                cluster.put_node(self.node(rng.choice(NODES)))
            case "nodes":
                for name in NODES:
                    cluster.put_node(self.node(name))
            case "node gone":
                cluster.remove_node(rng.choice(NODES))
            case "volume":
                self.put_volume()
            case "volumes":
                for _ in range(30):
                    self.put_volume()
            case "gone" if known:
                volumes.remove(rng.choice(known))
            case "assume" if known:
                each = volumes.get(rng.choice(known))
                assert each is not None
                ref = ObjectReference(namespace="default", name=(name := rng.choice(CLAIMS)), uid=f"default-{name}")
                spec = msgspec.structs.replace(each.spec, claim_ref=ref)
                volumes.assume(msgspec.structs.replace(each, spec=spec))
            case "restore" if assumed := [name for name in known if volumes.is_assumed(name)]:
                volumes.restore(rng.choice(assumed))

    def node(self, name: str) -> Node:
        labels = {ZONE: self.rng.choice("ab"), DISK: self.rng.choice(["ssd", "hdd"])}
        return node(name, labels={key: value for key, value in labels.items() if self.rng.random() < 0.8})

    def put_volume(self) -> None:
        rng = self.rng
        owner: Doc = {}
        if rng.random() < 0.2:
            owner = {"claim": f"default/{rng.choice(CLAIMS)}", "claim_uid": rng.choice([None, "", "earlier"])}
        phase = rng.choices(["Available", "Bound", "Released"], [8, 1, 1])[0]
        metadata: Doc = {"annotations": {BETA_CLASS: "fast"}} if rng.random() < 0.1 else {}
        if rng.random() < 0.1:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.cluster.storage.put(
            volume(
                rng.choice(VOLUMES),
                rng.choice(SIZES),
                class_name=rng.choice(["fast", "fast", "slow"]),
                phase=phase,
                modes=rng.choice([MODES, MODES[:1], MODES[1:]]),
                labels={"tier": rng.choice("ab")},
                metadata=metadata,
                spec={**self.odd_modes(), **self.affinity()},
                **owner,
            )
        )

    def odd_modes(self) -> Doc:
        return self.rng.choices([{}, {"volumeMode": "Block"}, {"volumeAttributesClassName": "gold"}], [8, 1, 1])[0]

    def affinity(self) -> Doc:
        if self.rng.random() < 0.25:
            return {}
        terms = [self.term() for _ in range(self.rng.choice([1, 1, 1, 2, 0]))]
        return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}

    def term(self) -> Doc:
        rng = self.rng
        requirements: list[Doc] = [
            {"key": HOST, "operator": "In", "values": [rng.choice(NODES)]},
            {"key": HOST, "operator": "In", "values": rng.sample(NODES, 2)},
            {"key": ZONE, "operator": "In", "values": [rng.choice("ab")]},
            {"key": ZONE, "operator": "NotIn", "values": ["a"]},
            {"key": DISK, "operator": rng.choice(["Exists", "DoesNotExist"])},
        ]
        chosen = rng.choices(requirements, k=rng.choice([1, 1, 2]))
        if rng.random() < 0.1:
            name = {"key": "metadata.name", "operator": rng.choice(["In", "NotIn"]), "values": [rng.choice(NODES)]}
            return {"matchExpressions": chosen[1:], "matchFields": [name]}
        return {"matchExpressions": chosen}

    def claims(self) -> list[PersistentVolumeClaim]:
        """One to four; the same one may come twice."""
        made = [self.claim(name) for name in CLAIMS]
        return self.rng.choices(made, k=self.rng.randint(1, 4))

    def claim(self, name: str) -> PersistentVolumeClaim:
        rng = self.rng
        spec: dict[str, Any] = self.odd_modes()
        if rng.random() < 0.3:
            spec = {**spec, "selector": rng.choice([{}, {"matchLabels": {"tier": rng.choice("ab")}}])}
        size = rng.choice([*SIZES, None])
        return claim(
            name, size, class_name=rng.choice(["fast", "fast", "slow"]), modes=rng.choice([MODES[:1], []]), spec=spec
        )

    def rows(self) -> list[Rows]:
        """All; one; a range; some in any order."""
        size, rng = self.cluster.size, self.rng
        first = rng.randrange(size)
        chosen = np.array(rng.sample(range(size), rng.randint(0, size)), dtype=np.intp)
        return [self.cluster.all_rows, slice(first, first + 1), slice(first, size), chosen]


# -- the properties ---------------------------------------------------------------------------------------------------


@modest
@given(seed=st.integers(0, 2**32))
def test_every_node_gives_the_claims_what_it_would_give_them_alone(seed: int) -> None:
    world = StaticVolumesCluster(seed)
    cluster = world.cluster
    static = cluster.index(StaticVolumes)
    for _ in range(10):
        volumes, claims = list(cluster.storage.volumes), world.claims()
        is_possible = static.may_match(claims)
        for rows in world.rows():
            match = static.match(claims, rows)
            for place, row in enumerate(row_numbers(rows).tolist()):
                on = cluster.nodes[row]
                if on is None:
                    continue
                numbers = match.chosen[:, place].tolist()
                names = [match.volumes[number].name if number >= 0 else "" for number in numbers]
                served = list(zip((each.name for each in match.claims), names, strict=True))
                assert served == twin(claims, volumes, on)
                assert is_possible or not any(names)
        world.happen()


@modest
@given(seed=st.integers(0, 2**32))
def test_a_match_names_volumes_as_decisions_see_them_now(seed: int) -> None:
    """Not an older version of one, which could not be assumed."""
    world = StaticVolumesCluster(seed)
    static = world.cluster.index(StaticVolumes)
    for _ in range(5):
        world.happen()
        match = static.match(world.claims(), world.cluster.all_rows)
        for number in set(match.chosen.ravel().tolist()) - {-1}:
            found = match.volumes[number]
            assert found is world.cluster.storage.volumes.get(found.name)
