"""The registry of controllers, by kube-controller-manager's names, and the choice by `--controllers`.

`*` is all, `foo` this one, `-foo` all but this one, as upstream. `csi-attacher`, upstream a sidecar, calls the
configured drivers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.garbage_collector import GarbageCollector
from tonnage.controllers.namespaces.namespace_controller import NamespaceController
from tonnage.controllers.namespaces.namespace_objects import RootCACertificatePublisher, ServiceAccountController
from tonnage.controllers.namespaces.resource_quotas import ResourceQuotaController
from tonnage.controllers.nodes.node_lifecycle import NodeLifecycleConfiguration, NodeLifecycleController
from tonnage.controllers.nodes.pod_garbage_collector import DEFAULT_THRESHOLD, QUARANTINE_S, PodGCController
from tonnage.controllers.nodes.taint_eviction import TaintEvictionController
from tonnage.controllers.volumes.attach_detach import SYNC_PERIOD_S as ATTACH_SYNC_PERIOD_S
from tonnage.controllers.volumes.attach_detach import AttachDetachController
from tonnage.controllers.volumes.attacher import Attacher
from tonnage.controllers.volumes.ephemeral_claims import EphemeralVolumeController
from tonnage.controllers.volumes.persistent_volume_binder import SYNC_PERIOD_S, PersistentVolumeBinder
from tonnage.controllers.volumes.protection import AttributesClassProtection, ProtectionController
from tonnage.controllers.workloads.cron_job_controller import CronJobController
from tonnage.controllers.workloads.daemon_sets import DaemonSetController
from tonnage.controllers.workloads.deployments import DeploymentController
from tonnage.controllers.workloads.disruption import DisruptionController
from tonnage.controllers.workloads.job_controller import JobController, TTLAfterFinishedController
from tonnage.controllers.workloads.replica_sets import ReplicaSetController, ReplicationManager
from tonnage.controllers.workloads.stateful_sets import StatefulSetController
from tonnage.csi.client import CsiClient
from tonnage.errors import TonnageError, closest
from tonnage.gates import Gates


class Controller(Protocol):
    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ControllerManagerConfiguration:
    """The settings of all controllers; the defaults are kube-controller-manager's."""

    node_lifecycle: NodeLifecycleConfiguration = field(default_factory=NodeLifecycleConfiguration)
    terminated_pod_gc_threshold: int = DEFAULT_THRESHOLD
    pod_gc_quarantine_s: float = QUARANTINE_S
    """How long a node must be missing before its pods are deleted; upstream has no flag for it."""
    pvclaimbinder_sync_period_s: float = SYNC_PERIOD_S
    attach_detach_reconcile_sync_period_s: float = ATTACH_SYNC_PERIOD_S
    """0: attachments are not compared with what the drivers report."""
    force_detach_on_timeout: bool = True
    drivers: tuple[CsiClient, ...] = ()
    """Connections to the CSI drivers whose volumes are attached from here."""
    root_ca_pem: bytes = b""
    """The CA that verifies the API server's certificate; empty when the system's CAs do, or nothing is verified."""
    gates: Gates = field(default_factory=Gates)


class ControllerGroup:
    """Controllers that run as one: when one fails, all are cancelled and restarted."""

    def __init__(self, controllers: Sequence[Controller]) -> None:
        self._controllers = controllers

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(controller.run())
            await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class ControllerDescriptor:
    """One controller: `source` is the component name in its events, `aliases` are older names."""

    name: str
    aliases: tuple[str, ...]
    source: str
    build: Callable[[ControllerContext, ControllerManagerConfiguration], Controller]


def _attachers(context: ControllerContext, configuration: ControllerManagerConfiguration) -> Controller:
    """One attacher per driver; an empty group without drivers."""
    return ControllerGroup(
        [Attacher(context, driver=driver, gates=configuration.gates) for driver in configuration.drivers]
    )


def _root_ca_publisher(context: ControllerContext, configuration: ControllerManagerConfiguration) -> Controller:
    """An empty group if the cluster has no certificate authority of its own."""
    ca_pem = configuration.root_ca_pem
    return RootCACertificatePublisher(context, ca_pem) if ca_pem else ControllerGroup(())


def _row(
    name: str, alias: str, build: Callable[[ControllerContext], Controller], source: str = ""
) -> ControllerDescriptor:
    """A controller without settings; `source` defaults to its name."""
    return ControllerDescriptor(name, (alias,) if alias else (), source or name, lambda context, _: build(context))


CONTROLLERS: Final[tuple[ControllerDescriptor, ...]] = (
    ControllerDescriptor(
        "persistentvolume-binder-controller",
        ("persistentvolume-binder",),
        "persistentvolume-controller",
        lambda context, configuration: PersistentVolumeBinder(
            context, sync_period_s=configuration.pvclaimbinder_sync_period_s
        ),
    ),
    ControllerDescriptor(
        "persistentvolumeclaim-protection-controller",
        ("pvc-protection", "persistentvolume-protection-controller", "pv-protection"),
        "persistentvolumeclaim-protection-controller",
        lambda context, _: ProtectionController(context),
    ),
    _row("volumeattributesclass-protection-controller", "", AttributesClassProtection),
    _row("ephemeral-volume-controller", "ephemeral-volume", EphemeralVolumeController, "ephemeral_volume"),
    ControllerDescriptor(
        "persistentvolume-attach-detach-controller",
        ("attachdetach",),
        "attachdetach-controller",
        lambda context, configuration: AttachDetachController(
            context,
            sync_period_s=configuration.attach_detach_reconcile_sync_period_s,
            force_detach_on_timeout=configuration.force_detach_on_timeout,
        ),
    ),
    ControllerDescriptor("csi-attacher", (), "csi-attacher", _attachers),
    _row("statefulset-controller", "statefulset", StatefulSetController),
    _row("replicaset-controller", "replicaset", ReplicaSetController),
    _row("replicationcontroller-controller", "replicationcontroller", ReplicationManager, "replication-controller"),
    _row("daemonset-controller", "daemonset", DaemonSetController),
    _row("deployment-controller", "deployment", DeploymentController),
    _row("job-controller", "job", JobController),
    _row("cronjob-controller", "cronjob", CronJobController),
    _row("ttl-after-finished-controller", "ttl-after-finished", TTLAfterFinishedController),
    _row("disruption-controller", "disruption", DisruptionController, "controllermanager"),
    _row("garbage-collector-controller", "garbagecollector", GarbageCollector),
    _row("namespace-controller", "namespace", NamespaceController),
    _row("resourcequota-controller", "resourcequota", ResourceQuotaController),
    _row("serviceaccount-controller", "serviceaccount", ServiceAccountController),
    ControllerDescriptor(
        "root-ca-certificate-publisher-controller",
        ("root-ca-cert-publisher",),
        "root-ca-cert-publisher",
        _root_ca_publisher,
    ),
    ControllerDescriptor(
        "node-lifecycle-controller",
        ("nodelifecycle",),
        "node-controller",
        lambda context, configuration: NodeLifecycleController(context, configuration=configuration.node_lifecycle),
    ),
    _row("taint-eviction-controller", "", TaintEvictionController),
    ControllerDescriptor(
        "pod-garbage-collector-controller",
        ("podgc",),
        "pod-garbage-collector-controller",
        lambda context, configuration: PodGCController(
            context,
            terminated_pod_gc_threshold=configuration.terminated_pod_gc_threshold,
            quarantine_s=configuration.pod_gc_quarantine_s,
        ),
    ),
)


class UnknownController(TonnageError):
    def __init__(self, name: str) -> None:
        self.name = name
        names = [each.name for each in CONTROLLERS]
        close = closest(name, [*names, *(alias for each in CONTROLLERS for alias in each.aliases)])
        hint = f"is {close[0]} meant?" if close else f"there are: {', '.join(names)}"
        super().__init__(f'"{name}" is not in the list of known controllers', hint=hint)


def enabled_controllers(wanted: Sequence[str]) -> tuple[ControllerDescriptor, ...]:
    """The controllers that `--controllers` enables. Raises UnknownController."""
    names = {alias: each.name for each in CONTROLLERS for alias in (each.name, *each.aliases)}
    runs = {each.name: "*" in wanted for each in CONTROLLERS}
    for word in wanted:
        if word != "*":
            name = names.get(word.removeprefix("-"))
            if name is None:
                raise UnknownController(word.removeprefix("-"))
            runs[name] = not word.startswith("-")
    return tuple(each for each in CONTROLLERS if runs[each.name])
