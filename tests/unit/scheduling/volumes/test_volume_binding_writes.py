"""What is assumed at Reserve, written in PreBind and watched until it is done, on an API that lives in memory.

`Server` keeps its objects apart from what the informer has shown (`Storage`), as the real one does; `deliver` is the
informer catching up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pytest

from tonnage.documents.patches.json_patch import merge_patch
from tonnage.errors import Conflict, NotFound
from tonnage.objects import codec
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import BOUND_BY_CONTROLLER, SELECTED_NODE
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import OutOfSync
from tonnage.scheduling.framework import SUCCESS, Api, Code, Status
from tonnage.scheduling.volumes.bind_volumes import Assumed, assume, check, revert, with_claim_ref, write
from tonnage.scheduling.volumes.demand import Provision, VolumePlan
from tonnage.scheduling.volumes.static_volumes import StaticBinding
from tonnage.testing.builders import cluster_of, node
from tonnage.testing.storage_builders import claim, pod_with, volume

T = TypeVar("T", bound=Object)


class Server:
    """An API server's claims and volumes. `writes` are the patches it took, by kind and name."""

    def __init__(self, cluster: Cluster, *objects: Object) -> None:
        self.cluster = cluster
        self.objects: dict[tuple[str, str], Object] = {}
        self.writes: list[tuple[str, str, Mapping[str, Any]]] = []
        self.deleted_pods: set[str] = set()
        self._version = 1_000_000  # newer than anything the builders made
        for each in objects:
            self.objects[type(each).__name__, each.key] = each
        self.deliver()

    def deliver(self) -> None:
        """The informer shows everything as it is now."""
        for each in self.objects.values():
            self.cluster.storage.put(each)

    def change(self, current: T, patch: Mapping[str, Any]) -> T:
        """Somebody changes an object on the server."""
        self._version += 1
        doc = merge_patch(codec.to_doc(self.objects[type(current).__name__, current.key]), patch)
        doc["metadata"]["resourceVersion"] = str(self._version)
        changed = codec.convert(type(current), doc)
        self.objects[type(changed).__name__, changed.key] = changed
        return changed

    def claim(self, name: str) -> PersistentVolumeClaim:
        found = self.objects["PersistentVolumeClaim", f"default/{name}"]
        assert isinstance(found, PersistentVolumeClaim)
        return found

    def volume(self, name: str) -> PersistentVolume:
        found = self.objects["PersistentVolume", name]
        assert isinstance(found, PersistentVolume)
        return found

    # -- as a binding sees it

    async def bind(self, pod: PodInfo, node_name: str) -> None: ...

    async def patch(self, current: T, patch: Mapping[str, Any]) -> T:
        kind = type(current).__name__
        stored = self.objects.get((kind, current.key))
        if stored is None:
            raise NotFound(f"{kind} {current.key} not found")
        if stored.metadata.resource_version != current.metadata.resource_version:
            raise Conflict(f"{kind} {current.key} was changed")
        self.writes.append((kind, current.key, patch))
        return self.change(current, patch)

    async def settled(self, check: Callable[[], Status | None], timeout_s: float) -> Status:
        return check() or Status(Code.ERROR, ("context deadline exceeded",))

    def is_gone(self, pod: PodInfo) -> bool:
        return pod.key in self.deleted_pods

    def event(self, regarding: Object, reason: str, action: str, note: str) -> None: ...


POD = PodInfo(pod_with("web", "data"))


def world(*objects: Object) -> tuple[Server, Cluster]:
    cluster = cluster_of(node("a"), node("b"))
    return Server(cluster, *objects), cluster


def static(server: Server, claim_name: str = "data", volume_name: str = "pv-1") -> VolumePlan:
    return VolumePlan(static=(StaticBinding(server.claim(claim_name), server.volume(volume_name)),))


def provisioned(server: Server, *claims: str) -> VolumePlan:
    return VolumePlan(provisions=tuple(Provision(server.claim(each), None) for each in claims or ("data",)))


def failed(text: str) -> Status:
    return Status(Code.ERROR, (text,))


# -- Reserve ----------------------------------------------------------------------------------------------------------


def test_a_static_volume_is_assumed_to_be_its_claims():
    server, cluster = world(claim("data"), volume("pv-1", on="a"))
    assumed = assume(cluster.storage, POD, static(server), "a")
    seen = cluster.storage.volumes.get("pv-1")
    assert seen is assumed.bindings[0].volume and seen is not None and seen.spec.claim_ref is not None
    owner, wanted = seen.spec.claim_ref, server.claim("data")
    assert (owner.api_version, owner.kind) == ("v1", "PersistentVolumeClaim")
    assert (owner.namespace, owner.name, owner.uid) == ("default", "data", wanted.uid)
    assert owner.resource_version == wanted.metadata.resource_version
    assert seen.metadata.annotations == {BOUND_BY_CONTROLLER: "yes"}
    known = cluster.storage.volumes.api("pv-1")
    assert known is not None and known.spec.claim_ref is None and server.writes == []


def test_a_volume_kept_for_the_claim_by_name_gets_its_uid_and_no_annotation():
    kept = volume("pv-1", claim="default/data", claim_uid="", phase="Available")
    given = with_claim_ref(kept, claim("data"))
    assert given.spec.claim_ref is not None and given.spec.claim_ref.uid == "default-data"
    assert given.metadata.annotations == {}


def test_a_volume_that_was_another_lifes_is_marked_as_given_by_the_scheduler():
    given = with_claim_ref(volume("pv-1", claim="default/data", claim_uid="an-older-life"), claim("data"))
    assert given.spec.claim_ref is not None and given.spec.claim_ref.uid == "default-data"
    assert given.metadata.annotations == {BOUND_BY_CONTROLLER: "yes"}


def test_a_volume_that_is_the_claims_already_is_left_as_it_is():
    has = volume("pv-1", claim="default/data")
    assert with_claim_ref(has, claim("data")) is has


def test_a_claim_is_assumed_to_be_sent_to_its_node():
    server, cluster = world(claim("data"))
    assumed = assume(cluster.storage, POD, provisioned(server), "a")
    seen = cluster.storage.claims.get("default/data")
    assert seen is assumed.claims[0] and seen is not None and seen.selected_node == "a"


def test_a_claim_to_be_rebuilt_is_sent_to_its_new_node():
    server, cluster = world(claim("data", volume="pv-1", selected_node="gone"))
    plan = VolumePlan(provisions=(Provision(server.claim("data"), None, is_rebuild=True),))
    assert [each.selected_node for each in assume(cluster.storage, POD, plan, "a").claims] == ["a"]


def test_a_claim_mounted_twice_is_asked_for_once():
    server, cluster = world(claim("data"))
    assert len(assume(cluster.storage, POD, provisioned(server, "data", "data"), "a").claims) == 1


def test_an_object_that_changed_since_the_decision_undoes_the_whole_assumption():
    server, cluster = world(claim("data"), claim("logs"), volume("pv-1"))
    plan = VolumePlan(static=static(server).static, provisions=provisioned(server, "data", "logs").provisions)
    server.change(server.claim("logs"), {"metadata": {"labels": {"changed": "meanwhile"}}})
    server.deliver()
    with pytest.raises(OutOfSync):
        assume(cluster.storage, POD, plan, "a")
    assert not cluster.storage.volumes.is_assumed("pv-1") and not cluster.storage.claims.is_assumed("default/data")


def test_unreserve_restores_what_the_informer_knows_and_may_be_asked_twice():
    server, cluster = world(claim("data"), claim("logs"), volume("pv-1"))
    assumed = assume(
        cluster.storage,
        POD,
        VolumePlan(static=static(server).static, provisions=provisioned(server, "logs").provisions),
        "a",
    )
    revert(cluster.storage, assumed)
    revert(cluster.storage, assumed)
    assert cluster.storage.volumes.get("pv-1") is server.volume("pv-1")
    assert cluster.storage.claims.get("default/logs") is server.claim("logs")


def test_a_pod_that_shares_a_claim_does_not_take_the_other_pods_assumption_back():
    server, cluster = world(claim("data"))
    assume(cluster.storage, POD, provisioned(server), "a")
    seen = cluster.storage.claims.get("default/data")
    assert seen is not None
    second = assume(
        cluster.storage, PodInfo(pod_with("db", "data")), VolumePlan(provisions=(Provision(seen, None),)), "a"
    )
    revert(cluster.storage, second)
    assert cluster.storage.claims.get("default/data") is seen


def test_what_another_pod_assumed_since_is_not_taken_back():
    server, cluster = world(claim("data"))
    first = assume(cluster.storage, POD, provisioned(server), "a")
    server.change(server.claim("data"), {"metadata": {"labels": {"changed": "meanwhile"}}})
    server.deliver()  # the assumption of the first is void, the second starts from here
    second = assume(cluster.storage, PodInfo(pod_with("db", "data")), provisioned(server), "b")
    revert(cluster.storage, first)
    assert cluster.storage.claims.get("default/data") is second.claims[0]


# -- writing ----------------------------------------------------------------------------------------------------------


async def test_volumes_are_written_before_claims_and_only_what_changes():
    server, cluster = world(claim("data"), claim("logs"), volume("pv-1"))
    wanted = server.claim("data")
    assumed = assume(
        cluster.storage,
        POD,
        VolumePlan(static=static(server).static, provisions=provisioned(server, "logs").provisions),
        "a",
    )
    await write(server, cluster.storage, assumed)
    owner = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
        "uid": wanted.uid,
        "resourceVersion": wanted.metadata.resource_version,
    }
    assert server.writes == [
        (
            "PersistentVolume",
            "pv-1",
            {"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}, "spec": {"claimRef": owner}},
        ),
        ("PersistentVolumeClaim", "default/logs", {"metadata": {"annotations": {SELECTED_NODE: "a"}}}),
    ]
    # The answers are kept: what the informer shows is compared with them.
    assert assumed.bindings[0].volume is server.volume("pv-1") and assumed.claims == [server.claim("logs")]


async def test_an_object_that_says_so_already_costs_no_call():
    server, cluster = world(claim("data", selected_node="a"), claim("logs"), volume("pv-1", claim="default/logs"))
    plan = VolumePlan(static=static(server, "logs").static, provisions=provisioned(server).provisions)
    assumed = assume(cluster.storage, POD, plan, "a")
    await write(server, cluster.storage, assumed)
    assert server.writes == [] and assumed.claims == [server.claim("data")]


async def test_an_assumption_that_another_pod_has_not_written_yet_is_written():
    server, cluster = world(claim("data"))
    assume(cluster.storage, POD, provisioned(server), "a")
    seen = cluster.storage.claims.get("default/data")
    assert seen is not None
    second = assume(
        cluster.storage, PodInfo(pod_with("db", "data")), VolumePlan(provisions=(Provision(seen, None),)), "a"
    )
    await write(server, cluster.storage, second)
    assert server.claim("data").selected_node == "a"


async def test_a_conflict_restores_what_was_not_written_and_keeps_what_was():
    server, cluster = world(claim("data"), claim("logs"), claim("temp"), volume("pv-1"))
    plan = VolumePlan(static=static(server).static, provisions=provisioned(server, "logs", "temp").provisions)
    assumed = assume(cluster.storage, POD, plan, "a")
    server.change(server.claim("logs"), {"metadata": {"labels": {"changed": "meanwhile"}}})
    with pytest.raises(Conflict, match="PersistentVolumeClaim default/logs was changed"):
        await write(server, cluster.storage, assumed)
    assert [name for _, name, _ in server.writes] == ["pv-1"]
    assert not cluster.storage.claims.is_assumed("default/logs")
    assert not cluster.storage.claims.is_assumed("default/temp")
    revert(cluster.storage, assumed)  # Unreserve follows
    seen = cluster.storage.volumes.get("pv-1")
    assert seen is not None and seen.spec.claim_ref is not None, "written, and soon to be seen: nobody else may take it"
    server.deliver()
    assert cluster.storage.volumes.get("pv-1") is server.volume("pv-1")


async def test_a_claim_deleted_before_it_was_written_is_not_found():
    server, cluster = world(claim("data"))
    assumed = assume(cluster.storage, POD, provisioned(server), "a")
    del server.objects["PersistentVolumeClaim", "default/data"]
    with pytest.raises(NotFound):
        await write(server, cluster.storage, assumed)
    assert not cluster.storage.claims.is_assumed("default/data")


# -- waiting ----------------------------------------------------------------------------------------------------------


async def waiting_for(*claims: PersistentVolumeClaim | PersistentVolume, plan: str) -> tuple[Server, Cluster, Assumed]:
    """A pod whose volumes were written for node a; the informer has shown nothing of it yet."""
    server, cluster = world(*claims)
    assumed = assume(cluster.storage, POD, static(server) if plan == "static" else provisioned(server), "a")
    await write(server, cluster.storage, assumed)
    return server, cluster, assumed


async def test_a_static_binding_is_done_when_the_binder_has_finished():
    server, cluster, assumed = await waiting_for(claim("data"), volume("pv-1", on="a"), plan="static")
    assert check(cluster, assumed, server) is None, "the informer shows the volume as it was"
    server.deliver()
    assert check(cluster, assumed, server) is None, "the claim is not bound"
    bound = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv-1"}}
    server.change(server.claim("data"), bound)
    server.deliver()
    assert check(cluster, assumed, server) == SUCCESS


async def test_a_volume_that_was_taken_back_ends_the_wait():
    server, cluster, assumed = await waiting_for(claim("data"), volume("pv-1", on="a"), plan="static")
    server.change(server.volume("pv-1"), {"spec": {"claimRef": {"uid": None}}})
    server.deliver()
    assert check(cluster, assumed, server) == failed('ClaimRef got reset for pv "pv-1"')


async def test_a_volume_that_no_longer_reaches_the_node_ends_the_wait():
    server, cluster, assumed = await waiting_for(claim("data"), volume("pv-1", on="a"), plan="static")
    server.deliver()
    cluster.put_node(node("a", labels={"kubernetes.io/hostname": "renamed"}))
    told = 'pv "pv-1" node affinity doesn\'t match node "a": no matching NodeSelectorTerms'
    assert check(cluster, assumed, server) == failed(told)


async def test_a_volume_or_claim_that_is_gone_ends_the_wait():
    server, cluster, assumed = await waiting_for(claim("data"), volume("pv-1"), plan="static")
    cluster.storage.remove(server.claim("data"))
    told = 'failed to check binding: persistentvolumeclaims "default/data" not found'
    assert check(cluster, assumed, server) == failed(told)
    cluster.storage.remove(server.volume("pv-1"))
    assert check(cluster, assumed, server) == failed('failed to check binding: persistentvolumes "pv-1" not found')


async def test_a_provisioned_claim_is_done_when_its_volume_is_there_and_bound():
    server, cluster, assumed = await waiting_for(claim("data"), plan="dynamic")
    assert check(cluster, assumed, server) is None, "the informer shows the claim as it was"
    server.deliver()
    assert check(cluster, assumed, server) is None, "nobody has made the volume"
    server.change(server.claim("data"), {"spec": {"volumeName": "made"}})
    server.deliver()
    assert check(cluster, assumed, server) is None, "the volume is not seen yet"
    server.objects["PersistentVolume", "made"] = volume("made", on="a", claim="default/data")
    server.deliver()
    assert check(cluster, assumed, server) is None, "the binder has not finished"
    server.change(server.claim("data"), {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}})
    server.deliver()
    assert check(cluster, assumed, server) == SUCCESS


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({SELECTED_NODE: None}, 'selectedNode annotation reset for PVC "data"'),
        ({SELECTED_NODE: None, "other": "x"}, 'provisioning failed for PVC "data"'),
        ({SELECTED_NODE: "b"}, 'provisioning failed for PVC "data"'),
    ],
)
async def test_a_claim_that_lost_its_node_ends_the_wait(annotations, told):
    server, cluster, assumed = await waiting_for(claim("data"), plan="dynamic")
    server.change(server.claim("data"), {"metadata": {"annotations": annotations}})
    server.deliver()
    assert check(cluster, assumed, server) == failed(told)


async def test_a_volume_made_where_the_pod_cannot_go_ends_the_wait():
    server, cluster, assumed = await waiting_for(claim("data"), plan="dynamic")
    server.objects["PersistentVolume", "made"] = volume("made", on="b", claim="default/data")
    server.change(server.claim("data"), {"spec": {"volumeName": "made"}})
    server.deliver()
    told = 'pv "made" node affinity doesn\'t match node "a": no matching NodeSelectorTerms'
    assert check(cluster, assumed, server) == failed(told)


async def test_a_claim_that_is_gone_ends_the_wait_for_its_volume():
    server, cluster, assumed = await waiting_for(claim("data"), plan="dynamic")
    cluster.storage.remove(server.claim("data"))
    told = 'failed to check provisioning pvc: persistentvolumeclaims "default/data" not found'
    assert check(cluster, assumed, server) == failed(told)


async def test_a_rebuild_is_done_as_soon_as_its_new_node_is_seen():
    old = claim("data", volume="pv-1", selected_node="gone")
    server, cluster, assumed = await waiting_for(old, volume("pv-1", claim="default/data"), plan="dynamic")
    assert check(cluster, assumed, server) is None
    server.deliver()
    assert check(cluster, assumed, server) == SUCCESS


async def test_a_rebuild_whose_volume_cannot_go_there_fails():
    old = claim("data", volume="pv-1", selected_node="gone")
    server, cluster, assumed = await waiting_for(old, volume("pv-1", claim="default/data", on="b"), plan="dynamic")
    server.deliver()
    told = 'pv "pv-1" node affinity doesn\'t match node "a": no matching NodeSelectorTerms'
    assert check(cluster, assumed, server) == failed(told)


async def test_a_node_that_is_gone_is_told_before_a_pod_that_is():
    server, cluster, assumed = await waiting_for(claim("data"), plan="dynamic")
    server.deleted_pods.add("default/web")
    assert check(cluster, assumed, server) == failed('pod does not exist any more: pod "web" not found')
    cluster.remove_node("a")
    assert check(cluster, assumed, server) == failed('failed to get node "a": node "a" not found')


def test_the_server_of_these_tests_is_an_api_as_bindings_know_it():
    server, _ = world()
    api: Api = server
    assert api is server
