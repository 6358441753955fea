"""Capacity publishing over real gRPC, on our server and on Kubernetes' own, which knows nothing of KEP-5925.

Mirrors the cases of external-provisioner's capacity controller, and adds the KEP's pools.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
from capacity_rig import TOPOLOGY_KEY, CapacityStage, said_by, staged
from prometheus_client import CollectorRegistry

from support.api_servers import ServerApi
from support.eventually import eventually_async
from tonnage.apiserver.server import Server, ServerSettings, serve
from tonnage.csi.errors import Code
from tonnage.gates import Gates
from tonnage.logs import JsonLines
from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.meta import OwnerReference
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, CSINode, CSIStorageCapacity, StorageClass
from tonnage.provisioner.capacity.objects import MOST, Segment, manager_on
from tonnage.scheduling.volumes.capacity.pools import listed_pools
from tonnage.testing.storage_builders import volume

GI = 1 << 30


@pytest.fixture
async def stage(api: ServerApi, ns: str) -> AsyncIterator[CapacityStage]:
    async with staged(api.url, api.token, ns) as ready:
        yield ready


async def test_each_segment_and_class_has_an_object_with_pools_and_their_sum(stage: CapacityStage, api: ServerApi):
    gold, pools = await stage.storage_class("gold", kind="gold"), await stage.storage_class()
    await stage.storage_class("at-once", delayed=False)
    a, b = await stage.node("a"), await stage.node("b")
    stage.driver.report(a, "100Gi", "200Gi", maximum="200Gi")
    stage.driver.report(b, total="40Gi")
    stage.driver.report(a, "10Gi", kind="gold")
    owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="driver", uid="u1", controller=True)
    registry = CollectorRegistry()
    async with stage.controller(more={"owner": owner, "registry": registry}) as capacities:
        # 100 + 200 = 300; gold has one pool on a, and b is never told about.
        await stage.until_published((a, "300Gi"), (b, "40Gi"), (a, "10Gi"), (b, "0"))
        await stage.until_settled()
        found = await stage.objects()
        by_place = {(each.storage_class_name, said_by(each)[0]): each for each in found}
        assert set(by_place) == {(pools, a), (pools, b), (gold, a), (gold, b)}
        assert [listed_pools(by_place[pools, node]) for node in (a, b)] == [(200 * GI, 100 * GI), ()]
        assert str(by_place[pools, a].maximum_volume_size) == "200Gi"
        assert by_place[pools, b].maximum_volume_size is None
        for each in found:
            assert each.name.startswith("csisc-") and each.metadata.owner_references == (owner,)
            assert each.metadata.labels == {
                "csi.storage.k8s.io/drivername": stage.ns,
                "csi.storage.k8s.io/managed-by": "external-provisioner",
            }
        assert capacities.counts() == (4, 4, 0)
        names = (
            "csistoragecapacities_desired_goal",
            "csistoragecapacities_desired_current",
            "csistoragecapacities_obsolete",
        )
        assert [registry.get_sample_value(name) for name in names] == [4, 4, 0]
    has_field = bool(by_place[pools, a].available_capacities)
    annotated = by_place[pools, a].metadata.annotations.get(AVAILABLE_CAPACITIES)
    if api.name == "embedded":
        assert has_field and annotated is None
    else:
        assert not has_field and annotated == "100Gi,200Gi"


async def test_a_poll_writes_what_changed_and_only_that(stage: CapacityStage):
    await stage.storage_class()
    a, b = await stage.node("a"), await stage.node("b")
    stage.driver.report(a, "100Gi", "200Gi")
    stage.driver.report(b, "50Gi")
    async with stage.controller():
        await stage.until_published((a, "300Gi"), (b, "50Gi"))
        await stage.until_settled()
        before = {each.name: each for each in await stage.objects()}
        stage.driver.report(a, "200Gi", "100Gi")
        stage.driver.report(b, "30Gi")
        stage.driver.calls.clear()
        stage.clock.advance(60)
        await stage.until_asked(2)
        await stage.until_published((a, "300Gi"), (b, "30Gi"))
        await stage.until_settled()
        after = {each.name: each for each in await stage.objects()}
        same = {
            name
            for name, each in after.items()
            if each.metadata.resource_version == before[name].metadata.resource_version
        }
        assert {listed_pools(each) for name, each in after.items() if name in same} == {(200 * GI, 100 * GI)}
        assert {listed_pools(each) for name, each in after.items() if name not in same} == {(30 * GI,)}
        stage.driver.report(b, total="30Gi")
        stage.clock.advance(60)
        await eventually_async(lambda: stage.have_pools(1))


async def test_after_a_volume_was_made_its_segment_is_asked_at_once_about_all_classes(stage: CapacityStage):
    pools, _ = await stage.storage_class(), await stage.storage_class("gold", kind="gold")
    a, b = await stage.node("a"), await stage.node("b")
    stage.driver.report(a, "100Gi")
    async with stage.controller() as capacities:
        await stage.until_published((a, "100Gi"), (a, "0"), (b, "0"), (b, "0"))
        await stage.until_settled()
        stage.driver.calls.clear()
        stage.driver.report(a, "80Gi")
        made = volume("pv-1", class_name=pools, affinity={"key": TOPOLOGY_KEY, "operator": "In", "values": [a]})
        capacities.refresh_volume(made)
        await stage.until_published((a, "80Gi"), (a, "0"), (b, "0"), (b, "0"))
        await stage.until_settled()
        assert sorted(stage.asked) == [(a, ""), (a, "gold")]
        stage.driver.calls.clear()
        capacities.refresh_volume(volume("pv-2", class_name=pools))
        await stage.until_asked(2)
        await stage.until_settled()
        assert sorted(stage.asked) == [(a, ""), (b, "")]


async def test_of_a_volume_that_says_no_place_all_classes_of_its_capacity_group_are_asked_about(stage: CapacityStage):
    """Its node was cordoned or gone when it was deleted or moved: the pools that it left are those of all of them."""
    pools = await stage.storage_class(group="disks")
    await stage.storage_class("gold", kind="gold", group="disks")
    await stage.storage_class("tape", kind="tape")
    a, b = await stage.node("a"), await stage.node("b")
    async with stage.controller() as capacities:
        await stage.until_published(*[(a, "0")] * 3, *[(b, "0")] * 3)
        await stage.until_settled()
        stage.driver.calls.clear()
        capacities.refresh_volume(volume("pv-1", class_name=pools))
        await stage.until_asked(4)
        await stage.until_settled()
        assert sorted(stage.asked) == [(a, ""), (a, "gold"), (b, ""), (b, "gold")]


async def test_figures_say_whose_volumes_they_include(stage: CapacityStage):
    pools, a, b = await stage.storage_class(), await stage.node("a"), await stage.node("b")
    stage.driver.report(a, "100Gi")
    stage.driver.report(b, "100Gi")
    async with stage.controller() as capacities:
        await stage.until_published((a, "100Gi"), (b, "100Gi"))
        await stage.until_settled()
        stage.driver.report(a, "80Gi")
        where = {"key": TOPOLOGY_KEY, "operator": "In", "values": [a]}
        capacities.refresh_volume(
            volume("pv-1", class_name=pools, affinity=where, claim="default/data", claim_uid="u1")
        )
        found = await stage.until_published((a, "80Gi"), (b, "100Gi"))
        told = sorted(each.metadata.annotations.get("tonnage.dev/included-claims", "") for each in found)
        assert told == ["", "u1"]


async def test_figures_that_include_more_volumes_than_are_named_say_until_when(stage: CapacityStage):
    """The volumes whose objects the server stamped before the newest one that was known when the driver was asked."""
    pools, a = await stage.storage_class(), await stage.node("a")
    async with stage.controller() as capacities:
        (found,) = await stage.until_published((a, "0"))
        where = {"key": TOPOLOGY_KEY, "operator": "In", "values": [a]}
        for number in range(MOST + 6):
            capacities.refresh_volume(
                volume(f"pv-{number}", class_name=pools, affinity=where, claim="default/data", claim_uid=f"u{number}")
            )
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": stage.ns, "volumeHandle": "v1"},
        }
        name = f"{stage.ns}-newest"
        await stage.client.create_doc(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
        )
        created_at = (await stage.client.get(PersistentVolume, name)).metadata.creation_timestamp
        assert created_at is not None

        async def says_until() -> bool:
            nonlocal found
            (found,) = await stage.objects()
            return found.included_until is not None and found.included_until >= created_at

        await eventually_async(says_until)
        told = found.metadata.annotations["tonnage.dev/included-claims"].split(",")
        assert told == [f"u{number}" for number in range(6, MOST + 6)]
        await stage.client.delete(PersistentVolume, name)


async def test_a_controller_that_starts_says_that_its_figures_include_the_volumes_that_were_made_lately(
    stage: CapacityStage,
):
    """The one before it was killed: a scheduler that is told nothing would keep their room back for a minute."""
    pools, a, b = await stage.storage_class(), await stage.node("a"), await stage.node("b")
    place = {"matchExpressions": [{"key": TOPOLOGY_KEY, "operator": "In", "values": [a]}]}
    spec = {
        "capacity": {"storage": "20Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": pools,
        "claimRef": {"namespace": "default", "name": "data", "uid": "u1"},
        "csi": {"driver": stage.ns, "volumeHandle": "v1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [place]}},
    }
    await stage.client.create_doc(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{stage.ns}-pv"}, "spec": spec}
    )
    stage.driver.report(a, "80Gi")
    stage.driver.report(b, "100Gi")
    async with stage.controller():
        found = await stage.until_published((a, "80Gi"), (b, "100Gi"))
        told = sorted(each.metadata.annotations.get("tonnage.dev/included-claims", "") for each in found)
        assert told == ["", "u1"]


async def test_after_a_volume_was_rebuilt_elsewhere_its_new_place_and_its_class_are_asked_at_once(
    stage: CapacityStage,
):
    pools, a, b = await stage.storage_class(), await stage.node("a"), await stage.node("b")
    stage.driver.report(a, "100Gi")
    stage.driver.report(b, "80Gi")
    async with stage.controller():
        await stage.until_published((a, "100Gi"), (b, "80Gi"))
        spec = {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": pools,
            "claimRef": {"namespace": "default", "name": "data", "uid": "u1"},
            "csi": {"driver": stage.ns, "volumeHandle": "v1"},
        }
        name = f"{stage.ns}-pv"
        await stage.client.create_doc(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
        )
        await stage.until_settled()
        # 20Gi go from b to a; its driver says so by the volume's node affinity.
        stage.driver.report(a, "80Gi")
        stage.driver.report(b, "100Gi")
        place = {"matchExpressions": [{"key": TOPOLOGY_KEY, "operator": "In", "values": [a]}]}
        affinity = {"required": {"nodeSelectorTerms": [place]}}
        await stage.client.patch(PersistentVolume, name, {"spec": {"nodeAffinity": affinity}})
        found = await stage.until_published((a, "80Gi"), (b, "100Gi"))
        told = {said_by(each)[0]: each.metadata.annotations.get("tonnage.dev/included-claims") for each in found}
        assert told == {a: "u1", b: None}
        await stage.client.delete(PersistentVolume, name)


async def test_objects_follow_nodes_and_drivers_as_they_come_and_go(stage: CapacityStage):
    await stage.storage_class()
    a = await stage.node("a")
    stage.driver.report(a, "100Gi")
    async with stage.controller():
        await stage.until_published((a, "100Gi"))
        # A node without the driver, then with it but without the label, then with both.
        b = await stage.node("b", is_registered=False, is_labelled=False)
        stage.driver.report(b, "50Gi")
        await stage.client.create_doc(
            {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": b}, "spec": {"drivers": []}}
        )
        await stage.client.patch(CSINode, b, {"spec": {"drivers": [stage.driver_entry(b)]}})
        await stage.client.patch(Node, b, {"metadata": {"labels": {TOPOLOGY_KEY: b}}})
        await stage.until_published((a, "100Gi"), (b, "50Gi"))
        await stage.client.patch(CSINode, b, {"spec": {"drivers": []}})
        await stage.until_published((a, "100Gi"))
        await stage.client.patch(CSINode, b, {"spec": {"drivers": [stage.driver_entry(b)]}})
        await stage.until_published((a, "100Gi"), (b, "50Gi"))
        await stage.client.delete(Node, b)
        await stage.until_published((a, "100Gi"))


async def test_a_class_that_was_touched_or_made_again_is_asked_about_anew(stage: CapacityStage):
    pools = await stage.storage_class()
    a = await stage.node("a")
    stage.driver.report(a, "100Gi")
    stage.driver.report(a, "5Gi", kind="gold")
    async with stage.controller():
        await stage.until_published((a, "100Gi"))
        await stage.until_settled()
        stage.driver.calls.clear()
        await stage.client.patch(StorageClass, pools, {"metadata": {"labels": {"touched": "yes"}}})
        await stage.until_asked(1)
        await stage.client.delete(StorageClass, pools)
        await stage.storage_class(kind="gold")
        await stage.until_published((a, "5Gi"))
        await stage.client.delete(StorageClass, pools)
        await stage.until_published()


async def test_what_others_do_to_an_object_is_put_right(stage: CapacityStage):
    await stage.storage_class()
    a = await stage.node("a")
    stage.driver.report(a, "100Gi")
    async with stage.controller():
        (first,) = await stage.until_published((a, "100Gi"))
        await stage.until_settled()
        stage.clock.advance(2.0)  # past any look that our own first writes have asked for
        stage.clock.naps_s.clear()
        await stage.client.patch(CSIStorageCapacity, first.key, {"capacity": "1Ti"})
        await stage.until_napping(1.0)
        stage.clock.advance(1.0)
        await stage.until_published((a, "100Gi"))
        await stage.client.delete(CSIStorageCapacity, first.key)

        async def successor() -> CSIStorageCapacity | None:
            return next((each for each in await stage.objects() if each.uid != first.uid), None)

        second = await eventually_async(successor)
        assert second is not None
        # Taken over by somebody else: it is theirs from now on, and another is made.
        theirs = {"metadata": {"labels": {"csi.storage.k8s.io/managed-by": "somebody"}}}
        await stage.client.patch(CSIStorageCapacity, second.key, theirs)
        await stage.until_published((a, "100Gi"), (a, "100Gi"))


async def test_duplicates_and_leftovers_go_and_what_is_not_ours_stays(stage: CapacityStage):
    pools = await stage.storage_class()
    a = await stage.node("a")
    stage.driver.report(a, "100Gi")
    ours = {"csi.storage.k8s.io/drivername": stage.ns, "csi.storage.k8s.io/managed-by": "external-provisioner"}
    here = {"matchLabels": {TOPOLOGY_KEY: a}}

    async def put(name: str, labels: dict[str, str], class_name: str, topology: Mapping[str, object] | None) -> None:
        doc = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": name, "namespace": stage.ns, "labels": labels},
            "storageClassName": class_name,
            "capacity": "1Gi",
            **({"nodeTopology": topology} if topology is not None else {}),
        }
        await stage.client.create_doc(doc)

    await put("one", ours, pools, here)
    await put("two", ours, pools, here)
    await put("class-gone", ours, "gone", here)
    await put("node-gone", ours, pools, {"matchLabels": {TOPOLOGY_KEY: "gone"}})
    await put("nowhere", ours, pools, None)
    await put("other-manager", {**ours, "csi.storage.k8s.io/managed-by": "x"}, pools, here)
    await put("no-manager", {}, pools, here)
    async with stage.controller() as capacities:

        async def names() -> set[str]:
            return {each.name for each in await stage.objects()}

        async def are_clean() -> bool:
            return await names() == {"one", "other-manager", "no-manager"} and capacities.counts() == (1, 1, 0)

        await eventually_async(are_clean)
        await stage.until_published((a, "100Gi"), (a, "1Gi"), (a, "1Gi"))
        await stage.until_settled()
    # Killed and started again it finds them: nothing is made, nothing is written.
    before = {each.name: each.metadata.resource_version for each in await stage.objects()}
    stage.driver.calls.clear()
    async with stage.controller():
        await stage.until_asked(1)
        await stage.until_settled()
    assert {each.name: each.metadata.resource_version for each in await stage.objects()} == before


async def test_a_driver_that_fails_keeps_its_objects_and_is_asked_again_after_growing_pauses(stage: CapacityStage):
    await stage.storage_class()
    a = await stage.node("a")
    stage.driver.report(a, "100Gi")
    async with stage.controller():
        await stage.until_published((a, "100Gi"))
        await stage.until_settled()
        before = await stage.only()
        stage.driver.refusal = (Code.INTERNAL, "the driver has a bad day")
        stage.driver.report(a, "60Gi")
        stage.driver.calls.clear()
        stage.clock.naps_s.clear()
        stage.clock.advance(60)
        await stage.until_asked(1)
        for times, pause_s in ((2, 1.0), (3, 2.0)):
            await stage.until_napping(pause_s)
            stage.clock.advance(pause_s)
            await stage.until_asked(times)
        await stage.until_napping(4.0)
        assert (await stage.only()).metadata.resource_version == before.metadata.resource_version
        stage.driver.refusal = None
        stage.clock.advance(4.0)
        await stage.until_published((a, "60Gi"))
        assert len(stage.asked) == 4


async def test_writes_are_rationed_and_an_answer_that_had_to_wait_is_asked_for_again(stage: CapacityStage):
    await stage.storage_class()
    a = await stage.node("a")
    stage.driver.report(a, total="100Gi")
    async with stage.controller(qps=0.5, burst=1) as capacities:
        await stage.until_published((a, "100Gi"))
        await stage.until_settled()
        stage.driver.calls.clear()
        stage.driver.report(a, total="80Gi")
        stage.driver.report_once(a, total="90Gi")
        capacities.refresh(f"{stage.ns}-pools")
        # 0.5 writes a second: the next one 2 s after the first.
        await stage.until_napping(2.0)
        await stage.until_published((a, "100Gi"))
        stage.clock.advance(2.0)
        await stage.until_published((a, "80Gi"))
        assert len(stage.asked) == 2


async def test_with_the_gate_off_pools_that_were_published_stay_and_new_objects_get_none(stage: CapacityStage):
    await stage.storage_class()
    a = await stage.node("a")
    stage.driver.report(a, "100Gi", "200Gi", total="123Gi", maximum="100Gi")
    async with stage.controller():
        await stage.until_published((a, "300Gi"))
        await eventually_async(lambda: stage.have_pools(1))
    b = await stage.node("b")
    stage.driver.report(a, "80Gi", "200Gi", total="123Gi", maximum="100Gi")
    stage.driver.report(b, "50Gi", total="50Gi")
    async with stage.controller(with_pools=False):
        found = {said_by(each): each for each in await stage.until_published((a, "123Gi"), (b, "50Gi"))}
        assert str(found[a, "123Gi"].maximum_volume_size) == "100Gi"
        assert listed_pools(found[a, "123Gi"]) == (200 * GI, 80 * GI)
        assert listed_pools(found[b, "50Gi"]) == ()


async def test_on_a_node_its_one_segment_is_published_under_a_manager_of_its_own(stage: CapacityStage):
    await stage.storage_class()
    a, b = await stage.node("a"), await stage.node("b")
    stage.driver.report(a, "100Gi")
    stage.driver.report(b, "50Gi")
    segments = {node: Segment.of({TOPOLOGY_KEY: node}) for node in (a, b)}
    async with stage.controller(managed_by=manager_on(a), more={"fixed_segment": segments[a]}):
        await stage.until_published((a, "100Gi"))
        async with stage.controller(managed_by=manager_on(b), more={"fixed_segment": segments[b]}):
            await stage.until_published((a, "100Gi"), (b, "50Gi"))
    managers = {each.metadata.labels["csi.storage.k8s.io/managed-by"] for each in await stage.objects()}
    assert managers == {f"external-provisioner-{a}", f"external-provisioner-{b}"}


async def test_a_driver_without_topology_has_one_object_for_the_whole_cluster(stage: CapacityStage):
    await stage.storage_class(delayed=False)
    stage.driver.report("", total="7Gi")
    async with stage.controller(for_immediate_binding=True, more={"fixed_segment": Segment()}):
        await stage.until_published(("", "7Gi"))
        topology = (await stage.only()).node_topology
        assert topology is not None and topology.is_empty


async def test_without_its_namespace_it_says_so_and_waits_for_it(
    stage: CapacityStage, caplog: pytest.LogCaptureFixture
):
    await stage.storage_class()
    a = await stage.node("a")
    stage.driver.report(a, "100Gi")
    late = f"{stage.ns}-late"
    async with stage.controller(namespace=late):
        await stage.until_napping(1.0)
        told = [json.loads(JsonLines().format(record)) for record in caplog.records if record.levelname == "WARNING"]
        assert f'capacity objects cannot be made: there is no namespace "{late}"' in [
            each.get("error") for each in told
        ]
        await stage.client.create_doc({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": late}})
        stage.clock.advance(1.0)

        async def objects() -> tuple[CSIStorageCapacity, ...]:
            return (await stage.client.list(CSIStorageCapacity, namespace=late)).items

        (found,) = await eventually_async(objects)
        assert str(found.capacity) == "100Gi"


async def test_a_server_that_learns_the_field_gets_it_instead_of_the_annotation(tmp_path: Path):
    def server_with(pools: str, port: int) -> AbstractAsyncContextManager[Server]:
        gates = Gates.parse(f"CSIStorageCapacityV2={pools}")
        return serve(ServerSettings(data_dir=tmp_path, port=port, gates=gates))

    async with AsyncExitStack() as stack:
        async with server_with("false", 0) as server:
            stage = await stack.enter_async_context(staged(server.url, server.token, "learns"))
            await stage.client.create_doc({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "learns"}})
            await stage.storage_class()
            a = await stage.node("a")
            stage.driver.report(a, "100Gi", "200Gi")
            await stack.enter_async_context(stage.controller())
            await eventually_async(lambda: stage.have_pools(1))
            found = await stage.only()
            assert found.metadata.annotations == {AVAILABLE_CAPACITIES: "100Gi,200Gi"}
            assert found.available_capacities == ()
        async with server_with("true", int(server.url.rpartition(":")[2])):
            # Nothing has changed but the server; after ten minutes it is offered the field once more.
            stage.clock.advance(600)

            async def has_field_alone() -> bool:
                found = await stage.only()
                return bool(found.available_capacities) and not found.metadata.annotations

            await eventually_async(has_field_alone)
            assert listed_pools(await stage.only()) == (200 * GI, 100 * GI)
            await stack.aclose()
