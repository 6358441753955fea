"""`tonnage controllers`, the controller manager: one client, one set of informers, the controllers by upstream's names.

      built ──► synced ───► running ── returns, or raises: logged, counted ──► backoff ──► built again

No controller acts before all informers are synced. A controller that fails takes no other with it. In `--controllers`,
`*` is all, `foo` this one, `-foo` all but this one, as upstream. The `csi-attacher`, upstream a sidecar, calls drivers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import Counter

from tonnage import clock, errors, logs
from tonnage.client import informers, metrics, program
from tonnage.controllers import PROGRAM, garbage_collector, namespaces
from tonnage.controllers.controller_context import (
    AttacherHere,
    ControllerContext,
    ControllerManagerConfiguration,
    QueueController,
)
from tonnage.controllers.nodes import node_lifecycle, pod_deletion
from tonnage.controllers.volumes import attach_detach, attacher, persistent_volume_binder, protection
from tonnage.controllers.workloads import deployments, disruption, jobs, revisioned_sets


class Attachers(QueueController):
    """One attacher per driver, which run as one: when one fails, all are cancelled and restarted."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._loops += [attacher.Attacher(context, driver=driver).run for driver in context.configuration.drivers]


@dataclass(frozen=True, slots=True)
class ControllerDescriptor:
    """One controller; `aliases` are older names. `reporter`: its name in events, if it is another."""

    name: str
    build: Callable[[ControllerContext], QueueController]
    aliases: tuple[str, ...] = ()
    reporter: str = ""


CONTROLLERS: Final[tuple[ControllerDescriptor, ...]] = (
    ControllerDescriptor(
        "persistentvolume-binder-controller",
        persistent_volume_binder.PersistentVolumeBinder,
        ("persistentvolume-binder",),
        "persistentvolume-controller",
    ),
    ControllerDescriptor(
        "persistentvolumeclaim-protection-controller",
        protection.ProtectionController,
        ("pvc-protection", "persistentvolume-protection-controller", "pv-protection"),
    ),
    ControllerDescriptor("volumeattributesclass-protection-controller", protection.AttributesClassProtection),
    ControllerDescriptor(
        "ephemeral-volume-controller", protection.EphemeralVolumeController, ("ephemeral-volume",), "ephemeral_volume"
    ),
    ControllerDescriptor(
        "persistentvolume-attach-detach-controller",
        attach_detach.AttachDetachController,
        ("attachdetach",),
        "attachdetach-controller",
    ),
    ControllerDescriptor("csi-attacher", Attachers),
    ControllerDescriptor("statefulset-controller", revisioned_sets.StatefulSetController, ("statefulset",)),
    ControllerDescriptor("replicaset-controller", deployments.replica_set_controller, ("replicaset",)),
    ControllerDescriptor(
        "replicationcontroller-controller",
        deployments.replication_manager,
        ("replicationcontroller",),
        "replication-controller",
    ),
    ControllerDescriptor("daemonset-controller", revisioned_sets.DaemonSetController, ("daemonset",)),
    ControllerDescriptor("deployment-controller", deployments.DeploymentController, ("deployment",)),
    ControllerDescriptor("job-controller", jobs.JobController, ("job",)),
    ControllerDescriptor("cronjob-controller", jobs.CronJobController, ("cronjob",)),
    ControllerDescriptor("ttl-after-finished-controller", jobs.TTLAfterFinishedController, ("ttl-after-finished",)),
    ControllerDescriptor(
        "disruption-controller", disruption.DisruptionController, ("disruption",), "controllermanager"
    ),
    ControllerDescriptor("garbage-collector-controller", garbage_collector.GarbageCollector, ("garbagecollector",)),
    ControllerDescriptor("namespace-controller", namespaces.NamespaceController, ("namespace",)),
    ControllerDescriptor("resourcequota-controller", namespaces.ResourceQuotaController, ("resourcequota",)),
    ControllerDescriptor("serviceaccount-controller", namespaces.service_account_controller, ("serviceaccount",)),
    ControllerDescriptor(
        "root-ca-certificate-publisher-controller",
        namespaces.root_ca_publisher,
        ("root-ca-cert-publisher",),
        "root-ca-cert-publisher",
    ),
    ControllerDescriptor(
        "node-lifecycle-controller", node_lifecycle.NodeLifecycleController, ("nodelifecycle",), "node-controller"
    ),
    ControllerDescriptor("taint-eviction-controller", pod_deletion.TaintEvictionController),
    ControllerDescriptor("pod-garbage-collector-controller", pod_deletion.PodGCController, ("podgc",)),
)


class UnknownController(errors.TonnageError):
    def __init__(self, name: str) -> None:
        self.name = name
        names = [controller_descriptor.name for controller_descriptor in CONTROLLERS]
        close = errors.closest(name, [*names, *(alias for each in CONTROLLERS for alias in each.aliases)])
        hint = f"did you mean {close[0]}?" if close else f"the controllers are {', '.join(names)}"
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


ALL: Final = ("*",)
_FIRST_PAUSE_S, _MAX_PAUSE_S = 1.0, 60.0

_log = logs.logger("tonnage.controllers")


class ControllerManager(program.Program):
    """Runs the enabled controllers; use it as a context manager."""

    def __init__(
        self,
        runtime: program.Runtime,
        configuration: ControllerManagerConfiguration,
        *,
        controllers: Sequence[str] = ALL,
        on_synced: Callable[[], object] = lambda: None,
    ) -> None:
        """`controllers`: as for `--controllers`. Raises UnknownController.

        With leader election, the CSI clients too must ask for the leadership before every change.
        """
        super().__init__(runtime)
        self._configuration = configuration
        self._on_synced = on_synced
        self.descriptors: Final = enabled_controllers(controllers)
        # Events name their controller, as upstream's do.
        self._recorder_of = {
            each.name: self._new_recorder(each.reporter or each.name, runtime.identity or PROGRAM)
            for each in self.descriptors
        }
        self._queues = metrics.WorkQueueMetrics(runtime.registry)
        self._attachers: dict[str, AttacherHere] = {}
        self._scopes: dict[str, informers.InformerScope] = {}
        self._controllers: dict[str, QueueController] = {each.name: self._build(each) for each in self.descriptors}
        self._restarts = Counter(
            "tonnage_controller_restarts",
            "Controllers that broke and were started again, by name.",
            ("name",),
            registry=runtime.registry,
        )
        self._broken: set[str] = set()
        self._has_run = False

    @property
    def is_synced(self) -> bool:
        """True once all informers were synced. Kinds that definitions add later do not reset it."""
        return self._has_run or super().is_synced

    @property
    def is_healthy(self) -> bool:
        """True if no controller has failed and waits for its restart."""
        return not self._broken

    async def run(self) -> None:
        """Run the controllers until cancelled; pending events are written before it returns."""
        await self._take_over()
        self._has_run = True
        _log.info("Running", controllers=",".join(descriptor.name for descriptor in self.descriptors))
        self._on_synced()
        try:
            await asyncio.gather(*(self._keep_running(descriptor) for descriptor in self.descriptors))
        finally:
            await self._stop_recorders()  # while we still lead: after that nothing may be written

    def _build(self, descriptor: ControllerDescriptor) -> QueueController:
        scope = self._scopes[descriptor.name] = informers.InformerScope(self.informers)
        recorder = self._recorder_of[descriptor.name]
        context = ControllerContext(
            self._client,
            scope,
            recorder,
            self._clock,
            self._rng,
            self._queues,
            self._attachers,
            self._configuration,
        )
        return descriptor.build(context)

    async def _keep_running(self, descriptor: ControllerDescriptor) -> None:
        backoff = clock.Backoff(clock=self._clock, rng=self._rng, first_s=_FIRST_PAUSE_S, max_s=_MAX_PAUSE_S)
        while True:
            try:
                await self._controllers[descriptor.name].run()
                _log.error("A controller ended; it is started again", controller=descriptor.name)
            except Exception:
                _log.exception("A controller broke; it is started again", controller=descriptor.name)
            self._scopes[descriptor.name].close()
            self._restarts.labels(descriptor.name).inc()
            self._broken.add(descriptor.name)
            await self._clock.sleep(backoff.next_s())
            # A new controller, because the old queue is closed; it builds its state again from the informers.
            self._controllers[descriptor.name] = self._build(descriptor)
            self._broken.discard(descriptor.name)
