"""The scheduler put together: client, informers, queue, loop, metrics. `tonnage scheduler` is this and a command line.

    async with Program(client, configuration, ...) as program:      # informers follow, nothing is placed yet
        await program.run()                                        # places pods until cancelled

Nothing is placed before every informer is in step: a scheduler that does not know all pods would give room away twice.
With leader election the informers follow from the start, and only the leader runs the loop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Self

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from tonnage import logs
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock
from tonnage.objects.apps_v1 import ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Namespace, Node, Pod, ReplicationController, Service
from tonnage.objects.policy_v1 import PodDisruptionBudget
from tonnage.scheduler.binding_api import LiveWorld
from tonnage.scheduler.binding_slots import Slots
from tonnage.scheduler.capacity_reservations import CapacityHolds, modes_of
from tonnage.scheduler.event_handlers import Feed
from tonnage.scheduler.loop import SchedulingLoop
from tonnage.scheduler.metrics import Meter, gauge
from tonnage.scheduler.nominations import Nominations
from tonnage.scheduler.pod_conditions import Reports
from tonnage.scheduler.pre_bind_waits import Waits
from tonnage.scheduler.preemption_executor import Preemptions
from tonnage.scheduler.preparations import Preparations
from tonnage.scheduler.waiting_pods import WaitingPods
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.storage import STORAGE_KINDS
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.engine.assumed_pods import AssumedPods
from tonnage.scheduling.engine.profiles import assemble
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue

_LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that have ended are invisible; the server need not send them."""
_SYNC_TIMEOUT_S = 120.0

_log = logs.logger("tonnage.scheduler")


class Program:
    """One scheduler, for all profiles of a configuration."""

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        clock: Clock,
        rng: random.Random,
        measures: CollectorRegistry,
        identity: str = "tonnage-scheduler",
        foreign: ForeignPlugins | None = None,
        on_synced: Callable[[], object] = lambda: None,
    ) -> None:
        self._on_synced = on_synced
        self.cluster = Cluster(clock)
        self.assumed = AssumedPods(self.cluster)
        self.profiles = {each.scheduler_name: assemble(each, rng, foreign) for each in configuration.profiles}
        self.meter = Meter(measures)
        for profile in self.profiles.values():
            self.meter.time_plugins(profile.pipeline, clock)
            self.meter.time_bindings(profile, clock)
        self.queue = SchedulingQueue(
            clock,
            {name: profile.rules for name, profile in self.profiles.items()},
            sort_key=next(iter(self.profiles.values())).sort_key,
            initial_backoff_s=float(configuration.pod_initial_backoff_seconds),
            max_backoff_s=float(configuration.pod_max_backoff_seconds),
            on_queued=lambda queued, queue, why: self.meter.incoming(queued, str(queue), why),
            on_plugin_error=lambda plugin, queued, exc: _log.error(
                "A plugin failed", plugin=plugin, pod=queued.info.key, error=repr(exc)
            ),
        )
        self.recorder = Recorder(client, configuration.profiles[0].scheduler_name, identity)
        self.informers = Informers(client)
        self._pods = self.informers.of(Pod, field_selector=_LIVE_PODS)
        self.holds = CapacityHolds(self.cluster, self.queue, modes_of(configuration.profiles))
        self.waits = Waits(clock)
        self.slots = Slots()
        self._waiting = WaitingPods()
        self._follow(
            Feed(
                self.cluster,
                self.assumed,
                self.queue,
                self.profiles.keys(),
                on_change=self.waits.changed,
                on_pod_gone=self._pod_gone,
            )
        )
        events, newest, preparations = self.recorder, self._pods.get, Preparations()
        is_shown = configuration.profiles[0].gates.NominatedNodeNameForExpectation
        nominations = Nominations(client, newest, is_shown=is_shown)
        self.loop = SchedulingLoop(
            cluster=self.cluster,
            assumed=self.assumed,
            queue=self.queue,
            profiles=self.profiles,
            api=LiveWorld(client, self.waits, events, self.meter, newest),
            reports=Reports(client, events, clock),
            meter=self.meter,
            clock=clock,
            newest=newest,
            nominations=nominations,
            waiting=self._waiting,
            preparations=preparations,
            preemptions=Preemptions(
                client,
                events,
                queue=self.queue,
                nominations=nominations,
                waiting=self._waiting,
                preparations=preparations,
                waits=self.waits,
                slots=self.slots,
                meter=self.meter,
                clock=clock,
                newest=newest,
            ),
            slots=self.slots,
            on_second=self._each_second,
        )
        self.meter.watch(self._state)
        self.meter.watch(self.holds.families)

    def _follow(self, feed: Feed) -> None:
        """Nodes first, so that residents find their rows; order is a courtesy, orphans are adopted either way."""
        of: Any = self.informers.of
        of(Node).add_handlers(on_add=feed.node_added, on_update=feed.node_updated, on_delete=feed.node_deleted)
        self._pods.add_handlers(on_add=feed.pod_added, on_update=feed.pod_updated, on_delete=feed.pod_deleted)
        _put(of(Namespace), feed.namespace_put, feed.namespace_deleted)
        _put(of(PodDisruptionBudget), feed.budget_put, feed.budget_deleted)
        _put(of(Service), feed.service_put, feed.service_deleted)
        for owner in (ReplicaSet, StatefulSet, ReplicationController):
            _put(of(owner), feed.owner_put, feed.owner_deleted)
        for kind in STORAGE_KINDS:
            of(kind).add_handlers(
                on_add=feed.storage_added, on_update=feed.storage_updated, on_delete=feed.storage_deleted
            )

    def _pod_gone(self, uid: str) -> None:
        self.holds.pod_gone(uid)
        self._waiting.pod_gone(uid)

    def _each_second(self, now_s: float) -> None:
        self.holds.expire(now_s)
        self.waits.sweep()

    async def __aenter__(self) -> Self:
        for profile in self.profiles.values():
            for plugin, why in profile.left_out.items():
                _log.info("A plugin does not take part", profile=profile.scheduler_name, plugin=plugin, reason=why)
        self.recorder.start()
        self.informers.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.informers.stop()
        await self.recorder.stop()

    @property
    def is_synced(self) -> bool:
        return self.informers.are_synced

    async def run(self) -> None:
        """Place pods until cancelled; what is being written then is finished first."""
        await self.informers.wait_synced(timeout_s=_SYNC_TIMEOUT_S)
        self._on_synced()
        self.holds.open()
        _log.info("Scheduling", nodes=self.cluster.count, profiles=",".join(self.profiles))
        await self.loop.run()

    def _state(self) -> Iterable[Metric]:
        """Gauges, as they stand when somebody looks."""
        pending = {(str(queue),): float(count) for queue, count in self.queue.pending_pods().items()}
        refusals = {key: float(count) for key, count in self.queue.refusals().items()}
        sizes = {
            ("nodes",): float(self.cluster.count),
            ("pods",): float(sum(map(len, self.cluster.residents))),
            ("assumed_pods",): float(len(self.assumed)),
        }
        bindings = {("calling",): float(self.slots.taken), ("waiting",): float(self.slots.resting)}
        return (
            gauge("scheduler_pending_pods", "Pods that wait, by queue.", ("queue",), pending),
            gauge(
                "scheduler_unschedulable_pods", "Pods a plugin stands in the way of.", ("plugin", "profile"), refusals
            ),
            gauge("scheduler_cache_size", "What the scheduler knows of.", ("type",), sizes),
            gauge("scheduler_bindings", "Pods that are being bound, by what is done for them.", ("state",), bindings),
        )


def _put(informer: Any, put: Any, gone: Any) -> None:
    informer.add_handlers(on_add=put, on_update=lambda old, new: put(new), on_delete=gone)
