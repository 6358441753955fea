"""The registry of controllers, by kube-controller-manager's names, and the choice by `--controllers`.

`*` is all, `foo` this one, `-foo` all but this one, as upstream. `csi-attacher`, upstream a sidecar, calls the
configured drivers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.garbage_collector import GarbageCollector
from tonnage.controllers.namespaces.namespace_controller import NamespaceController
from tonnage.controllers.namespaces.namespace_objects import RootCACertificatePublisher, ServiceAccountController
from tonnage.controllers.namespaces.resource_quotas import ResourceQuotaController
from tonnage.controllers.nodes.node_lifecycle import NodeLifecycleController
from tonnage.controllers.nodes.pod_garbage_collector import PodGCController
from tonnage.controllers.nodes.taint_eviction import TaintEvictionController
from tonnage.controllers.volumes.attach_detach import AttachDetachController
from tonnage.controllers.volumes.attacher import Attacher
from tonnage.controllers.volumes.ephemeral_claims import EphemeralVolumeController
from tonnage.controllers.volumes.persistent_volume_binder import PersistentVolumeBinder
from tonnage.controllers.volumes.protection import AttributesClassProtection, ProtectionController
from tonnage.controllers.workloads.cron_job_controller import CronJobController
from tonnage.controllers.workloads.daemon_sets import DaemonSetController
from tonnage.controllers.workloads.deployments import DeploymentController
from tonnage.controllers.workloads.disruption import DisruptionController
from tonnage.controllers.workloads.job_controller import JobController, TTLAfterFinishedController
from tonnage.controllers.workloads.replica_sets import ReplicaSetController, ReplicationManager
from tonnage.controllers.workloads.stateful_sets import StatefulSetController
from tonnage.errors import TonnageError, closest


class Controller(Protocol):
    async def run(self) -> None: ...


class ControllerGroup:
    """Controllers that run as one: when one fails, all are cancelled and restarted."""

    def __init__(self, controllers: Sequence[Controller]) -> None:
        self._controllers = controllers

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(controller.run())
            await asyncio.Event().wait()


def _attachers(context: ControllerContext) -> Controller:
    """One attacher per driver; an empty group without drivers."""
    return ControllerGroup([Attacher(context, driver=driver) for driver in context.configuration.drivers])


def _root_ca_publisher(context: ControllerContext) -> Controller:
    """An empty group if the cluster has no certificate authority of its own."""
    return RootCACertificatePublisher(context) if context.configuration.root_ca_pem else ControllerGroup(())


@dataclass(frozen=True, slots=True)
class ControllerDescriptor:
    """One controller; `aliases` are older names. `reporter`: its name in events, if it is another."""

    name: str
    build: Callable[[ControllerContext], Controller]
    aliases: tuple[str, ...] = ()
    reporter: str = ""

    @property
    def source(self) -> str:
        """The component name in its events."""
        return self.reporter or self.name


CONTROLLERS: Final[tuple[ControllerDescriptor, ...]] = (
    ControllerDescriptor(
        "persistentvolume-binder-controller",
        PersistentVolumeBinder,
        ("persistentvolume-binder",),
        "persistentvolume-controller",
    ),
    ControllerDescriptor(
        "persistentvolumeclaim-protection-controller",
        ProtectionController,
        ("pvc-protection", "persistentvolume-protection-controller", "pv-protection"),
    ),
    ControllerDescriptor("volumeattributesclass-protection-controller", AttributesClassProtection),
    ControllerDescriptor(
        "ephemeral-volume-controller", EphemeralVolumeController, ("ephemeral-volume",), "ephemeral_volume"
    ),
    ControllerDescriptor(
        "persistentvolume-attach-detach-controller",
        AttachDetachController,
        ("attachdetach",),
        "attachdetach-controller",
    ),
    ControllerDescriptor("csi-attacher", _attachers),
    ControllerDescriptor("statefulset-controller", StatefulSetController, ("statefulset",)),
    ControllerDescriptor("replicaset-controller", ReplicaSetController, ("replicaset",)),
    ControllerDescriptor(
        "replicationcontroller-controller", ReplicationManager, ("replicationcontroller",), "replication-controller"
    ),
    ControllerDescriptor("daemonset-controller", DaemonSetController, ("daemonset",)),
    ControllerDescriptor("deployment-controller", DeploymentController, ("deployment",)),
    ControllerDescriptor("job-controller", JobController, ("job",)),
    ControllerDescriptor("cronjob-controller", CronJobController, ("cronjob",)),
    ControllerDescriptor("ttl-after-finished-controller", TTLAfterFinishedController, ("ttl-after-finished",)),
    ControllerDescriptor("disruption-controller", DisruptionController, ("disruption",), "controllermanager"),
    ControllerDescriptor("garbage-collector-controller", GarbageCollector, ("garbagecollector",)),
    ControllerDescriptor("namespace-controller", NamespaceController, ("namespace",)),
    ControllerDescriptor("resourcequota-controller", ResourceQuotaController, ("resourcequota",)),
    ControllerDescriptor("serviceaccount-controller", ServiceAccountController, ("serviceaccount",)),
    ControllerDescriptor(
        "root-ca-certificate-publisher-controller",
        _root_ca_publisher,
        ("root-ca-cert-publisher",),
        "root-ca-cert-publisher",
    ),
    ControllerDescriptor("node-lifecycle-controller", NodeLifecycleController, ("nodelifecycle",), "node-controller"),
    ControllerDescriptor("taint-eviction-controller", TaintEvictionController),
    ControllerDescriptor("pod-garbage-collector-controller", PodGCController, ("podgc",)),
)


class UnknownController(TonnageError):
    def __init__(self, name: str) -> None:
        self.name = name
        names = [controller_descriptor.name for controller_descriptor in CONTROLLERS]
        close = closest(name, [*names, *(alias for each in CONTROLLERS for alias in each.aliases)])
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(names)}"
        super().__init__(f'"{name}" is not in the list of known controllers', hint=hint)


def enabled_controllers(wanted: Sequence[str]) -> tuple[ControllerDescriptor, ...]:
    """The controllers that `--controllers` enables. Raises UnknownController."""
    names = {alias: each.name for each in CONTROLLERS for alias in (each.name, *each.aliases)}
    runs = {controller_descriptor.name: "*" in wanted for controller_descriptor in CONTROLLERS}
    for word in wanted:
        if word != "*":
            name = names.get(word.removeprefix("-"))
            if name is None:
                raise UnknownController(word.removeprefix("-"))
            runs[name] = not word.startswith("-")
    return tuple(controller_descriptor for controller_descriptor in CONTROLLERS if runs[controller_descriptor.name])
