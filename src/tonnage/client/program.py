"""What a program that follows a cluster is given, and how it starts, takes over from another leader, and stops.

    async with program:            # informers follow the cluster, events are written; nothing is changed yet
        await program.run()        # works until cancelled; with leader election only while this copy leads

`find_owner` finds who owns what a program creates: its pod, or a controller above it, so that the objects go with the
installation.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Self

import msgspec
from prometheus_client import CollectorRegistry

from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.leadership import Leadership
from tonnage.client.metrics import show_watches
from tonnage.client.recorder import Recorder, count_dropped_events
from tonnage.clock import Clock
from tonnage.errors import TonnageError
from tonnage.objects import codec, meta, resources


@dataclass(frozen=True, slots=True)
class Runtime:
    """A program's clients, clock and registry. With a `leadership`, the clients must ask it before every write."""

    client: Client
    _: KW_ONLY
    clock: Clock
    rng: random.Random
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    identity: str = ""
    """This copy of the program, in events; empty for the program's own name."""
    leadership: Leadership | None = None
    telling: Client | None = None
    """Writes events; None: `client` does."""
    leases: Client | None = None
    """Writes heartbeats; None: `client` does."""


class Program:
    """The base of a program: its informers, the recorders of its events, and the metrics of both."""

    sync_timeout_s: ClassVar[float | None] = None
    """How long the informers may take to sync; None waits until the API server answers."""
    flush_s: ClassVar[float] = 5.0
    """How long pending events may take at the end."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._client = runtime.client
        self._telling = runtime.telling or runtime.client
        self._clock = runtime.clock
        self._rng = runtime.rng
        self._recorders: list[Recorder] = []
        self.informers = Informers(runtime.client)
        show_watches(runtime.registry, lambda: self.informers)
        count_dropped_events(runtime.registry, lambda: self._recorders)

    def _new_recorder(self, source: str, instance: str, *, by_note: bool = True) -> Recorder:
        recorder = Recorder(self._telling, source, instance, by_note=by_note)
        self._recorders.append(recorder)
        return recorder

    async def __aenter__(self) -> Self:
        for recorder in self._recorders:
            recorder.start()
        self.informers.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.informers.stop()
        await self._stop_recorders()

    @property
    def is_synced(self) -> bool:
        return self.informers.are_synced

    async def wait_synced(self) -> None:
        """Return when the informers are synced. Raises NotSynced after `sync_timeout_s`."""
        await self.informers.wait_synced(self.sync_timeout_s)

    async def _take_over(self) -> None:
        """Wait until the informers are synced; watches may still lag behind the last writes of another leader."""
        await self.wait_synced()
        leadership = self._runtime.leadership
        if leadership is not None and leadership.follows_another:
            await self.informers.refresh()

    async def _stop_recorders(self) -> None:
        """Write pending events. With leader election this must be done while this copy still leads."""
        await asyncio.gather(*(recorder.stop(flush_s=self.flush_s) for recorder in self._recorders))


class NoOwner(TonnageError):
    """The pod has no owner at the requested level."""


async def find_owner(client: Client, *, namespace: str, pod_name: str, level: int | None) -> meta.OwnerReference | None:
    """The object `level` steps above the pod; for None its workload: the first above it that is no ReplicaSet.

    Nothing for a negative level. Raises NoOwner or ApiError.
    """
    if level is not None and level < 0:
        return None
    owner, steps = meta.OwnerReference(api_version="v1", kind="Pod", name=pod_name, uid="", controller=True), 0
    while owner.kind in ("Pod", "ReplicaSet") if level is None else steps < max(level, 1):
        what = f'{owner.api_version}/{owner.kind} "{owner.name}" in namespace "{namespace}"'
        resource = resources.BY_KIND.get((owner.api_version, owner.kind))
        if resource is None:
            raise NoOwner(f"{what} is of a kind that cannot be looked up", hint="use a lower --capacity-ownerref-level")
        key = f"{namespace}/{owner.name}" if resource.namespaced else owner.name
        metadata = (await client.get_doc(resource, key))["metadata"]
        owner = msgspec.structs.replace(owner, uid=metadata["uid"])
        if level == 0:
            return owner
        owners = [codec.convert(meta.OwnerReference, each) for each in metadata.get("ownerReferences", ())]
        above = next((each for each in owners if each.controller), None)
        if above is None and level is None:
            break
        if above is None:
            raise NoOwner(
                f"{what} has no controlling owner, cannot unwind the ownership further",
                hint="use a lower --capacity-ownerref-level, or -1 for no owner",
            )
        owner, steps = above, steps + 1
    return msgspec.structs.replace(owner, block_owner_deletion=False)
