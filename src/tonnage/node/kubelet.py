"""One node: everything that its kubelet does, on informers that it shares with the other nodes of the process.

    sockets ──► drivers ──► registration (Node, CSINode)          ticks, attach errors ──► limits ──► CSINode
    pods ─────► pods: mounts, status, expansion                   every 10 s ────────────► Lease

A node works through its pods with workers of its own: one whose driver hangs does not hold up the others.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.reconciler import Reconciler
from tonnage.client.recorder import Recorder
from tonnage.client.written_objects import MutationCache
from tonnage.clock import Clock
from tonnage.csi.secrets import secret_values
from tonnage.deadline import within
from tonnage.errors import TonnageError
from tonnage.node.csinode.attach_limits import LimitUpdater
from tonnage.node.drivers import Drivers
from tonnage.node.injected_faults import NodeFaults
from tonnage.node.metrics import Meter
from tonnage.node.mounts.expansion import Expander
from tonnage.node.mounts.mount_paths import MountPaths
from tonnage.node.mounts.mount_plan import Known
from tonnage.node.mounts.mounter import Mounts
from tonnage.node.pods.index import PodIndex
from tonnage.node.pods.worker import PodWorker
from tonnage.node.registration import Registration
from tonnage.node.settings import PROGRAM, NodeSettings
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Secret
from tonnage.objects.core_v1.references import SecretReference
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment

_STAGED: Final = "staged volumes"
"""The key under which volumes that nobody has are looked at; no uid looks like it."""
_WORKERS: Final = 8
_COMPLETE_S: Final = 5.0
_FIRST_RETRY_S, _MAX_RETRY_S = 0.5, 122.0
"""Upstream's pauses between tries of one volume."""


class Kubelet:
    """The agent of one node. What it shares with others is handed in; what it remembers is its own."""

    def __init__(
        self,
        name: str,
        client: Client,
        settings: NodeSettings,
        *,
        clock: Clock,
        rng: random.Random,
        index: PodIndex,
        known: Known,
        nodes: MutationCache[Node],
        claims: MutationCache[PersistentVolumeClaim],
        csi_nodes: Cache[CSINode],
        csi_drivers: Cache[CSIDriver],
        attachments: Cache[VolumeAttachment],
        faults: NodeFaults,
        meter: Meter,
    ) -> None:
        self.name = name
        self._client = client
        self._settings = settings
        self._clock = clock
        self._index = index
        self._csi_drivers = csi_drivers
        self._faults = faults
        self.recorder = Recorder(client, PROGRAM, name, by_note=True)
        self.drivers = Drivers(
            tuple(settings.address(template, name) for template in settings.csi_addresses),
            settings.folder(name),
            clock=clock,
            rng=rng,
            timeout_s=settings.csi_timeout_s,
            meter=meter,
            on_change=self._driver_changed,
        )
        self.registration = Registration(
            name,
            client,
            settings,
            clock=clock,
            rng=rng,
            nodes=nodes,
            csi_nodes=csi_nodes,
            drivers=self.drivers,
            recorder=self.recorder,
            faults=faults,
        )
        self.limits = LimitUpdater(
            name,
            self.drivers,
            csi_drivers,
            self.registration.put,
            gate_on=settings.gates.MutableCSINodeAllocatableCount,
            is_idle=lambda: faults.is_idle(name),
            clock=clock,
            rng=rng,
            meter=meter,
        )
        paths = MountPaths(settings.folder(name))
        self.mounts = Mounts(name, paths, self.drivers, secrets=self._secret, pace=self._pace)
        expander = Expander(
            name, client, paths, self.drivers, claims, self.recorder, secrets=self._secret, pace=self._pace
        )
        self.worker = PodWorker(
            name,
            client,
            clock=clock,
            index=index,
            known=known,
            nodes=nodes,
            attachments=attachments,
            mounts=self.mounts,
            limits=self.limits,
            expander=expander,
            recorder=self.recorder,
            faults=faults,
            meter=meter,
            host_ip=settings.node_ip,
            attach_error_grace_s=settings.attach_error_grace_s,
        )
        self.pods = Reconciler(
            f"pods of {name}",
            self._bring,
            clock=clock,
            workers=_WORKERS,
            first_retry_s=_FIRST_RETRY_S,
            max_retry_s=_MAX_RETRY_S,
        )
        self.registering = Reconciler(f"node {name}", self._register, clock=clock, workers=1, max_retry_s=10.0)
        self.has_looked = asyncio.Event()
        """The sockets have been looked at once."""

    def look_at_all(self) -> None:
        """Look at the node and at everything on it: at the start, and when a driver or a fault came or went."""
        self.registering.add(self.name)
        for pod in self._index.on_node(self.name):
            self.pods.add(pod.uid)
        for uid in self.mounts.pods():
            self.pods.add(uid)
        self.pods.add(_STAGED)

    async def run(self) -> None:
        """Work until cancelled. The shared informers must be in step before."""
        self.drivers.recover()
        self.mounts.recover()
        self.recorder.start()
        self.look_at_all()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.registering.run(), name=f"node {self.name}")
                tasks.create_task(self._work(), name=f"pods of {self.name}")
                tasks.create_task(self.registration.beat(), name=f"lease of {self.name}")
                tasks.create_task(self._watch_sockets(), name=f"sockets of {self.name}")
        finally:
            await self.limits.stop()
            await self.recorder.stop(flush_s=2.0)
            await self.drivers.close()

    def faults_changed(self) -> None:
        self.registration.wake()
        self.look_at_all()

    async def wait_complete(self) -> None:
        """Return when the node is registered and its CSINode tells of every driver that was there at the start.

        A driver that cannot be registered is not waited for longer than a while. An idle node is complete.
        """
        await self.has_looked.wait()
        if self._faults.is_idle(self.name):
            return
        await self.registration.is_registered.wait()
        with suppress(TimeoutError):
            await within(self._clock, _COMPLETE_S, self.registration.is_complete.wait())

    async def _work(self) -> None:
        # Not before the sockets were looked at: mounts from before a restart would find their driver missing.
        await self.has_looked.wait()
        await self.pods.run()

    async def _register(self, name: str) -> float | None:
        again_s = await self.registration.bring(has_looked=self.has_looked.is_set())
        if again_s is not None:
            await self.worker.report_in_use()  # the Node may be a new one
        return again_s

    async def _watch_sockets(self) -> None:
        while True:
            if not self._faults.is_idle(self.name):
                await self.drivers.look()
            if not self.has_looked.is_set():
                self.has_looked.set()
                self.registering.add(self.name)
            await self._clock.sleep(self._settings.look_at_sockets_s)

    def _driver_changed(self, name: str) -> None:
        self.limits.sync(name)
        self.look_at_all()

    async def _bring(self, key: str) -> float | None:
        if key != _STAGED:
            return await self.worker.bring(key)
        if not self._faults.is_idle(self.name):
            await self.worker.unstage_unused()
        return None

    async def _pace(self) -> None:
        await self._faults.pace(self.name)

    async def _secret(self, reference: SecretReference | None) -> Mapping[str, str]:
        """A driver's credentials; they are read when they are needed and never kept. Raises TonnageError."""
        if reference is None:
            return {}
        try:
            found = await self._client.get(Secret, f"{reference.namespace}/{reference.name}")
            return secret_values(found)
        except TonnageError as exc:
            raise TonnageError(f"fetching secret {reference.namespace}/{reference.name} failed: {exc}") from exc
