"""VolumeBinding says about all nodes at once what its slow twin says about each, whatever happened before.

Names, sizes and labels are few, so that things meet. Between questions nodes come, change, are cordoned and go;
capacity objects, claims, volumes, classes and drivers change; pods reserve what they were given and some of them fail.
Every question is asked of all rows, of each alone and of some; every answer is compared in full: reasons, scores, and
what the node would do. A decider that remembers is compared with one that has just been made.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
import volume_twins as twins
from hypothesis import given, settings
from hypothesis import strategies as st
from volume_twins import Outcome, Rules, Seen

from examples_tried import tries
from support.scheduling_sight import promises
from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Rows, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.plugin_args import (
    LegacyPools,
    PoolFit,
    Reservation,
    StorageCapacityArgs,
    VolumeBindingArgs,
)
from tonnage.scheduling.configuration.plugin_args_rules import UtilizationShapePoint
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.framework import SKIP, Cycle, Judgement
from tonnage.scheduling.plugins.pod_and_node import NodeUnschedulable
from tonnage.scheduling.plugins.volume_binding import Notes, VolumeBinding
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.demand import Demand, VolumePlan
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import attachment, capacity, claim, driver, pod_with, storage_class, volume

modest = settings(max_examples=tries(150), deadline=None)

NODES = [f"n{number}" for number in range(6)]
CLAIMS = [f"c{number}" for number in range(8)]
VOLUMES = [f"v{number}" for number in range(8)]
USERS = [f"u{number}" for number in range(3)]
OBJECTS = [f"room-{number}" for number in range(7)]
SIZES = [1, 2, 3, 4, 5]
ROOMS = [0, 2, 3, 4, 5, 6, 9]
UNITS = ["Gi", "Gi", "Ei"]  # of exbibytes two claims or pools are more than 64 bits hold, and 9 stop at 8 less a byte
ZONES = ["z1", "z2"]
CLASSES = ["fast", "fast", "fast", "fast", "twin", "twin", "twin", "slow", "zoned", "local", "uncounted"]
DRIVERS = ["csi.fast", "csi.slow"]
PROVISIONERS = {
    "fast": "csi.fast",
    "slow": "csi.slow",
    "zoned": "csi.fast",
    "twin": "csi.fast",
    "local": "kubernetes.io/no-provisioner",
    "uncounted": "csi.unknown",
}
HOST = "kubernetes.io/hostname"


class StorageCluster:
    """A cluster to which things happen by lot, and a plugin that judges it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.limits = random.Random(seed)
        """For the numbers of free volumes."""
        self.homes = random.Random(seed)
        unit = self.rng.choice(UNITS)
        self.sizes, self.rooms = [f"{size}{unit}" for size in SIZES], [f"{room}{unit}" for room in ROOMS]
        self.cluster = add_indexes(Cluster())
        self.nodes: dict[str, Node] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.groups: dict[str, str] = {}
        """Of classes. In mode Object they stay as they are: who joins or leaves is told apart in unit tests."""
        self.capacities: dict[str, CSIStorageCapacity] = {}
        self.kept: list[tuple[Cycle, str]] = []
        """Pods that reserved and did not fail yet, with their nodes."""
        self.reserved: dict[str, Reserved] = {}
        """In mode Object: by object, as the KEP's ReservedCapacity has it."""
        self.refused: set[tuple[str, str]] = set()
        """Volumes with the nodes where they did not arrive."""
        self.attached: dict[str, tuple[str, str]] = {}
        """By attachment that succeeded, its volume and node."""
        """By volume without affinity, how it was confined last or where it was attached last."""
        self.users: dict[str, tuple[str, str]] = {}
        """Living pods by name, each with the claim that it mounts and its node."""
        rng = self.rng
        self.rules = Rules(
            is_joint=rng.random() < 0.8,
            legacy=rng.choice(("Strict", "Strict", "Bounded", "Independent")),
            must_be_sure=rng.random() < 0.25,
        )
        mode = rng.choice((*Reservation, Reservation.LEDGER))
        self.mode = mode if self.rules.is_joint else Reservation.NONE
        points = sorted(rng.sample(range(101), rng.randint(1, 4)))
        self.shape = tuple((point, rng.randint(0, 10)) for point in points)
        self.plugin = self.new_plugin()
        for name in PROVISIONERS:
            self.put_class(name)
        for name in DRIVERS:
            self.put_driver(name)
        for name in NODES[: rng.randint(1, 5)]:
            self.put_node(name)
        for make, fewest, most in ((self.put_capacity, 2, 10), (self.put_volume, 0, 6), (self.put_claim, 2, 12)):
            for _ in range(rng.randint(fewest, most)):
                make()
        for _ in range(rng.randint(0, 4)):
            self.put_user()

    def new_plugin(self) -> VolumeBinding:
        gates = Gates().with_(CSIStorageCapacityV2=self.rules.is_joint)
        points = tuple(UtilizationShapePoint(utilization=at, score=score) for at, score in self.shape)
        args = StorageCapacityArgs(
            reservation=self.mode,
            pool_fit=PoolFit.GUARANTEED if self.rules.must_be_sure else PoolFit.POSSIBLE,
            legacy_pools=LegacyPools(self.rules.legacy),
        )
        return VolumeBinding(gates, VolumeBindingArgs(shape=points), args)

    # -- things -------------------------------------------------------------------------------------------------------

    def put_node(self, name: str) -> None:
        labels = {"zone": self.rng.choice(ZONES)} if self.rng.random() < 0.8 else {}
        taints = ["node.kubernetes.io/out-of-service=x:NoExecute"] if self.rng.random() < 0.1 else []
        made = node(name, labels=labels, unschedulable=self.rng.random() < 0.3, taints=taints)
        self.nodes[name] = made
        self.cluster.put_node(made)

    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    def put_class(self, name: str) -> None:
        rng = self.rng
        is_zoned = name == "zoned" or rng.random() < 0.2
        terms = [{"zone": rng.sample(ZONES, rng.randint(1, 2))}, {HOST: rng.sample(NODES, 2)}]
        topologies = rng.sample(terms, rng.randint(1, 2)) if is_zoned else ()
        group = self.groups.get(name)
        if group is None or (rng.random() < 0.3 and self.mode is not Reservation.OBJECT):
            group = self.groups[name] = rng.choice(("", "disks", "disks"))
        made = storage_class(name, provisioner=PROVISIONERS[name], topologies=topologies, group=group)
        self.classes[name] = made
        self.cluster.storage.put(made)

    def put_driver(self, name: str) -> None:
        rng = self.rng
        made = driver(name, capacity=rng.random() < 0.95, rebuilding=rng.random() < 0.6)
        self.drivers[name] = made
        self.cluster.storage.put(made)

    def put_capacity(self, name: str = "") -> None:
        rng = self.rng
        of_class = rng.choice(("fast", "fast", "fast", "twin", "slow", "zoned"))
        topology: Any = rng.choice(
            [
                None,
                {},
                *({"matchLabels": {"zone": each}} for each in (*ZONES, *ZONES)),
                *({"matchLabels": {HOST: each}} for each in NODES[:4]),
            ]
        )
        pools = rng.choices(self.rooms, k=rng.randint(1, 3)) if rng.random() < 0.5 else []
        annotations = {}
        if rng.random() < 0.3:
            text = rng.choice((",".join(rng.choices(self.rooms, k=2)), "3Gi,lots"))
            annotations = {"annotations": {twins.POOLS: text}}
        most = self.limits.choice([0, 1, 2, 3, 4, "few", *[None] * 14])
        made = capacity(
            of_class,
            free=rng.choice([*self.rooms, None]),
            maximum=rng.choice([*self.rooms, *[None] * 7]),
            pools=pools,
            free_volumes=most,
            topology=topology,
            name=name or rng.choice(OBJECTS),
            metadata=annotations,
        )
        self.take_in(made)
        if of_class == "fast" and rng.random() < 0.5:  # the same disks, as another class has them
            self.take_in(
                capacity(
                    "twin", pools=pools, free="4Gi", topology=topology, name=rng.choice(OBJECTS), metadata=annotations
                )
            )

    def take_in(self, made: CSIStorageCapacity) -> None:
        old = self.capacities.get(made.key)
        self.capacities[made.key] = made
        self.cluster.storage.put(made)
        place = (made.storage_class_name, made.node_topology)
        if self.mode is Reservation.OBJECT and (old is None or (old.storage_class_name, old.node_topology) != place):
            self.hold_with_siblings(made)

    def refresh(self) -> None:
        """The object says something new about itself, as provisioners do all the time."""
        if not self.capacities:
            return
        rng = self.rng
        old = rng.choice(sorted(self.capacities.values(), key=lambda each: each.key))
        pools = rng.choices(self.rooms, k=rng.randint(1, 3)) if old.available_capacities else []
        made = capacity(
            old.storage_class_name,
            free=rng.choice(self.rooms),
            pools=pools,
            free_volumes=self.limits.choice([1, 2, 3, *[None] * 6]),
            name=old.name,
            topology=_doc(old.node_topology),
        )
        self.capacities[made.key] = made
        self.cluster.storage.put(made)

    def remove_capacity(self) -> None:
        gone = self.capacities.pop(f"kube-system/{self.rng.choice(OBJECTS)}", None)
        if gone is not None:
            self.cluster.storage.remove(gone)

    def put_claim(self, name: str = "") -> None:
        rng = self.rng
        name = name or rng.choice(CLAIMS)
        kind = rng.random()
        options: dict[str, Any] = {}
        if kind < 0.3:
            options = {"volume": rng.choice([*VOLUMES, "missing"] if rng.random() < 0.3 else [f"of-{name}"])}
            if rng.random() < 0.8:
                options["selected_node"] = rng.choice(NODES)
                if rng.random() < 0.4:
                    target = options["selected_node"] if rng.random() < 0.8 else rng.choice(NODES)
                    options["metadata"] = {"annotations": {twins.REBUILD_TARGET: target}}
            if rng.random() < 0.9:
                self.put_made(
                    volume(
                        f"of-{name}",
                        rng.choice(self.sizes),
                        claim=f"default/{name}",
                        affinity=self.affinity(),
                        class_name="fast",
                        metadata=self.told_home(),
                    )
                )
        elif kind < 0.55:
            options = {"selected_node": rng.choice(NODES[:4])}
            if rng.random() < 0.1:
                options = {"metadata": {"annotations": {twins.SELECTED_NODE: ""}}}
        size = rng.choice(self.sizes) if rng.random() < 0.95 else None
        modes = rng.choice((["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"]))
        class_name = "fast" if kind < 0.3 and rng.random() < 0.7 else rng.choice(CLASSES)
        self.cluster.storage.put(claim(name, size, class_name=class_name, modes=modes, **options))

    def told_home(self) -> dict[str, Any]:
        """Where a driver says that a volume is; now and then it does not say."""
        home = self.homes.choice((*NODES, "gone", ""))
        return {"annotations": {twins.VOLUME_HOME: home}} if home else {}

    def put_volume(self) -> None:
        rng = self.rng
        made = volume(
            rng.choice(VOLUMES),
            rng.choice(self.sizes),
            class_name=rng.choice(CLASSES),
            affinity=self.affinity(),
            claim="other/claim" if rng.random() < 0.2 else "",
        )
        self.put_made(made)

    def put_made(self, made: PersistentVolume) -> None:
        self.cluster.storage.put(made)
        if made.spec.node_affinity.required is not None:
            self.refused -= {each for each in self.refused if each[0] == made.name}
            owner = made.spec.claim_ref
            known = self.cluster.storage.claims.get(owner.key) if owner is not None else None
            if known is not None and known.selected_node == known.metadata.annotations.get(twins.REBUILD_TARGET, ""):
                target = self.nodes.get(known.selected_node)
                if target is None or not made.spec.node_affinity.required.matches(target.name, target.metadata.labels):
                    self.refused.add((made.name, known.selected_node))  # it was elsewhere since it was sent there

    def remove_volume(self, name: str) -> None:
        self.cluster.storage.remove(volume(name))
        self.refused -= {each for each in self.refused if each[0] == name}

    def put_user(self) -> None:
        """A pod that mounts a claim is on a node; now and then it is being deleted, and keeps nobody there."""
        bound = [each.name for each in self.cluster.storage.claims if each.is_bound]
        name, of, where = (self.rng.choice(each) for each in (USERS, bound or CLAIMS, NODES))
        is_going = self.rng.random() < 0.3
        metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if is_going else {}
        self.cluster.put_pod(PodInfo(pod_with(name, of, metadata=metadata)), where)
        self.users.pop(name, None)
        if not is_going:
            self.users[name] = (f"default/{of}", where)

    def attach(self) -> None:
        """A volume is attached to a node, or refused there; or the attachment goes, and the refusal is remembered."""
        rng, storage = self.rng, self.cluster.storage
        name, where = rng.choice([f"of-{each}" for each in CLAIMS]), rng.choice(NODES)
        known = storage.volumes.get(name)
        self.attached.pop(f"{name}-{where}", None)
        if rng.random() < 0.3:
            storage.remove(attachment(f"{name}-{where}", name, where))
            return
        error = "no room" if rng.random() < 0.7 else ""
        storage.put(attachment(f"{name}-{where}", name, where, attached=not error, error=error))
        if not error:
            self.attached[f"{name}-{where}"] = (name, where)
            self.refused.discard((name, where))
        elif known is None or known.spec.node_affinity.required is None:
            self.refused.add((name, where))

    def affinity(self) -> dict[str, Any] | None:
        rng = self.rng
        if rng.random() < 0.4:
            return None
        if rng.random() < 0.5:
            return {"key": "zone", "operator": "In", "values": [rng.choice(ZONES)]}
        return {"key": HOST, "operator": "In", "values": rng.sample(NODES, rng.randint(1, 4))}

    # -- events -------------------------------------------------------------------------------------------------------

    def happen(self) -> None:
        rng = self.rng
        storage = self.cluster.storage
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            match rng.choice(
                [
                    "node",
                    "node",
                    "node",
                    "node_gone",
                    "class",
                    "driver",
                    "capacity",
                    "capacity",
                    "refresh",
                    "refresh",
                    "capacity_gone",
                    "claim",
                    "claim",
                    "claim_gone",
                    "unselect",
                    "volume",
                    "volume_gone",
                    "attach",
                    "user",
                    "user",
                    "user_gone",
                    "fail",
                ]
            ):
                case "node":
                    self.put_node(rng.choice(NODES))
                case "node_gone":
                    self.remove_node(rng.choice(NODES))
                case "class":
                    self.put_class(rng.choice(sorted(PROVISIONERS)))
                case "driver":
                    self.put_driver(rng.choice(DRIVERS))
                case "capacity":
                    self.put_capacity()
                case "refresh":
                    self.refresh()
                case "capacity_gone":
                    self.remove_capacity()
                case "claim":
                    self.put_claim()
                case "claim_gone":
                    storage.remove(claim(rng.choice(CLAIMS)))
                case "unselect":  # the provisioner gives up
                    name = rng.choice(CLAIMS)
                    if (known := storage.claims.get(f"default/{name}")) is not None and not known.is_bound:
                        storage.put(claim(name, _size(known), class_name=known.spec.storage_class_name))
                case "volume":
                    self.put_volume()
                case "volume_gone":
                    self.remove_volume(rng.choice([*VOLUMES, *(f"of-{each}" for each in CLAIMS)]))
                case "attach":
                    self.attach()
                case "user":
                    self.put_user()
                case "user_gone":
                    self.cluster.remove_pod(f"default-{(gone := rng.choice(USERS))}")
                    self.users.pop(gone, None)
                case "fail":
                    if self.kept:
                        self.unreserve(*self.kept.pop(rng.randrange(len(self.kept))))
            self.lose_claims()

    def lose_claims(self) -> None:
        """A reservation whose claims are all gone, or given back by the provisioner, is for nobody."""
        for uid, held in list(self.reserved.items()):
            for key, (claim_uid, node_name) in list(held.claims.items()):
                now = self.cluster.storage.claims.get(key)
                if now is None or now.uid != claim_uid or now.selected_node != node_name:
                    del held.claims[key]
            if not held.claims:
                del self.reserved[uid]

    def reserve(self, cycle: Cycle, node_name: str, outcome: Outcome) -> None:
        assert self.plugin.reserve(cycle, node_name).is_success
        self.kept.append((cycle, node_name))
        if self.mode is Reservation.OBJECT:
            rooms = [(each, room) for each, room, _ in outcome.provisions if room is not None]
            for each, chosen in rooms:
                for room in (chosen, *self.siblings(chosen)):
                    held = self.reserved.get(identity(room))
                    if held is None or held.version != room.metadata.resource_version:  # what was held, was refreshed
                        held = self.reserved[identity(room)] = Reserved(room.metadata.resource_version)
                    held.pods.add(cycle.pod.uid)
                    held.claims[each.key] = (each.uid, node_name)

    def siblings(self, of: CSIStorageCapacity) -> list[CSIStorageCapacity]:
        """Objects of other classes of the group for the same topology."""
        if not self.groups[of.storage_class_name] or of.node_topology is None:
            return []
        unit = twins.unit_of(self.seen(), of.storage_class_name)
        return [
            each
            for each in self.capacities.values()
            if each.storage_class_name != of.storage_class_name
            and each.node_topology == of.node_topology
            and twins.unit_of(self.seen(), each.storage_class_name) == unit
        ]

    def hold_with_siblings(self, new: CSIStorageCapacity) -> None:
        """An object that becomes a sibling of one that is held, is held."""
        for sibling in self.siblings(new):
            held = self.reserved.get(identity(sibling))
            if held is None or held.version != sibling.metadata.resource_version:
                continue
            known = [self.cluster.storage.claims.get(key) for key in held.claims]
            if any(each is not None and each.class_name == sibling.storage_class_name for each in known):
                for each in self.siblings(sibling):
                    other = self.reserved.get(identity(each))
                    if other is None or other.version != each.metadata.resource_version:
                        copy = self.reserved[identity(each)] = Reserved(each.metadata.resource_version)
                        copy.pods, copy.claims = set(held.pods), dict(held.claims)

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        self.plugin.unreserve(cycle, node_name)
        self.lose_claims()
        for held in self.reserved.values():
            held.pods.discard(cycle.pod.uid)
        self.reserved = {uid: held for uid, held in self.reserved.items() if held.pods}

    # -- asking -------------------------------------------------------------------------------------------------------

    def seen(self) -> Seen:
        cluster = self.cluster

        def is_reserved(each: CSIStorageCapacity, group: Collection[str]) -> bool:
            held = self.reserved.get(identity(each))
            if held is None or held.version != each.metadata.resource_version:
                return False
            return not (held.claims.keys() <= set(group) or set(group) <= held.claims.keys())

        def promised(each: CSIStorageCapacity) -> dict[str, int]:
            if self.mode is not Reservation.LEDGER:
                return {}
            ledger = cluster.index(Ledger)
            ledger.catch_up()
            return dict(promises(ledger, identity(each)))

        return Seen(
            self.nodes,
            {each.name: each for each in cluster.storage.volumes},
            self.classes,
            self.drivers,
            list(self.capacities.values()),
            is_reserved,
            promised,
            self.refused,
            list(self.attached.values()),
            self.users.values(),
        )

    def pod(self, number: int) -> PodInfo | None:
        """A pod that mounts some of the claims there are, one of them twice now and then."""
        known = [each.name for each in self.cluster.storage.claims]
        if not known:
            return None
        chosen = self.rng.choices(known, k=self.rng.choice((1, 1, 2, 3, 4)))
        return PodInfo(pod_with(f"p{number}", *chosen))

    def claims(self, pod: PodInfo) -> list[PersistentVolumeClaim]:
        found = [self.cluster.storage.claims.get(f"default/{name}") for name in pod.pod.claim_names()]
        return [each for each in found if each is not None]


class Reserved:
    def __init__(self, version: str) -> None:
        self.version = version
        self.pods: set[str] = set()
        self.claims: dict[str, tuple[str, str]] = {}


def _doc(topology: Any) -> dict[str, Any] | None:
    return None if topology is None else {"matchLabels": dict(topology.match_labels)}


def _size(known: PersistentVolumeClaim) -> str | None:
    return str(known.requested) if known.requested is not None else None


def told(judgement: Judgement | None, place: int) -> set[str]:
    if judgement is None:
        return set()
    assert judgement.unresolvable is True
    return {reason for i, reason in enumerate(judgement.reasons) if judgement.bits[place] >> i & 1}


def as_planned(demand: Demand, plan: VolumePlan) -> tuple[Any, ...]:
    rebuilt = {each.claim.key for each in plan.provisions}
    return (
        [(claim.key, volume.name) for claim, volume in demand.bound if volume is not None and claim.key not in rebuilt],
        [(each.claim.key, each.volume.name) for each in plan.static],
        sorted(
            (each.claim.key, each.capacity.key if each.capacity is not None else "", each.is_rebuild)
            for each in plan.provisions
        ),
    )


def as_judged(outcome: Outcome) -> tuple[Any, ...]:
    return (
        outcome.bound,
        [(each.key, of.name) for each, of in outcome.static],
        sorted((each.key, of.key if of is not None else "", anew) for each, of, anew in outcome.provisions),
    )


def ask(world: StorageCluster, pod: PodInfo) -> tuple[Cycle, dict[str, Outcome]]:
    """Ask the plugin in every form and compare with the twin."""
    cluster, plugin = world.cluster, world.plugin
    cycle = Cycle(pod, cluster)
    assert plugin.pre_filter(cycle) is None
    first = plugin.filter(cycle, cluster.all_rows)  # before the twin looks, which brings the ledger up to date
    seen, claims = world.seen(), world.claims(pod)
    outcomes = {name: twins.judge(seen, world.rules, claims, each) for name, each in world.nodes.items()}
    some = np.array(world.rng.sample(range(cluster.size), world.rng.randint(1, cluster.size)), dtype=np.intp)
    asked: list[Rows] = [some, *(slice(row, row + 1) for row in cluster.row_of.values())]
    for rows, judgement in [(cluster.all_rows, first), *((rows, plugin.filter(cycle, rows)) for rows in asked)]:
        for place, row in enumerate(row_numbers(rows).tolist()):
            if cluster.name(row):
                assert told(judgement, place) == outcomes[cluster.name(row)].reasons, cluster.name(row)
    notes: Notes = cycle.state[plugin.name]
    feasible = {name: outcome for name, outcome in outcomes.items() if not outcome.reasons}
    for name, outcome in feasible.items():
        plan = notes.fit.plan(notes.demand, cluster.row_of[name])
        assert as_planned(notes.demand, plan) == as_judged(outcome), name
    if feasible:
        compare_scores(world, cycle, seen, feasible)
    return cycle, outcomes


def compare_scores(world: StorageCluster, cycle: Cycle, seen: Seen, outcomes: dict[str, Outcome]) -> None:
    plugin, rows = world.plugin, np.array([world.cluster.row_of[name] for name in outcomes], dtype=np.intp)
    cycle.feasible = rows
    shape = tuple((at, 10 * score) for at, score in world.shape)
    expected = [twins.score(shape, world.rules, seen, outcome) for outcome in outcomes.values()]
    if plugin.pre_score(cycle) is SKIP:
        assert not any(expected)
        return
    assert plugin.score(cycle, rows).tolist() == expected
    whole = plugin.score(cycle, world.cluster.all_rows)
    assert whole is not None and whole[rows].tolist() == expected
    for row, one in zip(rows.tolist(), expected, strict=True):
        assert plugin.score(cycle, slice(row, row + 1)).tolist() == [one]


# -- the properties ---------------------------------------------------------------------------------------------------


@modest
@given(seed=st.integers(0, 2**32))
def test_every_node_is_judged_and_scored_as_the_twin_does(seed: int) -> None:
    tell(seed)


def tell(seed: int, steps: int = 12) -> set[str]:
    """A story; what happened in it that is worth having happened."""
    world = StorageCluster(seed)
    met = {str(world.mode) if world.rules.is_joint else "gate off"}
    for step in range(steps):
        world.happen()
        pod = world.pod(step)
        if pod is None or not world.nodes:
            continue
        cycle, outcomes = ask(world, pod)
        feasible = sorted(name for name, outcome in outcomes.items() if not outcome.reasons)
        for outcome in outcomes.values():
            met |= outcome.reasons
        if feasible and world.rng.random() < 0.7:
            name = world.rng.choice(feasible)
            world.reserve(cycle, name, outcomes[name])
            met |= {"static"} if outcomes[name].static else set()
            met |= {"rebuilt" if anew else "made" for _, _, anew in outcomes[name].provisions}
    return met


def test_the_stories_are_worth_telling() -> None:
    met = set[str]()
    for seed in range(40):
        met |= tell(seed)
    reasons = {
        twins.NODE_CONFLICT,
        twins.BIND_CONFLICT,
        twins.NOT_ENOUGH_SPACE,
        twins.VOLUME_GONE,
        twins.SHARED_ELSEWHERE,
    }
    assert met == reasons | {"Object", "Ledger", "None", "gate off", "static", "made", "rebuilt"}


def tell_of_bound_claims(seed: int, steps: int = 12) -> Counter[str]:
    """No driver rebuilds: a pod whose claims are all bound fits the same nodes with and without the gate."""
    world = StorageCluster(seed)
    letter = VolumeBinding(Gates().with_(CSIStorageCapacityV2=False), VolumeBindingArgs(), StorageCapacityArgs())
    ours = VolumeBinding(Gates(), VolumeBindingArgs(), StorageCapacityArgs(reservation=Reservation.LEDGER))
    storage, met = world.cluster.storage, Counter[str]()
    for step in range(steps):
        world.happen()
        for each in list(storage.drivers.values()):
            storage.put(driver(each.name, capacity=each.spec.storage_capacity))
        bound = [each.name for each in storage.claims if each.is_bound]
        if not bound or not world.nodes:
            continue
        chosen = world.rng.choices(bound, k=world.rng.choice((1, 1, 2)))
        judged = []
        for plugin in (letter, ours):
            cycle = Cycle(PodInfo(pod_with(f"p{step}", *chosen)), world.cluster)
            assert plugin.pre_filter(cycle) is None
            judgement = plugin.filter(cycle, world.cluster.all_rows)
            judged.append({name: told(judgement, row) for name, row in world.cluster.row_of.items()})
        assert judged[0] == judged[1]
        met.update(["shared" for key, _ in world.users.values() if key.removeprefix("default/") in chosen])
        met.update("refused" if reasons else "fits" for reasons in judged[0].values())
    return met


@modest
@given(seed=st.integers(0, 2**32))
def test_without_a_driver_that_rebuilds_the_gate_turns_no_pod_with_bound_claims_away(seed: int) -> None:
    tell_of_bound_claims(seed)


def test_the_stories_of_bound_claims_are_worth_telling() -> None:
    met = sum((tell_of_bound_claims(seed) for seed in range(20)), Counter[str]())
    assert min(met[each] for each in ("shared", "fits", "refused")) >= 10, met


def tell_of_groups(seed: int, steps: int = 10) -> Counter[str]:
    """Pods come with claims of two classes, which share their pools mostly; by what became of them."""
    world = StorageCluster(seed)
    rng, met = world.rng, Counter[str]()
    for step in range(steps):
        world.happen()
        names = [f"own-{step}-{number}" for number in range(rng.choice((2, 2, 3)))]
        for name in names:
            world.cluster.storage.put(claim(name, rng.choice(world.sizes[:2]), class_name=rng.choice(("fast", "twin"))))
        if not world.nodes:
            continue
        cycle, outcomes = ask(world, PodInfo(pod_with(f"g{step}", *names)))
        notes: Notes = cycle.state[world.plugin.name]
        is_joint = any("," in unit.class_name for unit in notes.provisioning.units)
        feasible = sorted(name for name, outcome in outcomes.items() if not outcome.reasons)
        if is_joint:
            met.update(["fits" if name in feasible else "does not fit" for name in outcomes])
        if feasible and rng.random() < 0.5:
            name = rng.choice(feasible)
            world.reserve(cycle, name, outcomes[name])
            met.update([str(world.mode)] if is_joint else [])
    return met


@modest
@given(seed=st.integers(0, 2**32))
def test_claims_of_classes_that_share_their_pools_are_judged_as_the_twin_does(seed: int) -> None:
    tell_of_groups(seed)


def test_the_stories_of_groups_are_worth_telling() -> None:
    met = sum((tell_of_groups(seed) for seed in range(60)), Counter[str]())
    assert min(met[each] for each in ("fits", "does not fit", "Object", "Ledger", "None")) >= 3, met


@modest
@given(seed=st.integers(0, 2**32))
def test_beside_promises_a_group_fits_if_it_does_whatever_the_driver_picks(seed: int) -> None:
    """Many objects of a few bytes, each with a few promises: all at once, one by one, and played through."""
    rng = random.Random(seed)
    rules = Rules(must_be_sure=rng.random() < 0.3, legacy=rng.choice(("Strict", "Bounded", "Independent")))
    fit = PoolFit.GUARANTEED if rules.must_be_sure else PoolFit.POSSIBLE
    args = StorageCapacityArgs(reservation=Reservation.LEDGER, pool_fit=fit, legacy_pools=LegacyPools(rules.legacy))
    plugin = VolumeBinding(Gates(), VolumeBindingArgs(), args)
    cluster = add_indexes(Cluster())
    storage = cluster.storage
    for each in (storage_class(), driver()):
        storage.put(each)
    rooms: list[tuple[CSIStorageCapacity, list[int]]] = []
    for row in range(14):
        cluster.put_node(node(f"n{row}"))
        promised = [rng.randint(1, 5) for _ in range(rng.randint(0, 3))]
        pools = [str(rng.randint(1, 12)) for _ in range(rng.randint(1, 3))]
        most = rng.choice((None, None, rng.randint(0, 6)))
        if rng.random() < 0.3:
            maximum = rng.choice((None, str(rng.randint(1, 8))))
            free = str(rng.randint(1, 20))
            rooms.append((capacity("fast", f"n{row}", free, maximum=maximum, free_volumes=most), promised))
        else:
            rooms.append((capacity("fast", f"n{row}", pools=pools, free_volumes=most), promised))
        storage.put(rooms[-1][0])
        for number, size in enumerate(promised):
            storage.put(claim(f"of-{row}-{number}", str(size), selected_node=f"n{row}"))
    for number in range(4):
        sizes = [rng.randint(1, 6) for _ in range(rng.randint(1, 3))]
        for place, size in enumerate(sizes):
            storage.put(claim(f"new-{number}-{place}", str(size)))
        cycle = Cycle(PodInfo(pod_with("web", *(f"new-{number}-{place}" for place in range(len(sizes))))), cluster)
        assert plugin.pre_filter(cycle) is None
        together = plugin.filter(cycle, cluster.all_rows)
        for row, (room, promised) in enumerate(rooms):
            expected = set() if twins.holds(rules, [room], sizes, promised) else {twins.NOT_ENOUGH_SPACE}
            assert told(together, row) == expected, (room.available_capacities, promised, sizes)
            assert told(plugin.filter(cycle, slice(row, row + 1)), 0) == expected


# -- memory -----------------------------------------------------------------------------------------------------------


def decider(plugin: VolumeBinding, lots: random.Random) -> Decider:
    return Decider(
        Pipeline(
            pre_filter=(plugin,),
            filter=(NodeUnschedulable(), plugin),
            pre_score=(plugin,),
            score=((plugin, 1),),
        ),
        lots,
    )


@modest
@given(seed=st.integers(0, 2**32))
def test_a_decider_that_remembers_decides_as_a_fresh_one(seed: int) -> None:
    """Pods come with claims of their own, of few kinds, so that many of them are alike."""
    world = StorageCluster(seed)
    rng = world.rng
    lots = random.Random()
    remembering = decider(world.plugin, lots)
    kinds = [
        [(rng.choice(("fast", "fast", "slow", "zoned")), rng.choice(world.sizes)) for _ in range(rng.choice((1, 1, 2)))]
        for _ in range(3)
    ]
    for step in range(15):
        world.happen()
        wanted = rng.choice(kinds)
        for number, (name, size) in enumerate(wanted):
            world.cluster.storage.put(claim(f"own-{step}-{number}", size, class_name=name))
        pod = PodInfo(pod_with(f"p{step}", *(f"own-{step}-{number}" for number in range(len(wanted)))))
        if rng.random() < 0.2:
            pod = world.pod(step) or pod
        lots.seed(step)
        known = remembering.decide(world.cluster, pod, diagnose=True)
        fresh = decider(world.new_plugin(), random.Random(step)).decide(world.cluster, pod, diagnose=True)
        assert (known.node, known.feasible) == (fresh.node, fresh.feasible)
        assert known.diagnosis is not None and fresh.diagnosis is not None
        for row in world.cluster.row_of.values():
            assert known.diagnosis.reasons_of(row) == fresh.diagnosis.reasons_of(row)
        if known.fits and rng.random() < 0.7:
            claims = world.claims(pod)
            outcome = twins.judge(world.seen(), world.rules, claims, world.nodes[known.node])
            world.reserve(known.cycle, known.node, outcome)
