"""Keeps the annotations of capacity objects and of their classes, as `wanted.py` decides.

Those of classes (their driver's policy and sizes, and with which classes they share disks) are applied without force:
what an admin wrote stays, and is reported.

What the source tells is read for all classes and nodes at once, after any change, with a pause between two readings
that grows with their cost. A capacity object is looked at when it, its class or what was found for its node changes,
and when a time is due.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from tonnage import logs
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.client.reconciler import Reconciler
from tonnage.clock import Clock, StampAges, repeatedly
from tonnage.errors import Conflict, Forbidden, NotFound, TonnageError
from tonnage.objects.document import Doc
from tonnage.objects.meta import Document, Key
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import CAPACITY_DRIVER, CSINode, CSIStorageCapacity, StorageClass
from tonnage.pools import reading, writing
from tonnage.pools.class_pools import ClassPools, NodePools, PoolSource, Published
from tonnage.pools.created_objects import ObjectKeeper, Watched, is_created
from tonnage.pools.settings import PoolsSettings
from tonnage.pools.wanted import OF_CLASSES, groups_of, is_kept_by_provisioner, ours_of, wanted_of, wanted_of_class

_CLASS_PAUSE_S: Final = 2.0
_LEAST_PAUSE_S: Final = 0.2
_PAUSE_SHARE: Final = 4
"""A pause between two readings is so many times as long as a reading took."""
_LOOK_EVERY_S: Final = 60.0
_ALL_NODES: Final = "*"
"""The place of an object that reaches all nodes; no node has this name."""
_EVERYWHERE: Final = LabelSelector()

_log = logs.logger("tonnage.pools")


class PoolsController:
    def __init__(
        self,
        client: Client,
        source: PoolSource,
        settings: PoolsSettings,
        *,
        watched: Watched,
        clock: Clock,
        metrics: writing.PoolsMetrics,
    ) -> None:
        self.source = source
        """May be replaced by one that knows more (`--source command`): then `look_again` is called."""
        self._settings = settings
        self._watched = watched
        self._clock = clock
        self._metrics = metrics
        self._node_of: dict[Key, str] = {}
        """By capacity object, the node that it reaches."""
        self._ages = StampAges(clock, most=1000)
        self._silent_nodes: dict[str, datetime] = {}
        """Nodes on which the driver's own program is gone."""
        self._states: dict[Key, str] = {}
        self._problems = writing.ToldOnce()
        self._writer = writing.AnnotationWriter(client, metrics)
        self._sent: dict[str, tuple[object, ...]] = {}
        """By class, the annotations seen and those sent last."""
        self.objects = ObjectKeeper(watched, self._writer, settings, self._problems, source.only_node)
        self._found: dict[str, ClassPools] = {}
        """By class, the pools found when the source was read last."""
        self._read_at = clock.now()
        self._changed = asyncio.Event()
        self._looks_at_all = False
        self._was_read = asyncio.Event()
        self._to_keep: tuple[Sequence[StorageClass], dict[str, ClassPools]] = (), {}
        """The classes when the source was read last, and their pools."""
        self.work = Reconciler(
            "pools",
            self._reconcile,
            clock=clock,
            workers=settings.workers,
            first_retry_s=0.5,
            metrics=metrics.queues,
        )
        self.work.follow(watched.capacities)
        watched.capacities.add_handlers(
            on_add=lambda _: self._changed.set(),
            on_update=lambda old, new: self._changed.set() if old.node_topology != new.node_topology else None,
            on_delete=self._gone,
        )
        watched.classes.on_change(lambda _: self.look_again())
        watched.nodes.add_handlers(
            on_add=lambda _: self.look_again(), on_update=self._node_changed, on_delete=self._node_gone
        )
        watched.csi_nodes.on_change(self._csi_node_changed)
        for kind in watched.objects:
            kind.on_change(lambda _: self._changed.set())

    async def run(self) -> None:
        self.look_again()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.work.run())
            tasks.create_task(self._read_source())
            tasks.create_task(self._keep_classes())
            # Neither silence nor time makes an event.
            every_s = min(self._settings.drop_after_s / 4, _LOOK_EVERY_S)
            tasks.create_task(repeatedly(self._clock, every_s, self.look_again))

    async def remove(self) -> int:
        """Remove all annotations of this program; returns how many capacity objects had them."""
        removed = 0
        for capacity in [each for each in self._watched.capacities if not is_created(each)]:
            if self._is_kept(self._watched.classes.get(capacity.storage_class_name)) and ours_of(capacity):
                with suppress(NotFound):
                    await self._writer.apply(capacity, {}, force=True)
                removed += 1
        # The classes first: a class that asks for capacity and has none gets no pods.
        for storage_class in filter(self._is_kept, list(self._watched.classes)):
            await self._apply_to_class(storage_class, {})
        return removed + await self.objects.remove()

    def look_again(self) -> None:
        """Read the source, then look at every object: anything may have changed."""
        self._looks_at_all = True
        self._changed.set()

    # -- what changes -------------------------------------------------------------------------------------------------

    def _gone(self, capacity: CSIStorageCapacity) -> None:
        self._node_of.pop(capacity.key, None)
        self._states.pop(capacity.key, None)
        self._problems.forget(f"CSIStorageCapacity {capacity.key}")
        self._changed.set()

    def _node_changed(self, old: Document, new: Document) -> None:
        if old.metadata.labels != new.metadata.labels:
            self.look_again()
        elif reading.annotations_of(_doc(old)) != reading.annotations_of(_doc(new)):
            self._changed.set()

    def _node_gone(self, node: Document) -> None:
        self._silent_nodes.pop(node.name, None)
        self.look_again()

    def _csi_node_changed(self, csi_node: CSINode) -> None:
        self._look_at({csi_node.name})
        self._changed.set()

    def _look_at(self, nodes: set[str]) -> None:
        for key, node in self._node_of.items():
            if node in nodes:
                self.work.add(key)

    # -- one capacity object ------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        capacity = self._watched.capacities.get(key)
        if capacity is None:
            return None
        storage_class = self._watched.classes.get(capacity.storage_class_name)
        if storage_class is None or not self._is_kept(storage_class):
            self._node_of.pop(key, None)
            # Another copy of this program, for another driver, keeps objects of its own classes.
            is_ours = capacity.metadata.labels.get(CAPACITY_DRIVER, "") in self._settings.drivers
            if storage_class is None and is_ours and not is_created(capacity):
                await self._apply(capacity, {})
            return None
        if is_created(capacity) and not self.objects.is_mine(capacity):
            return None
        before = self._node_of.get(key, "")
        pools, problems = self._pools_of(capacity, storage_class)
        if self.source.only_node and self.source.only_node not in (before, self._node_of.get(key, "")):
            return None  # the copy of this program that runs there keeps it
        if is_kept_by_provisioner(capacity):
            problems = ["its pools are written by another program, its driver's provisioner: they are left alone"]
        stale_since = self._silent_since(self._node_of.get(key, "")) if pools is not None else None
        age_s = 0.0 if stale_since is None else self._ages.age_s(stale_since, stale_since)
        left_s = None if stale_since is None else self._settings.drop_after_s - age_s
        if left_s is not None and left_s <= 0:
            pools, problems = None, [*problems, f"its source has been silent since {stale_since:%Y-%m-%dT%H:%M:%SZ}"]
        self._problems.tell(f"CSIStorageCapacity {key}", problems)
        wanted = wanted_of(
            capacity,
            pools,
            source=self.source.name,
            keep_free=self._settings.keep_free,
            now=self._read_at,
            check_every_s=self._settings.check_every_s,
            stale_since=stale_since,
        )
        self._states[key] = "none" if not wanted else "kept" if stale_since is None else "stale"
        self._show()
        if not is_created(capacity):
            await self._apply(capacity, wanted)
        elif pools is not None and wanted:
            labels = capacity.node_topology.match_labels if capacity.node_topology is not None else {}
            node = self._node_of.get(key, "").removeprefix(_ALL_NODES)
            await self._apply(capacity, wanted, self.objects.document(storage_class, node, labels, pools))
        else:
            self._changed.set()  # it is to be deleted
        return left_s if left_s is not None and left_s > 0 else None

    def _pools_of(
        self, capacity: CSIStorageCapacity, storage_class: StorageClass
    ) -> tuple[NodePools | None, list[str]]:
        """The pools of an object's class on its one node, None if unknown; and what is odd about that."""
        if is_created(capacity) and capacity.node_topology == _EVERYWHERE:
            self._node_of[capacity.key] = _ALL_NODES
            return self._found_of(storage_class).anywhere, []
        reached = self._watched.reached(capacity.node_topology)
        if len(reached) != 1:
            self._node_of.pop(capacity.key, None)
            told = f"its nodeTopology reaches {len(reached)} nodes; pools are published for objects that reach one"
            return None, [told] if reached else []
        (name,) = reached
        self._node_of[capacity.key] = name
        return self._found_of(storage_class).by_node.get(name), []

    def _found_of(self, storage_class: StorageClass) -> ClassPools:
        if storage_class.name not in self._found:
            self._found[storage_class.name] = self.source.pools_of(storage_class, self._published())
        return self._found[storage_class.name]

    def _published(self) -> Published:
        return Published(
            [_doc(node) for node in self._watched.nodes],
            [_doc(each) for kind in self._watched.objects for each in kind],
        )

    def _is_dropped(self, node: str) -> bool:
        """True if nobody has updated the data about a node for too long."""
        since = self._silent_since(node)
        return since is not None and self._ages.age_s(since, since) >= self._settings.drop_after_s

    def _silent_since(self, node: str) -> datetime | None:
        """Since when nobody updates the data about a node: its pools are marked as stale, and later removed.

        the driver is no longer registered on the node     by its CSINode; a node without CSINode does not count
        the source's objects cannot be watched             for longer than a watch needs to come back
        the source says so itself                          a program that is run, and fails
        """
        csi_node = self._watched.csi_nodes.get(node) if self.source.has_agent else None
        if csi_node is None or any(csi_node.driver(driver) is not None for driver in self._settings.drivers):
            self._silent_nodes.pop(node, None)
        else:
            self._silent_nodes.setdefault(node, self._clock.now())
        times = [self._silent_nodes.get(node), self._out_of_step_since(), self.source.silent_since]
        return min((each for each in times if each is not None), default=None)

    def _out_of_step_since(self) -> datetime | None:
        informers = [cache for cache in self._watched.objects if isinstance(cache, Informer)]
        times = [informer.out_of_step_since_s for informer in informers if informer.out_of_step_since_s is not None]
        if not times:
            return None
        silent_s = self._clock.monotonic() - min(times)
        return self._clock.now() - timedelta(seconds=silent_s) if silent_s > self._settings.drop_after_s / 2 else None

    # -- all classes and nodes ----------------------------------------------------------------------------------------

    async def _read_source(self) -> None:
        """Find the pools of every class after each change, and look at the objects on nodes where they changed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            started_at_s = self._clock.monotonic()
            self._read_at, classes = self._clock.now(), list(self._watched.classes)
            published = self._published()
            found = {each.name: self.source.pools_of(each, published) for each in classes if self._is_kept(each)}
            before, self._found = self._found, dict(found)
            for name in found.keys() | before.keys():
                now, then = _by_place(found.get(name)), _by_place(before.get(name))
                self._look_at({node for node in now.keys() | then.keys() if now.get(node) != then.get(node)})
            for name, pools in found.items():
                self._problems.tell(f"StorageClass {name}", pools.problems)
            if self._looks_at_all:
                self._looks_at_all = False
                for capacity in self._watched.capacities:
                    self.work.add(capacity.key)
            self._to_keep = classes, found
            self._was_read.set()
            took_s = self._clock.monotonic() - started_at_s
            await self._clock.sleep(max(_LEAST_PAUSE_S, _PAUSE_SHARE * took_s))

    async def _keep_classes(self) -> None:
        while True:
            await self._was_read.wait()
            self._was_read.clear()
            classes, found = self._to_keep
            try:
                # Objects first: a class that asks for capacity and has none gets no pods.
                await self.objects.keep(classes, found, self._is_dropped)
                await self._annotate_classes({each.name: each for each in classes if each.name in found}, found)
                self._show()
            except TonnageError as exc:
                _log.warning("Classes cannot be written; it is tried again", error=exc.message)
                self._changed.set()
            await self._clock.sleep(_CLASS_PAUSE_S)

    def _is_kept(self, storage_class: StorageClass | None) -> bool:
        return storage_class is not None and storage_class.provisioner in self._settings.drivers

    async def _annotate_classes(self, classes: dict[str, StorageClass], found: dict[str, ClassPools]) -> None:
        """Look at every class once. Raises TonnageError if a write fails."""
        problems: list[str] = []
        group_of = groups_of(classes, found, problems) if self._settings.sets_groups else {}
        self._problems.tell("StorageClasses", problems)
        for name, each in classes.items():
            group = group_of.get(name, "")
            wanted = wanted_of_class(each, found[name], self._settings, source=self.source, group=group)
            await self._apply_to_class(each, wanted)

    async def _apply_to_class(self, storage_class: StorageClass, wanted: dict[str, str]) -> None:
        found = {key: text for key, text in storage_class.metadata.annotations.items() if key in OF_CLASSES}
        # What others wrote stays, so the annotations alone do not tell whether anything is left to do: the same is not
        # sent twice.
        sent = (storage_class.uid, tuple(sorted(found.items())), tuple(sorted(wanted.items())))
        if found == wanted or self._sent.get(storage_class.name) == sent:
            return
        problems, node = [], self.source.only_node
        try:
            try:
                await self._writer.apply(storage_class, wanted, force=False, on_behalf_of=node)
            except Conflict:
                theirs = [key for key, text in wanted.items() if found.get(key, text) != text]
                if not theirs:
                    raise
                problems = [f"{key} is {found[key]}, which another program wrote: it stays" for key in theirs]
                ours = {key: wanted[key] for key in wanted.keys() - theirs}
                await self._writer.apply(storage_class, ours, force=False, on_behalf_of=node)
        except NotFound:
            return
        except Forbidden as exc:
            problems = [
                f"may not be written: {exc.message}; allow it, or start with --no-set-pool-policy --no-set-size-rules"
            ]
        self._sent[storage_class.name] = sent
        self._problems.tell(f"StorageClass {storage_class.name} annotations", problems)

    async def _apply(self, capacity: CSIStorageCapacity, wanted: dict[str, str], whole: Doc | None = None) -> None:
        """Write the annotations if the object is still as it was seen.

        The new leader or the provisioner may have written since: older pools would give away what is taken. Then an
        event for the newer object is on its way.
        """
        has_figures = whole is None or (str(capacity.capacity), str(capacity.maximum_volume_size)) == (
            whole["capacity"],
            whole["maximumVolumeSize"],
        )
        if ours_of(capacity) != wanted or not has_figures:
            with suppress(NotFound, Conflict):
                await self._writer.apply(capacity, wanted, force=True, only_as_seen=True, whole=whole)

    def _show(self) -> None:
        self._metrics.show(Counter(self._states.values()), len(self._problems))


def _by_place(found: ClassPools | None) -> dict[str, NodePools | None]:
    return {**found.by_node, _ALL_NODES: found.anywhere} if found is not None else {}


def _doc(found: Document) -> Doc:
    return dict(found.doc)
