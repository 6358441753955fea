"""`fit` against drivers that pick at random: its range holds, and nothing less than a remedy would help."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod, ResourceRequirements
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.quantity import Quantity
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy, placed_by
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class
from tonnage.whatif.expansion import Replica
from tonnage.whatif.fit.counting import count
from tonnage.whatif.fit.remedies import Remedies
from tonnage.whatif.knobs import Remedy
from tonnage.whatif.node_copies import with_more_room
from tonnage.whatif.replay import Replay
from tonnage.whatif.simulate.disks import Disk, DriverSettings
from tonnage.whatif.simulate.driver_courses import DriverLuck
from tonnage.whatif.simulate.played_cluster import PlayedCluster
from tonnage.whatif.sources import ClusterState, clock_of

PROFILES = default_configuration(gates=Gates()).profiles
GI = 1 << 30


def typed(found: Any) -> Any:
    return codec.decode_doc(found) if isinstance(found, dict) else found


def cluster_of(pools: list[list[int]], cpu: int, policy: str = "") -> list[Object]:
    docs: list[Any] = [storage_class(pool_policy=policy), driver()]
    for number, free in enumerate(pools):
        name = f"n{number}"
        docs += [
            node(name, cpu=str(cpu)),
            capacity("fast", name, f"{sum(free)}Gi", pools=[f"{each}Gi" for each in free]),
        ]
    return [typed(each) for each in docs]


def played(objects: list[Object], **options: Any) -> PlayedCluster:
    return PlayedCluster(ClusterState(objects, "the test", clock_of(objects)), PROFILES, **options)


def replicas(sizes: list[int]):
    for number in range(1000):
        claims = [typed(claim(f"c{number}-{place}", f"{size}Gi")) for place, size in enumerate(sizes)]
        pod = typed(pod_with(f"p{number}", *(each.name for each in claims)))
        yield Replica(pod, tuple(claims))


scenes = st.tuples(
    st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=3), min_size=1, max_size=4),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.integers(1, 3),
)


@settings(max_examples=tries(25), deadline=None)
@given(scenes, st.integers(0, 99))
def test_whatever_the_driver_picks_as_many_run_as_is_certain_and_no_more_than_at_most(
    scene: tuple[list[list[int]], list[int], int], seed: int
):
    pools, sizes, cpu = scene
    objects = cluster_of(pools, cpu * 100)
    certain = count(played(objects), replicas(sizes), most=60)
    at_most = count(played(objects, luck=DriverLuck.BEST), replicas(sizes), most=60)
    cluster = played(objects)
    rng = random.Random(seed)

    def any_pool(disk: Disk, claim: PersistentVolumeClaim) -> int | None:
        roomy = [number for number, free in enumerate(disk.pools) if free >= claim.requested_size.value()]
        return rng.choice(roomy) if roomy else None

    cluster.world.storage.choose = any_pool
    assert certain.count <= count(cluster, replicas(sizes), most=60).count <= at_most.count


class SomeTime:
    """Settings of a driver that takes another time for each volume."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def of(self, driver: str) -> DriverSettings:
        return DriverSettings(create_latency_s=self._rng.choice((0.1, 0.5, 2.0, 9.0)))


@settings(max_examples=tries(60), deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 20), min_size=2, max_size=4), min_size=1, max_size=2),
    st.lists(st.integers(1, 9), min_size=2, max_size=3),
    st.sampled_from(("most-free", "best-fit", "first-fit")),
    st.booleans(),
    st.integers(0, 99),
)
def test_in_whatever_order_volumes_are_made_as_many_run_as_is_certain_and_no_more_than_at_most(
    pools: list[list[int]], sizes: list[int], policy: str, is_burst: bool, seed: int
):
    """All replicas come at once, or one when the one before has settled."""
    objects = cluster_of(pools, 1000, policy)
    certain = count(played(objects), replicas(sizes), most=60, is_ordered=not is_burst)
    at_most = count(played(objects, luck=DriverLuck.BEST), replicas(sizes), most=60, is_ordered=not is_burst)
    cluster, rng = played(objects), random.Random(seed)
    orders: dict[Disk, list[int]] = {}

    def by_policy(disk: Disk, claim: PersistentVolumeClaim) -> int | None:
        order = orders.setdefault(disk, rng.sample(range(len(disk.pools)), len(disk.pools)))
        place = placed_by(
            PoolPolicy(policy), tuple(disk.pools[number] for number in order), claim.requested_size.value()
        )
        return None if place is None else order[place]

    cluster.world.storage.choose = by_policy
    cluster.world.storage.settings = SomeTime(rng)  # type: ignore[assignment]
    if is_burst:
        coming = list(islice(replicas(sizes), at_most.count + 2))
        cluster.apply(each for replica in coming for each in (*replica.claims, replica.pod))
        cluster.settle()
        runs = sum(bool(cluster.found(replica).node) for replica in coming)
    else:
        runs = count(cluster, replicas(sizes), most=60).count
    assert certain.count <= runs <= at_most.count


@settings(max_examples=tries(15), deadline=None)
@given(scenes)
def test_nothing_less_than_the_least_pool_would_let_the_next_one_in(scene: tuple[list[list[int]], list[int], int]):
    pools, sizes, _ = scene
    cluster = played(cluster_of(pools, 1000))
    counted = count(cluster, replicas(sizes), most=60)
    if counted.refusal is None or counted.refused is None:
        return
    remedies = Remedies(cluster.as_replay(), counted.refused, counted.refusal)
    found = remedies.found()
    told = {node: each for each in found if each.kind == "pool" for node in each.nodes}
    assert set(told) == {f"n{number}" for number in range(len(pools))}, "every node is helped by a pool for all claims"
    for name, each in told.items():
        assert_least(remedies, each, name)


def assert_least(remedies: Remedies, remedy: Remedy, name: str) -> None:
    (object_,) = (each for each in remedies.capacities_of(name))
    assert isinstance(object_, CSIStorageCapacity)
    is_sure = remedies.fits([with_more_room(object_, remedy.amount, as_pool=True)], surely=True)

    def fits(size_bytes: int) -> bool:
        return remedies.fits([with_more_room(object_, size_bytes, as_pool=True)], surely=is_sure)

    assert fits(remedy.amount)
    # Claims are whole gibibytes, and so is every pool: of a smaller pool each whole one is tried, and one byte less.
    assert not any(fits(each * GI) for each in range(1, remedy.amount // GI))
    assert not fits(remedy.amount - 1)


@settings(max_examples=tries(10), deadline=None)
@given(scenes, st.integers(1, 4))
def test_nothing_less_than_a_pair_would_let_the_next_one_in(scene: tuple[list[list[int]], list[int], int], cpu: int):
    """Nodes of one processor and pods of more, with claims: a pair is told where no one change does, and is least."""
    pools, sizes, _ = scene
    cluster = played(cluster_of(pools, 1))
    wanted = (Replica(with_cpu(each.pod, cpu), each.claims) for each in replicas(sizes))
    counted = count(cluster, wanted, most=60)
    if counted.refusal is None or counted.refused is None:
        return
    replay = cluster.as_replay()
    remedies = Remedies(replay, counted.refused, counted.refusal)
    found = remedies.found()
    told = [each for each in found if each.kind == "pair"]
    singles = [each for each in found if each.kind not in ("pair", "node", "request")]
    assert not (told and singles)
    assert told or singles, "a pool for all claims, and processor, let it in on any node"
    for each in told:
        pool, more = each.changes
        assert (pool.kind, more.kind) == ("pool", "resource")
        assert tried(remedies, replay, each.node, pool.amount, more.amount)
        assert not tried(remedies, replay, each.node, pool.amount - 1, more.amount)
        assert not tried(remedies, replay, each.node, pool.amount, more.amount - 1)
        assert not tried(remedies, replay, each.node, 0, 1 << 40)
        assert not tried(remedies, replay, each.node, 1 << 60, 0)


def with_cpu(pod: Pod, cpu: int) -> Pod:
    container = msgspec.structs.replace(
        pod.spec.containers[0], resources=ResourceRequirements(requests={"cpu": Quantity.parse(str(cpu))})
    )
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=(container,)))


def tried(remedies: Remedies, replay: Replay, name: str, pool_bytes: int, cpu_milli: int) -> bool:
    (room,) = remedies.capacities_of(name)
    found = replay.named("Node", name)
    assert isinstance(found, Node)
    allocatable = {**found.status.allocatable}
    allocatable["cpu"] = allocatable["cpu"] + Quantity.parse(f"{cpu_milli}m")
    larger = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, allocatable=allocatable))
    return remedies.fits([larger, with_more_room(room, pool_bytes, as_pool=True) if pool_bytes else room])


def test_trying_leaves_the_cluster_as_it_was():
    cluster = played(cluster_of([[10], [10]], 1000))
    counted = count(cluster, replicas([6]), most=60)
    assert counted.refusal is not None and counted.refused is not None
    replay = cluster.as_replay()
    before = {(type(each).__name__, each.key): stripped(each) for each in replay}
    first = Remedies(replay, counted.refused, counted.refusal).found()
    assert {(type(each).__name__, each.key): stripped(each) for each in replay} == before
    assert Remedies(replay, counted.refused, counted.refusal).found() == first


def stripped(found: Object) -> Object:
    """Without the version, which counts tries."""
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, resource_version=""))


def test_the_order_of_objects_does_not_matter():
    objects = cluster_of([[10, 4], [8], [3, 3, 3]], 1000)
    counts = set()
    for seed in range(3):
        random.Random(seed).shuffle(objects)
        counts.add(count(played(objects), replicas([3]), most=60).count)
    assert len(counts) == 1
