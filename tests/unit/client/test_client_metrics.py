"""What a program's use of the API server is counted by: requests, watches, work queues, leases."""

from __future__ import annotations

import asyncio
import random

from client_wire import MemoryServer
from prometheus_client import CollectorRegistry

from support.virtual_clock import VirtualClock
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.leader import LeaderElector
from tonnage.client.leadership import Leadership
from tonnage.client.metrics import RestClientMetrics, WorkQueueMetrics, show_leadership, show_watches
from tonnage.client.reconciler import Reconciler
from tonnage.objects.core_v1 import ConfigMap


def value(registry: CollectorRegistry, metric: str, /, **labels: str) -> float | None:
    return registry.get_sample_value(metric, labels)


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name}}


# -- requests ---------------------------------------------------------------------------------------------------------


def test_requests_are_counted_by_code_method_and_host_as_client_go_does() -> None:
    registry = CollectorRegistry()
    counted = RestClientMetrics(registry).of("https://10.0.0.1:6443/with/path")
    counted("list", "pods", 200, 0.01)
    counted("watch", "pods", 200, 0.01)
    counted("create", "pods/binding", 409, 0.2)
    counted("get", "pods", 0, 1.0)
    host = {"host": "10.0.0.1:6443"}
    assert value(registry, "rest_client_requests_total", code="200", method="GET", **host) == 2.0
    assert value(registry, "rest_client_requests_total", code="409", method="POST", **host) == 1.0
    assert value(registry, "rest_client_requests_total", code="<error>", method="GET", **host) == 1.0
    assert value(registry, "rest_client_request_duration_seconds_count", verb="GET", **host) == 3.0


# -- watches ----------------------------------------------------------------------------------------------------------


async def test_a_watch_tells_how_long_it_was_silent_and_for_how_long_it_cannot_be_followed() -> None:
    server, clock, registry = MemoryServer(), VirtualClock(), CollectorRegistry()
    informers = Informers(Client(server, clock=clock, rng=random.Random(1)))
    show_watches(registry, lambda: informers)
    informers.of(ConfigMap)
    of = {"resource": "configmaps"}
    assert value(registry, "tonnage_watch_synced", **of) == 0.0
    server.write(config_map("a"))
    async with informers:
        await clock.run_for(0.0)
        assert value(registry, "tonnage_watch_synced", **of) == 1.0
        assert value(registry, "tonnage_watch_objects", **of) == 1.0
        assert value(registry, "tonnage_watch_fetches_total", **of) == 1.0
        await clock.run_for(40.0)
        assert value(registry, "tonnage_watch_silent_seconds", **of) == 40.0
        server.write(config_map("b"))
        await clock.run_for(0.0)
        assert value(registry, "tonnage_watch_silent_seconds", **of) == 0.0
        assert value(registry, "tonnage_watch_out_of_step_seconds", **of) == 0.0


async def test_a_server_that_is_away_is_told_as_watches_that_fail() -> None:
    server, clock, registry = MemoryServer(), VirtualClock(), CollectorRegistry()
    server.is_away = True
    informers = Informers(Client(server, clock=clock, rng=random.Random(1)))
    show_watches(registry, lambda: informers)
    informers.of(ConfigMap)
    async with informers:
        await clock.run_for(10.0)
        behind = value(registry, "tonnage_watch_out_of_step_seconds", resource="configmaps")
        failed = value(registry, "tonnage_watch_failures_total", resource="configmaps")
        assert behind is not None and behind > 9.0 and failed is not None and failed > 1.0


# -- work queues ------------------------------------------------------------------------------------------------------


async def test_a_queue_tells_what_waits_how_long_it_waited_and_how_long_work_takes() -> None:
    clock, registry = VirtualClock(), CollectorRegistry()
    release = asyncio.Event()

    async def reconcile(key: str) -> None:
        await release.wait()

    queues = WorkQueueMetrics(registry)
    work = Reconciler("claims", reconcile, clock=clock, workers=1, metrics=queues)
    work.add("a")
    work.add("b")
    work.add("b")
    of = {"name": "claims"}
    assert value(registry, "workqueue_adds_total", **of) == 2.0 and value(registry, "workqueue_depth", **of) == 2.0
    task = asyncio.create_task(work.run())
    await clock.run_for(30.0)
    assert value(registry, "workqueue_depth", **of) == 1.0
    assert value(registry, "workqueue_longest_running_processor_seconds", **of) == 30.0
    assert value(registry, "workqueue_unfinished_work_seconds", **of) == 30.0
    release.set()
    await clock.run_for(0.0)
    assert value(registry, "workqueue_work_duration_seconds_sum", **of) == 30.0
    assert value(registry, "workqueue_queue_duration_seconds_sum", **of) == 30.0  # b waited for a's end
    assert value(registry, "workqueue_depth", **of) == 0.0
    task.cancel()
    await asyncio.wait([task])


async def test_what_fails_is_counted_as_a_retry() -> None:
    clock, registry = VirtualClock(), CollectorRegistry()

    async def reconcile(key: str) -> None:
        raise RuntimeError("not today")

    work = Reconciler("on node-1", reconcile, clock=clock, metrics=WorkQueueMetrics(registry), queue_name="pods")
    work.add("a")
    task = asyncio.create_task(work.run())
    await clock.run_for(0.01)
    assert value(registry, "workqueue_retries_total", name="pods") == 1.0
    task.cancel()
    await asyncio.wait([task])


# -- leases -----------------------------------------------------------------------------------------------------------


async def test_the_copy_that_leads_says_so() -> None:
    server, clock, registry = MemoryServer(), VirtualClock(), CollectorRegistry()
    elector = LeaderElector(
        Client(server, clock=clock, rng=random.Random(1)),
        "kube-system/tonnage-scheduler",
        Leadership("me", clock=clock),
    )
    show_leadership(registry, lambda: (elector,))
    assert value(registry, "leader_election_master_status", name="tonnage-scheduler") == 0.0
    forever = asyncio.Event()

    async def work() -> None:
        await forever.wait()

    task = asyncio.create_task(elector.run(work))
    await clock.run_for(1.0)
    assert value(registry, "leader_election_master_status", name="tonnage-scheduler") == 1.0
    forever.set()
    await clock.run_for(1.0)
    await task
    assert value(registry, "leader_election_master_status", name="tonnage-scheduler") == 0.0
