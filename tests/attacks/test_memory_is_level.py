"""Memory is level after churn: what was made and deleted leaves nothing behind in a program.

Counted are live objects and the entries of their containers, as the garbage collector knows them, never bytes of the
process: an allocator keeps pages for reasons of its own. `make soak` looks at those (docs/soak.md). What a recorder of
events remembers is tested in tests/unit/client/test_event_correlation.py.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import _lru_cache_wrapper
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import pytest

from support.compaction import compact
from support.configurations import storage_configuration
from support.definition_builders import definition
from support.eventually import eventually_async
from support.informed_engine import InformedEngine
from support.virtual_clock import VirtualClock
from tonnage.apiserver.bootstrap import EventExpiry
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.clock import SystemClock
from tonnage.documents.access.attributes import Attributes
from tonnage.documents.access.policy import AccessPolicy
from tonnage.errors import NotFound
from tonnage.objects.core_v1 import ConfigMap, Pod
from tonnage.objects.document import encode
from tonnage.objects.users import User
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.engine import Engine
from tonnage.store.records import StoreEvent
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

_CONTAINERS: Final = (dict, list, set, deque, OrderedDict, defaultdict, Counter)
_BOUNDED: Final[list[_lru_cache_wrapper[Any]]] = []
"""Every `lru_cache` that has a bound: it is emptied before anything is counted."""


@pytest.fixture(autouse=True)
def others_are_not_counted() -> Iterator[None]:
    """What was there before a test is neither looked through nor counted: it may be much."""
    gc.unfreeze()  # what tests/conftest.py has frozen; it may hold caches
    gc.collect()
    caches = (each for each in gc.get_objects() if type(each) is _lru_cache_wrapper)
    _BOUNDED[:] = [each for each in caches if each.cache_parameters()["maxsize"] is not None]
    gc.freeze()
    yield
    _BOUNDED.clear()


def live() -> Counter[str]:
    """Live objects by type, and under `entries` how much all containers hold."""
    for each in _BOUNDED:
        each.cache_clear()
    gc.collect()
    counts: Counter[str] = Counter()
    for each in gc.get_objects():
        counts[f"{type(each).__module__}.{type(each).__qualname__}"] += 1
        if type(each) in _CONTAINERS:
            counts["entries"] += len(each)
    return counts


async def left_behind(churn: Callable[[int], Awaitable[None]], rounds: int) -> dict[str, int]:
    """Types of which every second round leaves one behind, or more. `churn` plays one round.

    The first rounds fill what is filled once. Then twice as many are counted as are asked for, in two halves: whatever
    is left behind round by round grows in both.
    """
    counts = []
    numbers = count()
    for _ in range(3):
        for number in islice(numbers, rounds):
            await churn(number)
        counts.append(live())
        counts[-1]["entries"] -= sum(map(len, counts[:-1]))
    before, between, after = counts
    return {name: number for name, number in ((between - before) & (after - between)).items() if number >= rounds / 2}


async def test_decisions_about_namespaces_that_come_and_go_are_not_kept() -> None:
    """Programs ask in every namespace there is; one without bindings of its own says nothing new."""
    rules = [{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}]
    role = {"kind": "ClusterRole", "name": "reader"}
    policy = AccessPolicy()
    policy.put_role({"metadata": {"name": "reader"}, "rules": rules})
    policy.put_binding({"metadata": {"name": "b"}, "roleRef": role, "subjects": [{"kind": "User", "name": "jane"}]})

    def may(user: str, namespace: str) -> bool:
        asked = (Attributes(User(user), verb, resource="pods", namespace=namespace) for verb in ("get", "list"))
        return all(policy.authorize(each).allowed for each in asked)

    async def churn(number: int) -> None:
        assert may("jane", f"n-{number}")
        assert not may("joe", f"n-{number}")

    assert await left_behind(churn, 100) == {}
    # A binding of the namespace itself is in force at once, and gone at once.
    home, joe = {"name": "own", "namespace": "n-7"}, {"kind": "User", "name": "joe"}
    policy.put_binding({"metadata": home, "roleRef": role, "subjects": [joe]})
    assert (may("joe", "n-7"), may("joe", "n-8"), may("jane", "n-7")) == (True, False, True)
    policy.drop_binding("n-7", "own")
    assert not may("joe", "n-7")


async def test_an_api_server_is_as_it_was_after_objects_came_and_went(tmp_path: Path) -> None:
    async with serve(ServerSettings(data_dir=tmp_path / "data", port=0)) as server:
        store = server.registry.store
        store._feed.options = replace(store._feed.options, window_events=16)  # 4,096 would have to come first
        async with Client.connect(kubeconfig.load(server.kubeconfig)) as client:

            async def churn(number: int) -> None:
                name = f"n-{number}"
                meta = {"name": name, "namespace": "default", "labels": {"of": name}}
                about = {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "default"}
                containers = [{"name": "c", "image": "busybox"}]
                await client.create_doc({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
                await client.create_doc({**about, "metadata": meta, "spec": {"containers": containers}})
                await client.create_doc(
                    {"apiVersion": "v1", "kind": "Event", "metadata": meta, "involvedObject": about}
                )
                await client.patch(Pod, f"default/{name}", {"metadata": {"annotations": {"of": name}}})
                assert len((await client.list(Pod, namespace="default", label_selector=f"of={name}")).items) == 1
                await client.delete(Pod, f"default/{name}", grace_s=0)
                await client.delete(ConfigMap, f"default/{name}")
                assert await EventExpiry(server.registry, SystemClock(), 0.0).look() == 1
                await compact(store, store.revision)

            assert await left_behind(churn, 10) == {}


async def test_custom_resources_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    """Each definition has a group of its own, and with it labels of metrics of its own."""
    definitions, widget = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {"metadata": {"name": "w"}}
    async with serve(ServerSettings(data_dir=tmp_path / "data", port=0)) as server:
        store = server.registry.store
        store._feed.options = replace(store._feed.options, window_events=16)
        async with Client.connect(kubeconfig.load(server.kubeconfig)) as client:

            async def churn(number: int) -> None:
                group = f"g{number}.example.com"
                name, path = f"widgets.{group}", f"/apis/{group}/v1/namespaces/default/widgets"
                made = definition()
                made["metadata"]["name"], made["spec"]["group"] = name, group

                async def is_gone() -> bool:
                    try:
                        await client.raw("GET", f"{definitions}/{name}")
                    except NotFound:
                        return True
                    return False

                await client.raw("POST", definitions, encode(made))
                kind = {"apiVersion": f"{group}/v1", "kind": "Widget"}
                await client.raw("POST", path, encode({**kind, **widget}))
                await client.raw("GET", path)
                await client.raw("DELETE", f"{definitions}/{name}")
                await eventually_async(is_gone, "the definition to be gone")
                await compact(store, store.revision)

            assert await left_behind(churn, 6) == {}


async def test_events_go_faster_than_a_busy_cluster_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 events whose time is over go with a few commits; with one each they took as long as 300 writes to disk."""
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default"}
    event = {"apiVersion": "v1", "kind": "Event", "involvedObject": about}
    metas = [{"name": f"e-{number}", "namespace": "default"} for number in range(300)]
    async with serve(ServerSettings(data_dir=tmp_path / "data", port=0)) as server:
        async with Client.connect(kubeconfig.load(server.kubeconfig)) as client:
            await asyncio.gather(*(client.create_doc({**event, "metadata": meta}) for meta in metas))
        commits: list[int] = []
        feed = server.registry.store._feed
        publish = feed.publish

        def published(events: list[StoreEvent]) -> None:
            commits.append(len(events))
            publish(events)

        monkeypatch.setattr(feed, "publish", published)
        assert await EventExpiry(server.registry, SystemClock(), 0.0).look() == 300
        assert sum(commits) == 300
        assert len(commits) < 50


@pytest.mark.parametrize("reservation", ["Object", "Ledger"])
async def test_a_scheduler_forgets_pods_and_their_volumes(reservation: str) -> None:
    """Pods that find room and pods that find none, each with its own labels, spread rule and sizes; then all go."""
    world, clock = InformedEngine(), VirtualClock()
    profiles = parse(storage_configuration(reservation=reservation), source="a play").profiles
    world.engine = Engine(profiles, clock=clock, rng=random.Random(1))
    world.put(storage_class(), driver(), *(node(name) for name in "ab"), *(capacity("fast", n, "50Gi") for n in "ab"))
    world.engine.open()
    stays = set(world.objects)

    async def churn(number: int) -> None:
        for name, size in ((f"fits-{number}", "7Gi"), (f"waits-{number}", f"{60 + number}Gi")):
            labels = {"app": name}
            spread = {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
            world.put(claim(f"{name}-0", size))
            asked = {"labels": labels, "spec": {"topologySpreadConstraints": [spread]}}
            world.put(pod_with(name, f"{name}-0", **asked))
        while (queued := world.engine.pop()) is not None:
            attempt = world.engine.attempt(queued)
            if attempt.placement is None:
                assert attempt.decision is not None and attempt.decision.diagnosis is not None
                plugins = attempt.decision.diagnosis.rejecting_plugins()
                world.engine.requeue(queued, queued.pod, plugins=plugins)
                continue
            name, where = queued.pod.name, attempt.placement.node
            assert name == f"fits-{number}"
            world.engine.done(queued.pod)
            world.put(claim(f"{name}-0", "7Gi", selected_node=where), volume(f"pv-{number}", "7Gi", on=where))
            world.put(claim(f"{name}-0", "7Gi", selected_node=where, volume=f"pv-{number}"))
            world.put(capacity("fast", where, "43Gi"), pod_with(name, f"{name}-0", on=where))
        for kind, key in set(world.objects) - stays:
            world.remove(kind, key)
        world.put(*(capacity("fast", n, "50Gi") for n in "ab"))
        clock.advance(700.0)
        world.engine.tick(clock.monotonic())

    assert await left_behind(churn, 20) == {}
