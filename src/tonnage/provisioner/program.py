"""The provisioner put together: driver, informers, controllers, capacity. `tonnage provisioner` starts it.

Entering waits for the driver, `wait_synced` for the API server, without a time limit. With leader election the
informers follow from the start, and only the leader runs.

The provisioner's pod or its controller owns the capacity objects (--capacity-ownerref-level: -1 nobody, 0 the pod, 1
its StatefulSet, DaemonSet or ReplicaSet, 2 a Deployment). Mirrors external-provisioner's pkg/owner.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Self

from tonnage import logs
from tonnage.client import cache, errors, program
from tonnage.client.recorder import Recorder
from tonnage.clock import Backoff, Clock
from tonnage.csi import address, client, driver_capabilities
from tonnage.csi.driver_capabilities import DriverInfo
from tonnage.csi.errors import Code, CsiError
from tonnage.objects import core_v1, meta, storage_v1
from tonnage.objects.storage_v1 import CSINode, StorageClass, VolumeAttachment
from tonnage.provisioner.capacity.controller import CapacityController, CapacitySettings
from tonnage.provisioner.capacity.objects import Segment, manager_on
from tonnage.provisioner.context import NoRefresher, ProvisionerCaches, ProvisionerContext, ProvisionerOptions
from tonnage.provisioner.metrics import ProvisionerMetrics
from tonnage.provisioner.volumes import claims, deletion, resizer
from tonnage.provisioner.volumes.provisioning import ProvisionController

PROGRAM = "tonnage-provisioner"

_log = logs.logger("tonnage.provisioner")


_LOOK_EVERY_S = 0.1


async def wait_for_driver(driver: client.CsiClient, *, with_node: bool, clock: Clock, rng: random.Random) -> DriverInfo:
    """Ask until the driver answers and is ready; it may start after us."""
    path = address.socket_path(driver.address)
    if path is not None and not path.exists():
        _log.info("Waiting for the driver's socket", address=driver.address)
        while not path.exists():  # a look costs nothing, a refused connection costs a pause
            await clock.sleep(_LOOK_EVERY_S)
    backoff = Backoff(clock=clock, rng=rng, first_s=0.1, max_s=5.0)
    while True:
        try:
            probed = await driver.probe()
            if not probed.HasField("ready") or probed.ready.value:
                return await _ask(driver, with_node)
            _log.info("The driver is not ready yet", address=driver.address)
        except CsiError as exc:
            _log.warning("The driver cannot be asked", address=driver.address, error=exc.message)
        await clock.sleep(backoff.next_s())


async def _ask(driver: client.CsiClient, with_node: bool) -> DriverInfo:
    name = await driver_capabilities.get_driver_name(driver)
    plugin = await driver_capabilities.get_plugin_capabilities(driver)
    controller = (
        await driver_capabilities.get_controller_capabilities(driver)
        if plugin.controller_service
        else driver_capabilities.ControllerCapabilities()
    )
    node = driver_capabilities.NodeCapabilities()
    try:
        node = await driver_capabilities.get_node_capabilities(driver)
    except CsiError as exc:
        if exc.code is not Code.UNIMPLEMENTED:
            raise
    node_info = await driver.node_info() if with_node else None
    return DriverInfo(name, plugin, controller, node, node_info)


class Provisioner(program.Program):
    """Creates, deletes and expands the volumes of one driver, and publishes its capacity if `capacity` is given."""

    def __init__(
        self,
        runtime: program.Runtime,
        driver: client.CsiClient,
        options: ProvisionerOptions,
        *,
        metrics: ProvisionerMetrics,
        capacity: CapacitySettings | None = None,
        pod_name: str = "",
        owner_level: int = 1,
    ) -> None:
        """`pod_name` and `owner_level` choose the owner of capacity objects; without a pod they have none."""
        super().__init__(runtime)
        self.driver, self.options, self.metrics, self.capacity = driver, options, metrics, capacity
        self._pod_name, self._owner_level = pod_name, owner_level
        self.driver_info = DriverInfo("")
        """The driver's answers about itself, once the block is entered."""
        self._loops: list[Callable[[], Coroutine[Any, Any, None]]] = []

    async def __aenter__(self) -> Self:
        with_node = self.options.node_deployment is not None
        self.driver_info = await wait_for_driver(self.driver, with_node=with_node, clock=self._clock, rng=self._rng)
        _log.info("Detected CSI driver", driver=self.driver_info.name, address=self.driver.address)
        name = self.driver_info.name
        self._assemble(self._new_recorder(name, f"{name}_{secrets.token_hex(4)}"), await self._owner())
        return await super().__aenter__()

    @property
    def is_synced(self) -> bool:
        """True if the driver has answered and the informers are synced."""
        return bool(self.driver_info.name) and super().is_synced

    async def run(self) -> None:
        """Wait until the informers are synced, then work until cancelled."""
        await self._take_over()
        _log.info("Provisioning", driver=self.driver_info.name)
        try:
            async with asyncio.TaskGroup() as tasks:
                for loop in self._loops:
                    tasks.create_task(loop())
        finally:
            await self._stop_recorders()  # while we still lead: later nothing may be written

    # -- putting it together ------------------------------------------------------------------------------------------

    def _assemble(self, recorder: Recorder, owner: meta.OwnerReference | None) -> None:
        options, controller = self.options, self.driver_info.controller
        refresher: CapacityController | NoRefresher = NoRefresher()
        if self.capacity is not None and controller.get_capacity:
            refresher = self._capacity_controller(self.capacity, owner)
            self._loops.append(refresher.run)
        context = ProvisionerContext(
            client=self._client,
            driver=self.driver,
            driver_info=self.driver_info,
            options=options,
            caches=self._caches(),
            recorder=recorder,
            metrics=self.metrics,
            refresher=refresher,
            own_topology=self._own_topology(),
            clock=self._clock,
            rng=self._rng,
        )
        self._loops += [ProvisionController(context).work.run, deletion.DeletionController(context).work.run]
        if controller.clone_volume:
            self._loops.append(claims.CloningProtectionController(context).work.run)
        if options.expands and (controller.expand_volume or self.driver_info.expands_on_nodes_only):
            self._loops.append(resizer.ExpansionController(context).work.run)
        if options.volume_attributes_class and controller.modify_volume:
            self._loops.append(resizer.ModificationController(context).work.run)

    def _caches(self) -> ProvisionerCaches:
        """All nodes where topology matters; in node-deployment mode only ours, as a constant, to spare the server."""
        of, info, deployment = self.informers.of, self.driver_info, self.options.node_deployment
        has_topology = info.plugin.volume_accessibility_constraints and self.options.topology
        has_all_nodes = deployment is None and has_topology
        nodes: cache.Cache[core_v1.Node] = of(core_v1.Node) if has_all_nodes else cache.Cache(core_v1.Node)
        csi_nodes: cache.Cache[CSINode] = of(CSINode) if has_all_nodes else cache.Cache(CSINode)
        if deployment is not None and info.node_info is not None:
            name, labels = deployment.node_name, dict(self._own_topology() or {})
            entry = storage_v1.CSINodeDriver(
                name=info.name, node_id=info.node_info.node_id, topology_keys=tuple(sorted(labels))
            )
            nodes.put(core_v1.Node(metadata=meta.ObjectMeta(name=name, labels=labels)))
            csi_nodes.put(CSINode(metadata=meta.ObjectMeta(name=name), spec=storage_v1.CSINodeSpec(drivers=(entry,))))
        return ProvisionerCaches(
            claims=of(core_v1.PersistentVolumeClaim),
            volumes=of(core_v1.PersistentVolume),
            classes=of(StorageClass),
            nodes=nodes,
            csi_nodes=csi_nodes,
            attachments=of(VolumeAttachment) if info.controller.publish_unpublish_volume else None,
            has_all_nodes=has_all_nodes,
        )

    def _own_topology(self) -> Mapping[str, str] | None:
        """Where our driver runs, in node-deployment mode; None if the driver does not report it."""
        node = self.driver_info.node_info
        if node is None or not node.HasField("accessible_topology"):
            return None
        return node.accessible_topology.segments

    def _capacity_controller(self, settings: CapacitySettings, owner: meta.OwnerReference | None) -> CapacityController:
        deployment = self.options.node_deployment
        if deployment is not None:
            settings = replace(settings, managed_by=manager_on(deployment.node_name))
        return CapacityController(
            self._client,
            self.driver,
            self.informers,
            driver_name=self.driver_info.name,
            settings=settings,
            clock=self._clock,
            owner=owner,
            fixed_segment=Segment.of(self._own_topology() or {}) if deployment is not None else None,
            registry=self._runtime.registry,
            queues=self.metrics.queues,
        )

    async def _owner(self) -> meta.OwnerReference | None:
        """The owner of capacity objects. Raises NoOwner or ApiError; waits while the server is away."""
        if self.capacity is None or not self._pod_name:
            return None
        backoff = Backoff(clock=self._clock, rng=self._rng)
        while True:
            try:
                namespace = self.capacity.namespace
                return await program.find_owner(
                    self._client, namespace=namespace, pod_name=self._pod_name, level=self._owner_level
                )
            except errors.Disconnected as exc:
                _log.warning("Waiting for the API server", error=exc.message)
                await self._clock.sleep(backoff.next_s())
