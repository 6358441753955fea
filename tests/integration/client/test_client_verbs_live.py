"""Every verb of the client against the embedded server, over TLS, with its refusals in full."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.leader import LeaderElector
from tonnage.client.leadership import Leadership
from tonnage.client.recorder import Recorder
from tonnage.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound, TooManyRequests, Unauthorized
from tonnage.objects.codec import WatchChange, decode_event
from tonnage.objects.core_v1 import ConfigMap, Node, Pod
from tonnage.objects.document import Doc
from tonnage.objects.events_v1 import Event
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.resources import BY_PLURAL
from tonnage.objects.small_groups import Lease


@pytest.fixture
async def client(tmp_path) -> AsyncIterator[Client]:
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig), rng=random.Random(1), user_agent="tests/1") as client,
    ):
        yield client


def pod(name: str, **labels: str) -> Doc:
    meta = {"namespace": "default", "name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_create_get_update_delete_of_a_typed_object(client):
    made = await client.create(ConfigMap(metadata=ObjectMeta(namespace="default", name="a"), data={"k": "1"}))
    assert made.uid and made.data == {"k": "1"}
    assert await client.get(ConfigMap, "default/a") == made
    wanted = ConfigMap(metadata=made.metadata, data={"k": "2"})
    changed = await client.update(wanted)
    assert changed.data == {"k": "2"} and changed.uid == made.uid
    await client.delete(ConfigMap, "default/a")
    with pytest.raises(NotFound) as caught:
        await client.get(ConfigMap, "default/a")
    assert (caught.value.message, caught.value.kind, caught.value.name) == (
        'configmaps "a" not found',
        "configmaps",
        "a",
    )


async def test_an_update_of_an_older_state_is_a_conflict(client):
    made = await client.create(ConfigMap(metadata=ObjectMeta(namespace="default", name="a")))
    await client.patch(ConfigMap, "default/a", {"data": {"k": "1"}})
    with pytest.raises(Conflict) as caught:
        await client.update(made)
    assert caught.value.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )
    with pytest.raises(AlreadyExists) as exists:
        await client.create(ConfigMap(metadata=ObjectMeta(namespace="default", name="a")))
    assert exists.value.message == 'configmaps "a" already exists'


async def test_what_is_wrong_is_told_with_its_fields(client):
    with pytest.raises(Invalid) as caught:
        await client.create_doc({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "Not A Name"}})
    assert caught.value.kind == "Node" and caught.value.causes[0].field == "metadata.name"
    assert caught.value.message.startswith('Node "Not A Name" is invalid: metadata.name: Invalid value: "Not A Name"')
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.nope"):
        await client.list(Node, field_selector="spec.nope=1")


async def test_patches_of_all_four_kinds(client):
    await client.create_doc(pod("a"))
    assert (await client.patch(Pod, "default/a", {"metadata": {"labels": {"x": "1"}}})).metadata.labels == {"x": "1"}
    operations = [{"op": "replace", "path": "/metadata/labels/x", "value": "2"}]
    assert (await client.patch(Pod, "default/a", operations, patch_type="json")).metadata.labels == {"x": "2"}
    finalizers = {"metadata": {"finalizers": ["example.com/a"]}}
    for name in ("example.com/a", "example.com/b"):
        finalizers = {"metadata": {"finalizers": [name]}}
        patched = await client.patch(Pod, "default/a", finalizers, patch_type="strategic")
    assert set(patched.metadata.finalizers) == {"example.com/a", "example.com/b"}  # merged, and not replaced
    wanted = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"y": "3"}}}
    applied = await client.patch(Pod, "default/a", wanted, patch_type="apply", field_manager="tests")
    assert applied.metadata.labels == {"x": "2", "y": "3"}


async def test_a_status_is_patched_on_its_own(client):
    await client.create_doc(pod("a"))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    patched = await client.patch(
        Pod, "default/a", {"status": {"conditions": [condition]}}, patch_type="strategic", subresource="status"
    )
    assert patched.status.conditions[0].message == "0/1 nodes"
    await client.create(Node(metadata=ObjectMeta(name="n1")))
    node = await client.get_doc(Node, "n1")
    updated = await client.update_doc({**node, "status": {"capacity": {"cpu": "4"}}}, subresource="status")
    assert updated["status"]["capacity"] == {"cpu": "4"}


async def test_a_pod_is_bound_once_and_only_in_the_life_that_is_meant(client):
    made = await client.create_doc(pod("a"))
    with pytest.raises(Conflict):
        await client.bind("default/a", "n1", uid="somebody-else")
    await client.bind("default/a", "n1", uid=made["metadata"]["uid"])
    assert (await client.get(Pod, "default/a")).spec.node_name == "n1"
    with pytest.raises(Conflict) as caught:
        await client.bind("default/a", "n2")
    assert 'pod a is already assigned to node "n1"' in caught.value.message


async def test_an_eviction_asks_the_budget(client):
    await client.create_doc(pod("free"))
    await client.evict("default/free")
    with pytest.raises(NotFound):
        await client.get(Pod, "default/free")
    await client.create_doc(pod("held", app="db"))
    await client.patch(
        Pod,
        "default/held",
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        subresource="status",
    )
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}
    await client.create_doc({**budget, "metadata": {"namespace": "default", "name": "db"}, "spec": spec})
    with pytest.raises(TooManyRequests) as caught:
        await client.evict("default/held")
    assert caught.value.message


async def test_evictions_at_the_same_time_are_charged_one_after_the_other(client):
    names = [f"held-{number}" for number in range(6)]
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for name in names:
        await client.create_doc(pod(name, app="web"))
        await client.patch(Pod, f"default/{name}", {"status": ready}, subresource="status")
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    made = await client.create_doc({**budget, "metadata": {"namespace": "default", "name": "web"}, "spec": spec})
    status = {"observedGeneration": 1, "disruptionsAllowed": 5, "currentHealthy": 6, "desiredHealthy": 1}
    await client.update_doc({**made, "status": {**status, "expectedPods": 6}}, subresource="status")
    answers = await asyncio.gather(*(client.evict(f"default/{name}") for name in names), return_exceptions=True)
    # Six are asked for and five may go: one is refused by the numbers, none because another was just being counted.
    refused = [str(each) for each in answers if each is not None]
    assert refused == ["Cannot evict pod as it would violate the pod's disruption budget."]
    left = await client.get_doc(BY_PLURAL["policy", "poddisruptionbudgets"], "default/web")
    assert (left["status"]["disruptionsAllowed"], len(left["status"]["disruptedPods"])) == (0, 5)


async def test_deletion_with_preconditions(client):
    made = await client.create_doc(pod("a"))
    with pytest.raises(Conflict, match="the UID in the precondition"):
        await client.delete(Pod, "default/a", uid="another")
    await client.delete(Pod, "default/a", uid=made["metadata"]["uid"], grace_s=0, propagation="Background")
    with pytest.raises(NotFound):
        await client.get_doc(Pod, "default/a")


async def test_lists_by_selector_namespace_and_page(client):
    for number in range(7):
        await client.create_doc(pod(f"p{number}", half=str(number % 2)))
    odd = await client.list(Pod, namespace="default", label_selector="half=1", page_size=2)
    assert [item.name for item in odd.items] == ["p1", "p3", "p5"]
    assert odd.resource_version
    assert len((await client.list(Pod, page_size=3)).items) == 7
    assert (await client.list(Pod, namespace="elsewhere")).items == ()
    docs = await client.list_docs(Pod, field_selector="metadata.name=p3")
    assert [(doc["apiVersion"], doc["kind"], doc["metadata"]["name"]) for doc in docs] == [("v1", "Pod", "p3")]


async def test_documents_keep_the_fields_that_nobody_models(client):
    made = await client.create_doc(pod("a"))
    assert made["spec"]["containers"][0]["terminationMessagePath"] == "/dev/termination-log"
    assert made["metadata"]["managedFields"][0]["manager"] == "tests"
    claims = BY_PLURAL["", "persistentvolumeclaims"]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    await client.create_doc({**head, "metadata": {"namespace": "default", "name": "c"}, "spec": spec})
    patched = await client.patch_doc(claims, "default/c", {"metadata": {"annotations": {"a": "b"}}})
    assert patched["metadata"]["annotations"] == {"a": "b"}
    await client.delete(claims, "default/c")


async def test_a_watch_tells_and_a_raw_path_answers(client):
    assert b"gitVersion" in await client.raw("GET", "/version")
    assert await client.raw("GET", "/readyz") == b"ok"
    await client.create_doc(pod("a"))
    async with client.watch(Pod, send_initial_events=True, timeout_s=60) as lines:
        async for batch in lines:
            events = [decode_event(Pod, line) for line in batch]
            break
    assert isinstance(events[0], WatchChange) and (events[0].type, events[0].object.key) == ("ADDED", "default/a")


async def test_a_wrong_token_is_turned_away(tmp_path):
    async with serve(ServerSettings(data_dir=tmp_path, port=0)) as server:
        text = server.kubeconfig.read_text().replace(server.token, "wrong")
        wrong = tmp_path / "wrong"
        wrong.write_text(text)
        async with Client.connect(kubeconfig.load(wrong)) as client:
            with pytest.raises(Unauthorized, match="Unauthorized"):
                await client.list(Node)


async def test_events_are_written_as_a_series(client):
    made = await client.create(Node(metadata=ObjectMeta(name="n1")))
    async with Recorder(client, "tonnage-tests", "tonnage-tests-1") as recorder:
        for _ in range(4):
            recorder.event(made, "Warning", "FailedScheduling", "Scheduling", "x" * 2000)
    (event,) = (await client.list(Event, namespace="default", field_selector="reason=FailedScheduling")).items
    assert event.series is not None and event.series.count == 4
    assert event.note == "x" * 1020 + " ..." and event.regarding.name == "n1"
    assert (recorder.dropped, recorder.abandoned) == (0, 0)


async def test_a_lease_is_taken_held_and_let_go(client):
    seen: list[Lease] = []

    async def work() -> None:
        seen.append(await client.get(Lease, "default/tests"))

    await LeaderElector(client, "default/tests", Leadership("me", clock=client.clock)).run(work)
    assert seen[0].spec.holder_identity == "me" and seen[0].spec.lease_duration_seconds == 15
    after = await client.get(Lease, "default/tests")
    assert after.spec.holder_identity == "" and after.spec.lease_duration_seconds == 1
