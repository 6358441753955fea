"""All controllers there are, by kube-controller-manager's names, and which of them are to run.

`--controllers` reads as it does there: `*` is all of them, `foo` this one, `-foo` all but this one; the last word about
a name counts, and old names (`nodelifecycle`) are understood. Without `*`, only those named run. One is not
kube-controller-manager's: `csi-attacher`, a sidecar elsewhere, which speaks to the drivers that are named.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock
from tonnage.controllers.garbage.garbage_collector import GarbageCollector
from tonnage.controllers.garbage.namespaces import Namespaces
from tonnage.controllers.nodes.node_lifecycle import NodeLifecycle, NodeTimes
from tonnage.controllers.nodes.pod_garbage_collector import DEFAULT_THRESHOLD, QUARANTINE_S, PodGarbage
from tonnage.controllers.nodes.taint_eviction import TaintEviction
from tonnage.controllers.volumes.attach_detach import SYNC_PERIOD_S as ATTACH_SYNC_PERIOD_S
from tonnage.controllers.volumes.attach_detach import Attachments
from tonnage.controllers.volumes.attacher import Attacher
from tonnage.controllers.volumes.ephemeral_claims import EphemeralClaims
from tonnage.controllers.volumes.persistent_volume_binder import SYNC_PERIOD_S, ClaimBinder
from tonnage.controllers.volumes.protection import Protection
from tonnage.controllers.workloads.deployments import Deployments
from tonnage.controllers.workloads.disruption import Disruption
from tonnage.controllers.workloads.replica_sets import ReplicaSets
from tonnage.controllers.workloads.stateful_sets import StatefulSets
from tonnage.csi.client import CsiClient
from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.suggestions import closest


class Controller(Protocol):
    """Something that works until it is cancelled."""

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be said about the controllers; the defaults are kube-controller-manager's."""

    node_times: NodeTimes = field(default_factory=NodeTimes)
    terminated_pod_gc_threshold: int = DEFAULT_THRESHOLD
    pod_gc_quarantine_s: float = QUARANTINE_S
    """How long a node must be missing before its pods are deleted; upstream has no flag for it."""
    pvclaimbinder_sync_period_s: float = SYNC_PERIOD_S
    attach_detach_reconcile_sync_period_s: float = ATTACH_SYNC_PERIOD_S
    """0: attachments are not compared with what is really attached."""
    force_detach_on_timeout: bool = True
    drivers: tuple[CsiClient, ...] = ()
    """Ways to the drivers whose volumes are attached from here."""
    gates: Gates = field(default_factory=Gates)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a controller is built from."""

    client: Client
    informers: Informers
    recorder: Recorder
    clock: Clock
    rng: random.Random
    settings: Settings

    def build(self, cls: Callable[..., Controller], **options: Any) -> Controller:
        return cls(self.client, self.informers, self.recorder, clock=self.clock, rng=self.rng, **options)

    def build_attachers(self) -> Controller:
        """One for each driver; without any, one that has nothing to do."""
        options = {"gates": self.settings.gates}
        return Together([self.build(Attacher, driver=driver, **options) for driver in self.settings.drivers])


class Together:
    """Controllers that live as one: when one of them breaks, all are started anew."""

    def __init__(self, controllers: Sequence[Controller]) -> None:
        self._controllers = controllers

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(controller.run())
            await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class Row:
    """One controller: `source` is whom its events come from, `aliases` are older names."""

    name: str
    aliases: tuple[str, ...]
    source: str
    build: Callable[[Parts], Controller]


ROSTER: Final[tuple[Row, ...]] = (
    Row(
        "persistentvolume-binder-controller",
        ("persistentvolume-binder",),
        "persistentvolume-controller",
        lambda parts: parts.build(ClaimBinder, sync_period_s=parts.settings.pvclaimbinder_sync_period_s),
    ),
    Row(
        "persistentvolumeclaim-protection-controller",
        ("pvc-protection", "persistentvolume-protection-controller", "pv-protection"),
        "persistentvolumeclaim-protection-controller",
        lambda parts: parts.build(Protection),
    ),
    Row(
        "ephemeral-volume-controller",
        ("ephemeral-volume",),
        "ephemeral_volume",
        lambda parts: parts.build(EphemeralClaims),
    ),
    Row(
        "persistentvolume-attach-detach-controller",
        ("attachdetach",),
        "attachdetach-controller",
        lambda parts: parts.build(
            Attachments,
            sync_period_s=parts.settings.attach_detach_reconcile_sync_period_s,
            force_detach_on_timeout=parts.settings.force_detach_on_timeout,
        ),
    ),
    Row(
        "csi-attacher",
        (),
        "csi-attacher",
        Parts.build_attachers,
    ),
    Row(
        "statefulset-controller",
        ("statefulset",),
        "statefulset-controller",
        lambda parts: parts.build(StatefulSets),
    ),
    Row(
        "replicaset-controller",
        ("replicaset",),
        "replicaset-controller",
        lambda parts: parts.build(ReplicaSets),
    ),
    Row(
        "deployment-controller",
        ("deployment",),
        "deployment-controller",
        lambda parts: parts.build(Deployments),
    ),
    Row(
        "disruption-controller",
        ("disruption",),
        "controllermanager",
        lambda parts: parts.build(Disruption),
    ),
    Row(
        "garbage-collector-controller",
        ("garbagecollector",),
        "garbage-collector-controller",
        lambda parts: parts.build(GarbageCollector),
    ),
    Row(
        "namespace-controller",
        ("namespace",),
        "namespace-controller",
        lambda parts: parts.build(Namespaces),
    ),
    Row(
        "node-lifecycle-controller",
        ("nodelifecycle",),
        "node-controller",
        lambda parts: parts.build(NodeLifecycle, times=parts.settings.node_times),
    ),
    Row(
        "taint-eviction-controller",
        (),
        "taint-eviction-controller",
        lambda parts: parts.build(TaintEviction),
    ),
    Row(
        "pod-garbage-collector-controller",
        ("podgc",),
        "pod-garbage-collector-controller",
        lambda parts: parts.build(
            PodGarbage,
            terminated_pod_gc_threshold=parts.settings.terminated_pod_gc_threshold,
            quarantine_s=parts.settings.pod_gc_quarantine_s,
        ),
    ),
)


class UnknownController(TonnageError):
    """`--controllers` names something that there is not."""

    def __init__(self, name: str) -> None:
        self.name = name
        names = [row.name for row in ROSTER]
        close = closest(name, [*names, *(alias for row in ROSTER for alias in row.aliases)])
        hint = f"is {close[0]} meant?" if close else f"there are: {', '.join(names)}"
        super().__init__(f'"{name}" is not in the list of known controllers', hint=hint)


def chosen(wanted: Sequence[str]) -> tuple[Row, ...]:
    """The controllers that `--controllers` asks for. Raises UnknownController."""
    names = {alias: row.name for row in ROSTER for alias in (row.name, *row.aliases)}
    runs = {row.name: "*" in wanted for row in ROSTER}
    for word in wanted:
        if word != "*":
            name = names.get(word.removeprefix("-"))
            if name is None:
                raise UnknownController(word.removeprefix("-"))
            runs[name] = not word.startswith("-")
    return tuple(row for row in ROSTER if runs[row.name])
