"""A cluster on virtual time: pods are placed by the engine, their volumes made by the model, until they run."""

from __future__ import annotations

import pytest
from simulated import Seen, typed, world_of

from tonnage.gates import Gates
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.configuration.profile_plugins import KnownPlugin
from tonnage.scheduling.framework import SUCCESS, Api, Cycle, PreBindPlugin, Status
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class
from tonnage.whatif.simulate.disks import DriverSettings
from tonnage.whatif.simulate.world import World
from tonnage.whatif.sources import ClusterState, clock_of

CLUSTER = (storage_class(), driver(), node("a"), node("b"))


def test_a_pod_runs_once_its_volume_is_made_and_figures_follow():
    pools = [capacity("fast", name, "100Gi", pools=["100Gi"]) for name in ("a", "b")]
    world, seen = world_of(*CLUSTER, *pools, claim("data", "60Gi"), pod_with("db", "data"))
    world.run_until(60.0)
    assert seen.ran == {"default/db": pytest.approx(1.5)}, "made, attached, started: half a second each"
    (volume,) = (each for each in world if isinstance(each, PersistentVolume))
    assert volume.spec.claim_ref is not None and volume.spec.claim_ref.key == "default/data"
    assert sorted(disk.free_bytes >> 30 for disk in world.storage.disks) == [40, 100]
    told = [each.capacity for each in world if isinstance(each, CSIStorageCapacity)]
    assert sorted(each.value() >> 30 for each in told if each is not None) == [40, 100]


@pytest.mark.parametrize(
    ("annotated", "said", "left"),
    [
        ("most-free", PoolPolicy.UNKNOWN, [40, 60]),
        ("best-fit", PoolPolicy.UNKNOWN, [0, 100]),
        ("", PoolPolicy.UNKNOWN, [0, 100]),
        ("best-fit", PoolPolicy.MOST_FREE, [40, 60]),
    ],
)
def test_a_driver_picks_pools_as_it_is_annotated_unless_the_scenario_says_otherwise(annotated, said, left):
    storage = (storage_class(), driver(pool_policy=annotated), node("a"))
    pools = capacity("fast", "a", "160Gi", pools=["100Gi", "60Gi"])
    world, _ = world_of(
        *storage,
        pools,
        claim("data", "60Gi"),
        pod_with("db", "data"),
        rest=DriverSettings(pick=said),
    )
    world.run_until(60.0)
    (disk,) = world.storage.disks
    assert sorted(each >> 30 for each in disk.pools) == left


def test_figures_that_lie_make_refused_volumes_and_the_pod_is_tried_again():
    pools = [capacity("fast", "a", "100Gi", pools=["100Gi"])]
    world, seen = world_of(*CLUSTER, *pools, rest=DriverSettings(overstates=2.0))
    disk = next(iter(world.storage.disks))
    disk.pools[0] = 10 << 30  # the driver has less than it says
    for each in typed((claim("data", "60Gi"), pod_with("db", "data"))):
        world.put(each)
    world.run_until(30.0)
    assert world.storage.counts.refused >= 1
    assert seen.came_back and seen.came_back[0][:2] == ("default/db", "a")
    assert not seen.ran


def test_a_pod_that_names_its_node_is_admitted_as_by_a_kubelet():
    there = {"phase": "Running", "qosClass": "Burstable"}
    pods = (
        pod("runs", cpu="3", on="a", status=there),
        pod("huge", cpu="1M", on="a"),
        pod("fits", cpu="1", on="a"),
        pod("critical", cpu="4", on="b", priority=2_000_000_000),
        pod("small", cpu="1", on="b", status=there),
    )
    world, seen = world_of(*CLUSTER, *pods)
    world.run_until(10.0)
    assert sorted(seen.ran) == ["default/critical", "default/fits"]
    huge = world.get(Pod, "default/huge")
    assert huge is not None
    told = "Node didn't have enough resource: cpu, requested: 1000000000, used: 3000, capacity: 4000"
    assert (huge.status.reason, huge.status.message) == ("OutOfcpu", f"Pod was rejected: {told}")
    assert seen.gone_because == [("default/small", "preempted by its node")]
    assert world.kubelets.rejected == 1
    world.put(pod("free", cpu="1"))  # what was rejected is not counted by the scheduler either
    world.run_until(20.0)
    assert seen.decisions == [("default/free", "")], "a has 4 of 4, b has 4 of 4"
    world.remove(Pod, "default/fits")
    world.run_until(60.0)
    assert "default/free" in seen.ran
    world.put(pod("late", cpu="1", on="a"))
    world.run_until(70.0)
    late = world.get(Pod, "default/late")
    assert late is not None and late.status.reason == "OutOfcpu", "it may come at any time"


def test_pods_that_go_give_their_room_back_to_those_that_wait():
    pools = [capacity("fast", "a", "100Gi", pools=["100Gi"])]
    docs = [each for number in range(2) for each in (claim(f"c{number}", "80Gi"), pod_with(f"p{number}", f"c{number}"))]
    world, seen = world_of(*CLUSTER, *pools, *docs)
    world.run_until(20.0)
    assert len(seen.ran) == 1
    (first,) = seen.ran
    pod = world.get(Pod, first)
    assert isinstance(pod, Pod)
    world.evict(pod, "done")
    world.remove(PersistentVolumeClaim, f"default/{pod.claim_names()[0]}")
    world.run_until(60.0)
    assert len(seen.ran) == 2


def test_the_same_seed_gives_the_same_run():
    def run() -> list[tuple[str, str]]:
        pools = [capacity("fast", name, "400Gi", pools=["100Gi"] * 4) for name in ("a", "b")]
        docs = [each for n in range(12) for each in (claim(f"c{n}", "50Gi"), pod_with(f"p{n}", f"c{n}"))]
        world, seen = world_of(*CLUSTER, *pools, *docs, rest=DriverSettings(pick=PoolPolicy.RANDOM))
        world.run_until(120.0)
        return seen.decisions

    assert run() == run()


OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": True}


def test_a_drained_pod_is_followed_by_another_and_its_volume_is_rebuilt_there():
    pools = [capacity("fast", name, "100Gi", pools=["100Gi"]) for name in ("a", "b")]
    db = pod_with("db-0", "data", metadata={"ownerReferences": [OWNER]})
    world, _seen = world_of(
        storage_class(), driver(rebuilding=True), node("a"), node("b"), *pools, claim("data", "50Gi"), db
    )
    world.run_until(10.0)
    first = world.get(Pod, "default/db-0")
    assert isinstance(first, Pod)
    home = first.spec.node_name
    world.nodes.drain(home)
    world.run_until(600.0)
    now = world.get(Pod, "default/db-0")
    assert isinstance(now, Pod)
    assert now.uid != first.uid and now.spec.node_name not in ("", home) and now.status.phase == "Running"
    assert world.storage.counts.bytes_rebuilt == 50 << 30
    assert sorted(disk.free_bytes >> 30 for disk in world.storage.disks) == [50, 100]


def test_a_volume_whose_driver_does_not_rebuild_stays_behind_and_its_pod_waits():
    pools = [capacity("fast", name, "100Gi", pools=["100Gi"]) for name in ("a", "b")]
    db = pod_with("db-0", "data", metadata={"ownerReferences": [OWNER]})
    world, _ = world_of(*CLUSTER, *pools, claim("data", "50Gi"), db)
    world.run_until(10.0)
    first = world.get(Pod, "default/db-0")
    assert isinstance(first, Pod)
    events = world.nodes
    events.drain(first.spec.node_name)
    world.run_until(100.0)
    waiting = world.get(Pod, "default/db-0")
    assert isinstance(waiting, Pod) and not waiting.spec.node_name
    events.uncordon(first.spec.node_name)
    world.run_until(200.0)
    back = world.get(Pod, "default/db-0")
    assert isinstance(back, Pod) and back.spec.node_name == first.spec.node_name


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {"tonnage.dev/included-claims": "somebody"}},
        {"managedFields": [{"time": "2026-01-01T00:00:00Z"}]},
    ],
    ids=["named claims", "times of writes"],
)
def test_figures_of_a_live_cluster_go_on_to_say_what_they_include(metadata):
    """What a publisher or a server notes with them tells the scheduler that a promise is shown, and may end."""
    pools = capacity("fast", "a", "200Gi", pools=["100Gi", "100Gi"], metadata=metadata)
    world, seen = world_of(*CLUSTER, pools, claim("c0", "90Gi"), pod_with("p0", "c0"))
    world.run_until(10.0)
    for each in typed((claim("c1", "90Gi"), pod_with("p1", "c1"))):
        world.put(each)
    world.run_until(20.0)
    assert sorted(seen.ran) == ["default/p0", "default/p1"]


class MarkedAndSeen(PreBindPlugin):
    """Waits until the pod's claim is bound, then writes to it, while what it waited for still holds."""

    name = "MarkedAndSeen"

    def __init__(self, args: object = None) -> None:
        pass

    async def pre_bind(self, cycle: Cycle, node_name: str, api: Api) -> Status:
        (key,) = cycle.pod.claim_keys

        def claim() -> PersistentVolumeClaim:
            found = cycle.cluster.storage.claims.get(key)
            assert found is not None
            return found

        await api.settled(lambda: SUCCESS if claim().is_bound else None, 60.0)
        await api.patch(claim(), {"metadata": {"annotations": {"example.com/mark": "1"}}})
        return SUCCESS


def test_a_binding_that_writes_to_what_it_waited_for_goes_on():
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    text = f"{head}profiles:\n- plugins: {{preBind: {{enabled: [{{name: MarkedAndSeen}}]}}}}\n"
    known = [KnownPlugin.of(MarkedAndSeen)]
    profiles = parse(text, source="a test", known_plugins=known, gates=Gates()).profiles
    seen = Seen()
    pools = capacity("fast", "a", "100Gi", pools=["100Gi"])
    objects = typed((*CLUSTER, pools, claim("data", "60Gi"), pod_with("db", "data")))
    seen.world = world = World(ClusterState(objects, "the test", clock_of(objects)), profiles, seen)
    world.run_until(60.0)
    assert seen.came_back == []
    assert list(seen.ran) == ["default/db"]
