"""`tonnage pools` put together: informers, the controller and, for `--source command`, the program to run.

A driver that is not installed has no kind to read: the program waits for it with growing pauses, and logs that once.
Until then nothing is published, and annotations of an earlier run are removed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final, Self

from prometheus_client import CollectorRegistry

from tonnage import logs
from tonnage.client.discovered_kinds import document_class
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.leadership import Leadership
from tonnage.client.metrics import show_watches
from tonnage.client.program import find_owner
from tonnage.clock import Backoff, Clock, jittered
from tonnage.errors import NotFound, TonnageError
from tonnage.objects import document, meta, storage_v1
from tonnage.objects.codec import read_doc
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.pools import class_pools, created_objects, writing
from tonnage.pools.controller import PoolsController
from tonnage.pools.settings import PoolsSettings
from tonnage.pools.sources.command import CommandFailed, CommandPools, InvalidOutput, run_command

_NODES: Final = BY_PLURAL["", "nodes"]

_log = logs.logger("tonnage.pools")


@dataclass(frozen=True)
class Command:
    """A program that prints this node's pools, and how often it is run."""

    words: Sequence[str]
    interval_s: float = 30.0
    timeout_s: float = 10.0


@dataclass(eq=False)
class PoolsProgram:
    client: Client
    source: class_pools.PoolSource
    settings: PoolsSettings
    _: KW_ONLY
    clock: Clock
    rng: random.Random
    registry: CollectorRegistry
    command: Command | None = None
    leadership: Leadership | None = None
    pod_name: str = ""
    """This program's pod in the namespace of created objects: its workload owns them."""

    def __post_init__(self) -> None:
        self._has_kind = False
        self._metrics = writing.PoolsMetrics(self.registry)
        self._informers = Informers(self.client)
        self._own = Informers(self.client)
        """Informers of the source's own kind; started once the kind exists."""
        show_watches(self.registry, lambda: (*self._informers, *self._own))
        of, namespace = self._informers.of, self.settings.source_namespace
        self.controller = PoolsController(
            self.client,
            self.source,
            self.settings,
            watched=created_objects.Watched(
                of(storage_v1.CSIStorageCapacity),
                of(storage_v1.StorageClass),
                of(document_class(_NODES)),
                of(storage_v1.CSINode),
                [self._own.of(document_class(kind), namespace=namespace) for kind in self.source.kinds],
            ),
            clock=self.clock,
            metrics=self._metrics,
        )

    async def __aenter__(self) -> Self:
        self._informers.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._informers.stop()
        await self._own.stop()

    @property
    def is_synced(self) -> bool:
        return self._informers.are_synced and (not self._has_kind or self._own.are_synced)

    async def wait_synced(self) -> None:
        """Return when the informers are synced, however long the API server is away."""
        await self._informers.wait_synced()

    async def run(self) -> None:
        """Wait until the informers are synced, then work until cancelled."""
        await self.wait_synced()
        if self.leadership is not None and self.leadership.follows_another:
            await self._informers.refresh()
        async with asyncio.TaskGroup() as tasks:
            missing = await self._missing_kind()
            if missing is not None:
                tasks.create_task(self._wait_for(missing))
            elif self.source.kinds:
                await self._follow_own()
            self.controller.objects.owner = await self._workload()
            _log.info("Keeping pools", source=self.source.name, drivers=", ".join(self.settings.drivers))
            tasks.create_task(self.controller.run())
            if self.command is not None:
                tasks.create_task(self._run_command(self.command))

    async def remove(self) -> int:
        """Remove this program's annotations; returns how many capacity objects had them."""
        await self.wait_synced()
        return await self.controller.remove()

    async def _workload(self) -> meta.OwnerReference | None:
        if not (self.pod_name and self.settings.creates_objects):
            return None
        try:
            return await find_owner(self.client, namespace=self.settings.namespace, pod_name=self.pod_name, level=None)
        except TonnageError as exc:
            _log.warning(
                "The owner of this program's pod cannot be found; created objects belong to their node or class",
                error=exc.message,
                remedy="see that POD_NAME and NAMESPACE are the pod's, and that it may get pods and replicasets",
            )
            return None

    async def _follow_own(self) -> None:
        self._has_kind = True
        self._own.start()
        await self._own.wait_synced()

    async def _missing_kind(self) -> Resource | None:
        """A kind of the source that the server does not have. Raises TonnageError if it does not answer."""
        for kind in self.source.kinds:
            try:
                listed = read_doc("APIResourceList", await self.client.raw("GET", kind.root)).get("resources") or ()
            except NotFound:
                return kind
            if not any(document.dig(each, "name") == kind.plural for each in listed if isinstance(each, dict)):
                return kind
        return None

    async def _wait_for(self, kind: Resource) -> None:
        _log.warning(
            "The driver's kind is not there yet; it is waited for",
            kind=kind.qualified,
            remedy="install the driver, or name another --source",
        )
        backoff = Backoff(clock=self.clock, rng=self.rng)
        while True:
            await self.clock.sleep(backoff.next_s())
            try:
                if await self._missing_kind() is None:
                    return await self._follow_own()
            except TonnageError as exc:
                _log.debug("Cannot find out what is served", error=exc.message)

    async def _run_command(self, command: Command) -> None:
        told_once, good_at_s = writing.ToldOnce(), self.clock.monotonic()
        while True:
            started_at, output, problems = self.clock.now(), None, list[str]()
            try:
                output = await run_command(command.words, clock=self.clock, timeout_s=command.timeout_s)
                result, good_at_s = "good", self.clock.monotonic()
            except (CommandFailed, InvalidOutput) as exc:
                result = exc.reason if isinstance(exc, CommandFailed) else "no-pools"
                problems.append(exc.message)
            self._metrics.ran(result)
            told_once.tell(f"--command {command.words[0]}", problems)
            source = new = self.controller.source
            if isinstance(source, CommandPools):
                if output is not None:
                    new = replace(source, output=output, observed_at=started_at, silent_since=None)
                elif self.clock.monotonic() - good_at_s > self.settings.drop_after_s:
                    new = replace(source, output=None)
                elif source.output is not None and source.silent_since is None:
                    new = replace(source, silent_since=started_at)
            if new != source:
                self.controller.source = new
                self.controller.look_again()
            await self.clock.sleep(jittered(command.interval_s, 0.1, self.rng))
