"""A live cluster as rows: a user with few rights sees what those allow, a server that goes and comes back is told."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually_async
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.config.connection import Impersonation
from tonnage.client.http import Client
from tonnage.clock import SystemClock
from tonnage.dashboard.follow import live_cluster
from tonnage.dashboard.follow.live_cluster import LiveCluster
from tonnage.dashboard.wire import LaneRow, NodeRow, NoticeRow, PodRow, VolumeRow
from tonnage.errors import Forbidden
from tonnage.objects.core_v1 import Event, ObjectReference
from tonnage.objects.meta import StampedMeta
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import claim, pod_with

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop"


def connected(path: Path, *, user: str = "") -> Any:
    connection = kubeconfig.load(path)
    if user:
        connection = dataclasses.replace(
            connection, user=dataclasses.replace(connection.user, impersonation=Impersonation(user=user))
        )
    return Client.connect(connection, clock=SystemClock(), user_agent="test")


async def post(client: Client, path: str, **doc: Any) -> None:
    await client.raw("POST", path, json.dumps(doc).encode())


async def allow_in_shop(client: Client, user: str) -> None:
    """Let a user read pods and claims of namespace shop, and nothing else."""
    rule = {"apiGroups": [""], "resources": ["pods", "persistentvolumeclaims"], "verbs": ["list", "watch"]}
    await post(client, f"{ROLES}/roles", metadata={"name": "look"}, rules=[rule])
    who = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]
    of = {"kind": "Role", "name": "look", "apiGroup": "rbac.authorization.k8s.io"}
    await post(client, f"{ROLES}/rolebindings", metadata={"name": "look"}, roleRef=of, subjects=who)


async def test_a_user_with_rights_in_one_namespace_sees_that_and_is_told_of_the_rest(tmp_path: Path):
    async with serve(ServerSettings(data_dir=tmp_path, port=0)) as server, connected(server.kubeconfig) as admin:
        await post(admin, "/api/v1/namespaces", metadata={"name": "shop"})
        await admin.create(node("a"))
        await admin.create(claim("data", namespace="shop", metadata={"uid": "", "resourceVersion": ""}))
        await admin.create(pod_with("db-0", "data", namespace="shop"))
        await admin.create(pod("web", namespace="default"))
        await allow_in_shop(admin, "anna")
        async with (
            connected(server.kubeconfig, user="anna") as client,
            LiveCluster(client, namespace="shop") as cluster,
        ):
            await cluster.wait_first(20)
            assert list(cluster.collections.of(PodRow)) == ["shop/db-0"]
            assert cluster.collections.of(VolumeRow)["shop/data"].pods == ("shop/db-0",)
            notices = cluster.collections.of(NoticeRow)
            assert notices["nodes"].text.startswith("Node objects may not be read: ")
            assert "pods" not in notices and "server" not in notices
            try:
                await cluster.state()
            except Forbidden as exc:
                assert "nodes" in exc.message  # as the commands say: without nodes there is no answer
            else:
                raise AssertionError("it was answered without nodes")
        async with connected(server.kubeconfig) as client, LiveCluster(client) as cluster:
            await cluster.wait_first(20)
            assert {*cluster.collections.of(PodRow)} == {"shop/db-0", "default/web"}
            told = cluster.collections.of(NoticeRow)
            assert [(topic, row.severity) for topic, row in told.items()] == [("scheduler", "info")]
            assert told["scheduler"].text.startswith("Not connected to the scheduler")
            state = await cluster.state(with_workloads=True)
            assert {each.key for each in state.objects} >= {"a", "shop/db-0", "default/web", "shop/data"}
            assert any("Not connected to the scheduler" in note for note in state.notes)


async def test_a_server_that_goes_is_told_and_when_it_is_back_rows_follow_it_again(tmp_path: Path):
    async with serve(ServerSettings(data_dir=tmp_path, port=0)) as server:
        port = int(server.url.rpartition(":")[2])
        client = await connected(server.kubeconfig).__aenter__()
        cluster = await LiveCluster(client).__aenter__()
        await client.create(node("a"))
        await eventually_async(lambda: "a" in cluster.collections.of(NodeRow))
        await client.create(pod("web"))
        made = await client.get(type(pod("web")), "default/web")
        await client.create(
            Event(
                metadata=StampedMeta(name="e", namespace="default"),
                involved_object=ObjectReference(kind="Pod", namespace="default", name="web", uid=made.uid),
                reason="BackOff",
                message="Back-off pulling image",
            )
        )
        await eventually_async(
            lambda: (
                [step.kind for lane in cluster.collections.of(LaneRow).values() for step in lane.steps]
                == ["created", "event"]
            )
        )
    await eventually_async(lambda: "server" in cluster.collections.of(NoticeRow))
    assert "does not answer" in cluster.collections.of(NoticeRow)["server"].text
    assert "a" in cluster.collections.of(NodeRow)  # what was true is shown still
    async with serve(ServerSettings(data_dir=tmp_path, port=port)):
        await eventually_async(lambda: "server" not in cluster.collections.of(NoticeRow))
        await client.create(node("b"))
        await eventually_async(lambda: "b" in cluster.collections.of(NodeRow))
        await cluster.__aexit__(None, None, None)
        await client.close()


@pytest.mark.slow
async def test_what_may_not_be_read_any_more_is_not_shown_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_cluster, "FORGET_S", 0.0)
    monkeypatch.setattr(live_cluster, "ASK_S", 0.3)
    async with serve(ServerSettings(data_dir=tmp_path, port=0)) as server, connected(server.kubeconfig) as admin:
        port = int(server.url.rpartition(":")[2])
        await post(admin, "/api/v1/namespaces", metadata={"name": "shop"})
        await admin.create(claim("data", namespace="shop", metadata={"uid": "", "resourceVersion": ""}))
        await admin.create(pod_with("db-0", "data", namespace="shop"))
        await allow_in_shop(admin, "anna")
        client = await connected(server.kubeconfig, user="anna").__aenter__()
        cluster = await LiveCluster(client, namespace="shop").__aenter__()
        pods, lanes = cluster.collections.of(PodRow), cluster.collections.of(LaneRow)
        await eventually_async(lambda: "shop/db-0" in pods and bool(lanes))
        await admin.raw("DELETE", f"{ROLES}/rolebindings/look")
    async with serve(ServerSettings(data_dir=tmp_path, port=port)), connected(server.kubeconfig) as admin:
        await eventually_async(lambda: not pods and not lanes and not cluster.collections.of(VolumeRow))
        assert not list(cluster.objects())
        assert cluster.collections.of(NoticeRow)["pods"].text.startswith(
            "Pod objects may not be read in namespace shop"
        )
        await admin.raw("DELETE", f"{ROLES}/roles/look")
        await allow_in_shop(admin, "anna")
        await eventually_async(lambda: "shop/db-0" in pods and bool(lanes), within_s=60)
        assert [step.kind for lane in lanes.values() for step in lane.steps] == ["created"]  # it was never deleted
        await cluster.__aexit__(None, None, None)
        await client.close()
