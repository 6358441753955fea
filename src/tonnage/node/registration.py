"""Keeps one node's own objects: the Node with its status and the drivers' labels, the CSINode, and the Lease.

A deleted Node is created again, unless a fault removes it. A refused driver is retried alone, at growing intervals, and
logged once per cause; the other drivers are registered meanwhile.

A change of the CSINode reads it and patches it with the version it read. It is a PATCH because KEP-4876's queries for
operators look for that verb. As upstream does, an entry that differs is removed and appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tonnage import clock, logs
from tonnage.csi import csi_pb2 as csi
from tonnage.errors import AlreadyExists, ApiError, Conflict, NotFound, TonnageError
from tonnage.node import node_objects
from tonnage.node.context import NodeContext, NodePart
from tonnage.node.drivers import Drivers, InstalledDriver
from tonnage.objects import codec, small_groups
from tonnage.objects.core_v1 import Node, persistent_volume
from tonnage.objects.document import Doc, dig
from tonnage.objects.storage_v1 import CSINode

_MAX_COUNT: Final = 2**31 - 1


def new_csi_node(node_name: str, node_uid: str) -> Doc:
    """A CSINode without drivers. Its node owns it, so that it is deleted with the node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node_name, "ownerReferences": [owner]},
        "spec": {"drivers": []},
    }


def belongs_to(csi_node: Doc, node_uid: str) -> bool:
    """False for a CSINode left over from a deleted node of the same name."""
    owners = csi_node["metadata"].get("ownerReferences", ())
    return any(owner.get("kind") == "Node" and owner.get("uid") == node_uid for owner in owners)


def entry_of(driver: str, info: csi.NodeGetInfoResponse) -> Doc:
    """The CSINode entry from a driver's NodeGetInfo. A count of 0 means unknown; a negative count is left out."""
    entry: Doc = {"name": driver, "nodeID": info.node_id}
    if keys := sorted(info.accessible_topology.segments):
        entry["topologyKeys"] = keys
    if info.max_volumes_per_node > 0:
        entry["allocatable"] = {"count": min(info.max_volumes_per_node, _MAX_COUNT)}
    return entry


def with_entry(drivers: Sequence[Doc], entry: Doc, *, count_may_change: bool = True) -> list[Doc] | None:
    """A CSINode's drivers with this entry; None if it is there. Without `count_may_change` an existing count stays."""
    before = next((driver for driver in drivers if driver["name"] == entry["name"]), None)
    if before is not None and not count_may_change:
        entry = {key: value for key, value in entry.items() if key != "allocatable"}
        if "allocatable" in before:
            entry["allocatable"] = before["allocatable"]
    if before is not None and _says(before) == _says(entry):
        return None
    return [*(driver for driver in drivers if driver is not before), entry]


def without_entry(drivers: Sequence[Doc], name: str) -> list[Doc] | None:
    """A CSINode's drivers without this one; None if it is not there."""
    left = [driver for driver in drivers if driver["name"] != name]
    return left if len(left) < len(drivers) else None


def _says(entry: Doc) -> tuple[object, ...]:
    return entry["nodeID"], frozenset(entry.get("topologyKeys", ())), dig(entry, "allocatable", "count")


_TRIES: Final = 5
_FIRST_PAUSE_S, _FACTOR = 0.01, 5.0


_FIRST_S, _MAX_S = 1.0, 300.0
_RETRY_RENEWAL_S: Final = 1.0
_log = logs.logger(__name__)


class Registration(NodePart):
    def __init__(self, context: NodeContext, drivers: Drivers) -> None:
        super().__init__(context)
        self._leases = context.leases
        self._drivers = drivers
        self._backoff = clock.KeyedBackoff(clock=self._clock, rng=self._rng, first_s=_FIRST_S, max_s=_MAX_S)
        self._told: dict[str, str] = {}  # why a driver's last registration failed
        self._was_unschedulable = False  # upstream's lastNodeUnschedulable: after a start a cordon is reported again
        self.wake = asyncio.Event()
        """Set: the Lease is renewed at once, because a fault has ended."""
        self.is_registered = asyncio.Event()
        """The Node has existed once."""
        self.is_complete = asyncio.Event()
        """Every driver found has once been in the CSINode."""
        self._count_may_change = context.settings.gates.MutableCSINodeAllocatableCount
        self._lock = asyncio.Lock()
        """Changes of the CSINode run one after the other: this process has no other writer of it."""

    async def reconcile(self, *, has_polled: bool) -> float | None:
        """Reconcile the node's objects; returns seconds until the next time, None while idle. Raises TonnageError."""
        if self._context.faults.is_removed(self._node):
            await self._remove()
            return None
        if self._context.is_idle:
            return None
        node = await self._ensure_node()
        self.is_registered.set()
        waits_s = await self._ensure_drivers(node)
        if has_polled and not waits_s:
            self.is_complete.set()
        return min((self._settings.status_update_s, *waits_s))

    async def put(self, driver: InstalledDriver) -> None:
        """Write the driver's last answer into its CSINode entry.

        Raises NotFound while there is no Node, and ApiError: Invalid for a changed node id.
        """
        node = self._nodes.get(self._node)
        if node is None:
            raise NotFound(f'nodes "{self._node}" not found', kind="nodes", name=self._node)
        await self._put(node, driver)

    async def _ensure_node(self) -> Node:
        before = node = self._nodes.get(self._node)
        if node is None:
            self._was_unschedulable = False
            wanted = node_objects.new_node(self._node, self._settings, now=self._clock.now())
            try:
                node = codec.convert(Node, await self._client.create_doc(wanted))
                _log.info("Node registered", node=self._node)
            except AlreadyExists:
                before = node = await self._client.get(Node, self._node)
            self._nodes.store(node)
        if labels := node_objects.missing_labels(node):
            patch = {"metadata": {"uid": node.uid, "labels": labels}}
            node = self._nodes.store(await self._client.patch(Node, self._node, patch))
        patch_of_status = node_objects.status_patch(node, self._settings, now=self._clock.now())
        if patch_of_status is not None:
            patched = await self._client.patch(
                Node, self._node, patch_of_status, patch_type="strategic", subresource="status"
            )
            node = self._nodes.store(patched)
        if not self.is_registered.is_set():
            self._record(node, "Starting", "Starting kubelet.")
        if before is None or not before.is_ready:  # its status never says anything but Ready
            self._record(node, "NodeReady")
        if node.spec.unschedulable != self._was_unschedulable:
            self._was_unschedulable = node.spec.unschedulable
            self._record(node, "NodeNotSchedulable" if node.spec.unschedulable else "NodeSchedulable")
        return node

    def _record(self, node: Node, reason: str, note: str = "") -> None:
        about = persistent_volume.ObjectReference(api_version="v1", kind="Node", name=node.name, uid=node.uid)
        note = note or f"Node {node.name} status is now: {reason}"
        self._recorder.event(about, "Normal", reason, reason, note)

    async def _ensure_drivers(self, node: Node) -> list[float]:
        """Register the installed drivers, independently; returns the seconds until each refused driver is retried."""
        installed = self._drivers.installed()
        topology, agreeing = self._topology(node, installed)
        if installed:
            ids = {
                driver.name: driver.info.node_id for driver in installed if node_objects.is_node_id(driver.info.node_id)
            }
            patch = node_objects.topology_patch(node, topology, ids)
            if patch is not None:
                node = self._nodes.store(await self._client.patch(Node, self._node, patch))
        shown = self._csi_nodes.get(self._node)
        if shown is None or not any(owner.uid == node.uid for owner in shown.metadata.owner_references):
            await self._change(node, lambda _: None)
        for driver in agreeing:
            try:
                await self._register(node, shown, driver)
                self._forget_refusal(driver.name)
            except ApiError as exc:
                self._refuse(driver, exc)
        for name in tuple(self._drivers.gone):
            await self._change(node, partial(without_entry, name=name))
            self._drivers.unregistered(name)
            self._forget_refusal(name)
        waits_s = (self._backoff.left_s(driver.name, _said(driver)) for driver in installed)
        return [left_s for left_s in waits_s if left_s > 0]

    def _topology(
        self, node: Node, installed: tuple[InstalledDriver, ...]
    ) -> tuple[dict[str, str], list[InstalledDriver]]:
        """The drivers' labels, and the drivers to register now. A driver that contradicts a label is refused."""
        topology: dict[str, str] = {}
        agreeing: list[InstalledDriver] = []
        for driver in installed:
            if self._backoff.left_s(driver.name, _said(driver)) > 0:
                continue
            segments = dict(driver.info.accessible_topology.segments)
            try:
                node_objects.require_storable(driver.info.node_id, segments)
                node_objects.require_no_collision({**node.metadata.labels, **topology}, segments)
            except ValueError as exc:
                said = f"node {self._node}, driver {driver.name}: {exc}"
                self._refuse(driver, TonnageError(said, hint="remove the label, or correct the driver"))
                continue
            topology |= segments
            agreeing.append(driver)
        return topology, agreeing

    def _refuse(self, driver: InstalledDriver, failure: TonnageError) -> None:
        """Note when a refused driver is retried, and log each new reason once."""
        pause_s = self._backoff.failed(driver.name, _said(driver))
        if self._told.get(driver.name) != failure.message:
            self._told[driver.name] = failure.message
            _log.warning(
                "A driver could not be registered; the others are, and it is tried again",
                node=self._node,
                driver=driver.name,
                again_s=round(pause_s, 1),
                error=failure.message,
                hint=failure.hint,
            )

    def _forget_refusal(self, name: str) -> None:
        self._backoff.forget(name)
        self._told.pop(name, None)

    async def _remove(self) -> None:
        node = self._nodes.get(self._node)
        with suppress(NotFound):
            await self._client.delete(small_groups.Lease, f"{node_objects.LEASE_NAMESPACE}/{self._node}")
        with suppress(NotFound):
            await self._client.delete(CSINode, self._node)
        if node is not None:
            with suppress(NotFound):
                await self._client.delete(Node, self._node, uid=node.uid)
            self._nodes.forget(self._node)
            _log.info("Node removed on request", node=self._node)

    # -- the CSINode --------------------------------------------------------------------------------------------------

    async def _put(self, node: Node, driver: InstalledDriver) -> None:
        entry = entry_of(driver.name, driver.info)
        if driver.info.max_volumes_per_node < 0:
            _log.warning(
                "A driver's max_volumes_per_node makes no sense and is left out",
                driver=driver.name,
                node=self._node,
                max_volumes_per_node=driver.info.max_volumes_per_node,
            )
        await self._change(node, partial(with_entry, entry=entry, count_may_change=self._count_may_change))

    async def _register(self, node: Node, shown: CSINode | None, driver: InstalledDriver) -> None:
        """Write the entry of a newly found driver, or one that is missing or wrong. Raises as `put` does.

        The count is written when the driver is found; `AttachLimitUpdater` corrects it later.
        """
        count_may_change = self._count_may_change and not driver.is_registered
        drivers = [codec.to_doc(each) for each in shown.spec.drivers] if shown is not None else []
        if with_entry(drivers, entry_of(driver.name, driver.info), count_may_change=count_may_change) is not None:
            await self._put(node, driver)
        driver.is_registered = True

    async def _change(self, node: Node, change: Callable[[Sequence[Doc]], list[Doc] | None]) -> None:
        """Write the drivers that `change` returns; create a missing CSINode first."""
        async with self._lock:
            for attempt in range(_TRIES):
                try:
                    seen = await self._read(node)
                    drivers = change(dig(seen, "spec", "drivers") or [])
                    if drivers is None:
                        return
                    metadata = {"uid": seen["metadata"]["uid"], "resourceVersion": seen["metadata"]["resourceVersion"]}
                    await self._client.patch(CSINode, self._node, {"metadata": metadata, "spec": {"drivers": drivers}})
                    return
                except (AlreadyExists, Conflict, NotFound):
                    if attempt == _TRIES - 1:
                        raise
                    await self._clock.sleep(clock.exponential_s(_FIRST_PAUSE_S, attempt, factor=_FACTOR))

    async def _read(self, node: Node) -> Doc:
        try:
            found = await self._client.get_doc(CSINode, self._node)
            if belongs_to(found, node.uid):
                return found
            # This one is left over from a deleted node of the same name; the garbage collector would delete it anyway.
            await self._client.delete(CSINode, self._node, uid=found["metadata"]["uid"])
        except NotFound:
            pass
        return await self._client.create_doc(new_csi_node(node.name, node.uid))

    # -- the heartbeat ------------------------------------------------------------------------------------------------

    async def renew_lease_forever(self) -> None:
        """Renew the Lease at intervals until cancelled. The nodes of one process spread over the interval."""
        await self.is_registered.wait()
        pause_s, complaint = 0.0, ""
        while True:
            if pause_s:
                self.wake.clear()
                with suppress(TimeoutError):
                    await clock.within(self._clock, pause_s, self.wake.wait())
            is_first, pause_s = not pause_s, self._settings.renew_interval_s
            if self._context.is_idle:
                continue
            try:
                await self._renew()
                if is_first:
                    pause_s *= self._rng.uniform(0.1, 1.0)
                complaint = ""
            except TonnageError as exc:
                if exc.message != complaint:  # while the server is down it is the same every second
                    complaint = exc.message
                    _log.warning("The lease could not be renewed", node=self._node, error=complaint)
                pause_s = min(_RETRY_RENEWAL_S, pause_s)

    async def _renew(self) -> None:
        now = self._clock.now()
        try:
            patch = node_objects.renewal(self._node, self._settings, now=now)
            await self._leases.patch(small_groups.Lease, f"{node_objects.LEASE_NAMESPACE}/{self._node}", patch)
        except NotFound:
            node = self._nodes.get(self._node)
            if node is not None:
                with suppress(AlreadyExists):
                    await self._leases.create_doc(node_objects.new_lease(node, self._settings, now=now))


def _said(driver: InstalledDriver) -> Hashable:
    """A driver's process and its answer: when one of them changes, a refused driver is tried at once."""
    return driver.socket, driver.info.SerializeToString(deterministic=True)
