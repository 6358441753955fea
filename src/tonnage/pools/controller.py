"""Keeps the annotations of capacity objects, and of their classes, as `wanted.py` says.

    a capacity object    looked at when it changes, when its class, its node or what is told about its node changes, and
                         when a time is due (a silent source is marked, then dropped)
    a class              looked at, all classes together and not more often than every few seconds, when any of that
                         changes: which policy its driver has, with which others it shares disks

A write that the server does not need is not sent. Everything is written by server-side apply as one set of fields: what
is not in it any more goes. On classes it is not forced: what an admin wrote there stays, and is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from tonnage import logs
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.client.reconciler import Reconciler
from tonnage.clock import Clock
from tonnage.errors import Conflict, Forbidden, NotFound, TonnageError
from tonnage.objects.document import Doc
from tonnage.objects.meta import Document, Key, Object
from tonnage.objects.storage_v1 import CAPACITY_GROUP, POOL_POLICY, CSINode, CSIStorageCapacity, StorageClass
from tonnage.pools.class_pools import ClassPools, NodePools, Published, Source
from tonnage.pools.metrics import PoolsMetrics
from tonnage.pools.reading import annotations_of, node_of
from tonnage.pools.settings import PROGRAM, Settings
from tonnage.pools.told_once import ToldOnce
from tonnage.pools.wanted import OF_CLASSES, NodeIndex, Sharing, groups_of, is_kept_by_provisioner, ours_of, wanted_of

_CLASS_PAUSE_S: Final = 2.0
"""Between two looks at all classes."""
_LOOK_EVERY_S: Final = 60.0

_log = logs.logger("tonnage.pools")


class PoolsController:
    """One source, for the classes of its drivers."""

    def __init__(
        self,
        client: Client,
        source: Source,
        settings: Settings,
        *,
        capacities: Cache[CSIStorageCapacity],
        classes: Cache[StorageClass],
        nodes: Cache[Document],
        csi_nodes: Cache[CSINode],
        objects: Cache[Document] | None,
        clock: Clock,
        metrics: PoolsMetrics,
    ) -> None:
        self.source = source
        """May be replaced by one that knows more (`--source command`): then `look_again` is called."""
        self._client = client
        self._settings = settings
        self._capacities = capacities
        self._classes = classes
        self._nodes = nodes
        self._csi_nodes = csi_nodes
        self._objects = objects
        self._clock = clock
        self._metrics = metrics
        self._index = NodeIndex()
        self._keys_at: dict[str, set[Key]] = {}
        """Capacity objects by the node they reach."""
        self._node_of: dict[Key, str] = {}
        self._told_about: dict[str, dict[Key, Doc]] = {}
        """The source's objects by what they are named after."""
        self._silent_since: dict[str, datetime] = {}
        """Nodes on which the driver's own program is gone."""
        self._states: dict[Key, str] = {}
        self._sent: dict[str, tuple[object, ...]] = {}
        """By class, what was found and what was sent last."""
        self._problems = ToldOnce()
        self._classes_changed = asyncio.Event()
        self.work = Reconciler("pools", self._reconcile, clock=clock, workers=settings.workers, first_retry_s=0.5)
        for node in nodes:
            self._index.put(node.name, node.metadata.labels)
        for found in objects or ():
            self._told(found)
        self._follow()

    async def run(self) -> None:
        """Work until cancelled."""
        self.look_again()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.work.run())
            tasks.create_task(self._keep_classes())
            tasks.create_task(self._look_now_and_then())

    async def remove(self) -> int:
        """Take away everything that this program wrote, from all objects of its drivers' classes; how many had it."""
        removed = 0
        classes = {each.name: each for each in self._classes if each.provisioner in self._settings.drivers}
        for capacity in list(self._capacities):
            if capacity.storage_class_name in classes and ours_of(capacity):
                await self._apply(capacity, {})
                removed += 1
        for storage_class in classes.values():
            await self._apply_to_class(storage_class, {})
        return removed

    def look_again(self) -> None:
        """Everything may be different."""
        for capacity in self._capacities:
            self.work.add(capacity.key)
        self._classes_changed.set()

    # -- what changes -------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        self._capacities.add_handlers(
            on_add=lambda new: self.work.add(new.key),
            on_update=lambda _, new: self.work.add(new.key),
            on_delete=self._gone,
        )
        self._classes.on_change(lambda _: self.look_again())
        self._nodes.add_handlers(on_add=self._node_came, on_update=self._node_changed, on_delete=self._node_gone)
        self._csi_nodes.on_change(lambda found: self._look_at_node(found.name))
        if self._objects is not None:
            self._objects.add_handlers(
                on_add=self._object_came, on_update=lambda _, new: self._object_came(new), on_delete=self._object_gone
            )

    def _gone(self, capacity: CSIStorageCapacity) -> None:
        self._place(capacity.key, "")
        self._states.pop(capacity.key, None)
        self._problems.forget(f"CSIStorageCapacity {capacity.key}")

    def _node_came(self, node: Document) -> None:
        self._index.put(node.name, node.metadata.labels)
        self.look_again()

    def _node_changed(self, old: Document, new: Document) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._node_came(new)
        elif annotations_of(_doc(old)) != annotations_of(_doc(new)):
            self._look_at_node(new.name)

    def _node_gone(self, node: Document) -> None:
        self._index.remove(node.name)
        self._silent_since.pop(node.name, None)
        self.look_again()

    def _object_came(self, found: Document) -> None:
        self._told(found)
        self._look_at_named(found)

    def _object_gone(self, found: Document) -> None:
        about = self._told_about.get(node_of(_doc(found)), {})
        about.pop(found.key, None)
        self._look_at_named(found)

    def _told(self, found: Document) -> None:
        self._told_about.setdefault(node_of(_doc(found)), {})[found.key] = _doc(found)

    def _look_at_named(self, found: Document) -> None:
        name = node_of(_doc(found))
        if name in self._nodes:
            self._look_at_node(name)
        else:  # named by what a node is called elsewhere
            self.look_again()

    def _look_at_node(self, name: str) -> None:
        for key in self._keys_at.get(name, ()):
            self.work.add(key)
        self._classes_changed.set()

    def _place(self, key: Key, node: str) -> None:
        before = self._node_of.pop(key, "")
        if before:
            self._keys_at[before].discard(key)
            if not self._keys_at[before]:
                del self._keys_at[before]
        if node:
            self._node_of[key] = node
            self._keys_at.setdefault(node, set()).add(key)

    # -- one capacity object ------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        capacity = self._capacities.get(key)
        if capacity is None:
            return None
        storage_class = self._classes.get(capacity.storage_class_name)
        is_ours = storage_class is not None and storage_class.provisioner in self._settings.drivers
        if storage_class is None or not is_ours:
            self._place(key, "")
            # Another copy of this program, for another driver, keeps objects of its own classes.
            if storage_class is None and self._is_of_this_source(capacity):
                await self._apply(capacity, {})
            return None
        found, problems = self._pools_of(capacity, storage_class)
        if is_kept_by_provisioner(capacity):
            problems = ["its pools are written by another program, its driver's provisioner: they are left alone"]
        stale_since = self._stale_since(key) if found is not None else None
        left_s = None if stale_since is None else self._left_s(stale_since)
        if left_s is not None and left_s <= 0:
            found, problems = None, [*problems, f"its source has been silent since {stale_since:%Y-%m-%dT%H:%M:%SZ}"]
        self._problems.tell(f"CSIStorageCapacity {key}", problems)
        wanted = wanted_of(
            capacity,
            found,
            source=self.source.name,
            keep_free=self._settings.keep_free,
            stale_since=stale_since,
        )
        self._states[key] = "none" if not wanted else "kept" if stale_since is None else "stale"
        self._show()
        await self._apply(capacity, wanted)
        return left_s if left_s is not None and left_s > 0 else None

    def _is_of_this_source(self, capacity: CSIStorageCapacity) -> bool:
        driver = capacity.metadata.labels.get("csi.storage.k8s.io/drivername", "")
        return driver in self._settings.drivers

    def _pools_of(
        self, capacity: CSIStorageCapacity, storage_class: StorageClass
    ) -> tuple[NodePools | None, list[str]]:
        """The pools of an object's class on its one node; None where they are not known, and why that is odd."""
        names = self._index.selected(capacity.node_topology)
        if len(names) != 1:
            self._place(capacity.key, "")
            told = f"its nodeTopology reaches {len(names)} nodes; pools are told of objects that reach one"
            return None, [told] if names else []
        (name,) = names
        self._place(capacity.key, name)
        node = self._nodes.get(name)
        if node is None:
            return None, []
        published = Published([_doc(node)], list(self._objects_about(_doc(node))))
        return self.source.pools_of(storage_class, published).by_node.get(name), []

    def _objects_about(self, node: Doc) -> Iterable[Doc]:
        for name in self.source.names_of(node):
            yield from self._told_about.get(name, {}).values()

    # -- silence ------------------------------------------------------------------------------------------------------

    def _stale_since(self, key: Key) -> datetime | None:
        """Since when nobody keeps true what is told about an object's node; None: somebody does."""
        name = self._node_of.get(key, "")
        if self._has_agent(name):
            self._silent_since.pop(name, None)
        else:
            self._silent_since.setdefault(name, self._clock.now())
        times = [self._silent_since.get(name), self._out_of_step_since(), self.source.silent_since]
        return min((each for each in times if each is not None), default=None)

    def _has_agent(self, node: str) -> bool:
        """Whether the driver is registered on the node; where the cluster tells nothing about the node, it may be."""
        found = self._csi_nodes.get(node)
        if found is None or not self.source.has_agent:
            return True
        return any(found.driver(driver) is not None for driver in self._settings.drivers)

    def _out_of_step_since(self) -> datetime | None:
        """Since when the source's objects cannot be followed."""
        if not isinstance(self._objects, Informer) or self._objects.out_of_step_since_s is None:
            return None
        silent_s = self._clock.monotonic() - self._objects.out_of_step_since_s
        # Streams come and go: a moment is no silence.
        return self._clock.now() - timedelta(seconds=silent_s) if silent_s > self._settings.drop_after_s / 2 else None

    async def _look_now_and_then(self) -> None:
        """Silence makes no event."""
        while True:
            await self._clock.sleep(min(self._settings.drop_after_s / 4, _LOOK_EVERY_S))
            self.look_again()

    def _left_s(self, since: datetime) -> float:
        return self._settings.drop_after_s - (self._clock.now() - since).total_seconds()

    # -- classes ------------------------------------------------------------------------------------------------------

    async def _keep_classes(self) -> None:
        while True:
            await self._classes_changed.wait()
            self._classes_changed.clear()
            try:
                await self.reconcile_classes()
            except TonnageError as exc:
                _log.warning("Classes cannot be written; it is tried again", error=exc.message)
                self._classes_changed.set()
            await self._clock.sleep(_CLASS_PAUSE_S)

    async def reconcile_classes(self) -> None:
        """Look at every class once. Raises TonnageError when the server cannot be written."""
        nodes = [_doc(each) for each in self._nodes]
        published = Published(nodes, [doc for about in self._told_about.values() for doc in about.values()])
        classes = {each.name: each for each in self._classes if each.provisioner in self._settings.drivers}
        found: dict[str, ClassPools] = {}
        for name, storage_class in classes.items():
            found[name] = self.source.pools_of(storage_class, published)
            self._problems.tell(f"StorageClass {name}", found[name].problems)
        groups = groups_of(classes, found)
        told = [] if self._settings.sets_groups else _ungrouped(classes, groups)
        self._problems.tell("StorageClasses", [*groups.problems, *told])
        self._show()
        for name, storage_class in classes.items():
            wanted: dict[str, str] = {}
            if self._settings.sets_policy and (policy := self._settings.policy or found[name].policy):
                wanted[POOL_POLICY] = policy
            if self._settings.sets_groups and name in groups.group_of:
                wanted[CAPACITY_GROUP] = groups.group_of[name]
            await self._apply_to_class(storage_class, wanted)

    async def _apply_to_class(self, storage_class: StorageClass, wanted: dict[str, str]) -> None:
        found = {key: text for key, text in storage_class.metadata.annotations.items() if key in OF_CLASSES}
        # What stands there and is not ours stays, so that one look at it cannot tell whether anything is left to do:
        # the same is not sent twice.
        sent = (storage_class.uid, tuple(sorted(found.items())), tuple(sorted(wanted.items())))
        if found == wanted or self._sent.get(storage_class.name) == sent:
            return
        thing, problems = f"StorageClass {storage_class.name} annotations", []
        try:
            try:
                await self._send(storage_class, wanted, force=False)
            except Conflict:
                theirs = [key for key, text in wanted.items() if found.get(key, text) != text]
                if not theirs:
                    raise
                problems = [f"{key} is {found[key]}, which somebody else wrote: it is left so" for key in theirs]
                await self._send(storage_class, {key: wanted[key] for key in wanted.keys() - theirs}, force=False)
        except NotFound:
            return
        except Forbidden as exc:
            problems = [f"may not be written: {exc.message}; allow it, or start with --no-set-pool-policy"]
        self._sent[storage_class.name] = sent
        self._problems.tell(thing, problems)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _apply(self, capacity: CSIStorageCapacity, wanted: dict[str, str]) -> None:
        if ours_of(capacity) != wanted:
            with suppress(NotFound):
                await self._send(capacity, wanted, force=True)

    async def _send(self, found: Object, wanted: dict[str, str], *, force: bool) -> None:
        kind = type(found).__name__
        patch: Doc = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": kind,
            "metadata": {
                "name": found.name,
                # Of this life of it: an apply to what is gone would make it.
                "uid": found.uid,
                **({"namespace": found.metadata.namespace} if found.metadata.namespace else {}),
                **({"annotations": wanted} if wanted else {}),
            },
        }
        try:
            await self._client.patch(
                type(found), found.key, patch, patch_type="apply", field_manager=PROGRAM, force=force
            )
        except TonnageError:
            self._metrics.wrote(kind, "failed")
            raise
        self._metrics.wrote(kind, "written" if wanted else "taken-away")
        _log.info("Annotated" if wanted else "Annotations taken away", object=f"{kind} {found.key}", annotations=wanted)

    def _show(self) -> None:
        states: dict[str, int] = {}
        for state in self._states.values():
            states[state] = states.get(state, 0) + 1
        self._metrics.show(states, len(self._problems))


def _ungrouped(classes: Mapping[str, StorageClass], groups: Sharing) -> list[str]:
    """Classes that draw from the same disks, and do not say so."""
    by_group: dict[str, list[str]] = {}
    for name, group in groups.group_of.items():
        by_group.setdefault(group, []).append(name)
    return [
        f"{', '.join(names)} draw from the same disks, and what is promised of one is not counted in the others: "
        f"start with --set-capacity-groups, or annotate them with {CAPACITY_GROUP}={group}"
        for group, names in by_group.items()
        if any(classes[name].capacity_group != group for name in names)
    ]


def _doc(found: Document) -> Doc:
    return dict(found.doc)
