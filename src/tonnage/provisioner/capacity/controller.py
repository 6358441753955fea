"""The capacity controller: keeps one CSIStorageCapacity per topology segment and StorageClass of a driver.

    CSINodes, Nodes ──► segments ─┐
                                  ├──► work items ──► GetCapacity ──► make, change, or leave as it is
    StorageClasses ───────────────┘        ▲   │
       poll interval, refresh(), ──────────┘   └──► no longer wanted, or a second object: delete
       objects touched by others

Our objects are found again by labels, topology and class. While a driver fails, its objects stay as they are. Mirrors
external-provisioner's pkg/capacity, but others' changes of an object are corrected after a second.

A server without KEP-5925 drops `availableCapacities`. So the answer to a write is compared with the request; if the
field was dropped, pools go into an annotation, and the field is tried again after ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from prometheus_client import CollectorRegistry

from tonnage import errors, keyed, logs
from tonnage.client import cache, http, metrics, throttle
from tonnage.client.informers import Informers
from tonnage.client.reconciler import Reconciler
from tonnage.clock import Clock
from tonnage.csi.client import CsiClient
from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, OwnerReference
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, CSINode, CSIStorageCapacity, StorageClass
from tonnage.provisioner.capacity import objects
from tonnage.provisioner.metrics import Ages, Counts, show_capacity

_NEVER = datetime.max.replace(tzinfo=UTC)


class PublishedCapacities:
    """Capacity objects by work item. Class and topology of an object never change."""

    def __init__(self, shown: cache.Cache[CSIStorageCapacity]) -> None:
        self._objects = shown
        self._by_item: dict[Key, dict[str, CSIStorageCapacity]] = {}
        shown.add_handlers(on_add=self.note, on_update=lambda _, new: self.note(new), on_delete=self.forget)

    def about(self, key: Key) -> list[CSIStorageCapacity]:
        """The objects of a work item, the one to keep first: the oldest, then by name."""
        found = self._by_item.get(key, {}).values()
        alive = (capacity for capacity in found if not capacity.metadata.is_terminating)
        return sorted(alive, key=lambda each: (each.metadata.creation_timestamp or _NEVER, each.name))

    def __iter__(self) -> Iterator[Key]:
        """The work items that have an object."""
        return iter(tuple(self._by_item))

    def __contains__(self, key: Key) -> bool:
        return key in self._by_item

    def is_confirmed(self, found: CSIStorageCapacity) -> bool:
        """True if the informer has shown this object, in this or an earlier version."""
        shown = self._objects.get(found.key)
        return shown is not None and shown.uid == found.uid

    def note(self, found: CSIStorageCapacity) -> None:
        """Take an object from the server, unless a newer version of it is known."""
        known = self._by_item.setdefault(objects.key_of(found), {})
        before = known.get(found.uid)
        if before is None or found.metadata.revision >= before.metadata.revision:
            known[found.uid] = found

    def forget(self, found: CSIStorageCapacity) -> None:
        key = objects.key_of(found)
        known = self._by_item.get(key, {})
        known.pop(found.uid, None)
        if not known:
            self._by_item.pop(key, None)


_OFFER_AGAIN_S: Final = 600.0
_OLD_S: Final = 0.1
"""A report that waited this long for its write is asked for again."""

_log = logs.logger("tonnage.provisioner")


@dataclass(kw_only=True, eq=False)
class CapacityWriter:
    """Creates, patches and deletes objects for the capacity controller, and notes them as published."""

    client: http.Client
    published: PublishedCapacities
    namespace: str
    labels: Mapping[str, str]
    owner: OwnerReference | None
    limit: throttle.TokenBucket | None
    clock: Clock

    def __post_init__(self) -> None:
        self._dropped_at: float | None = None

    @property
    def is_dropped(self) -> bool:
        """True if the server is known to drop the field of pools."""
        return self._dropped_at is not None and self.clock.monotonic() - self._dropped_at < _OFFER_AGAIN_S

    def patch_for(self, found: CSIStorageCapacity, reported: objects.ReportedCapacity) -> Doc:
        """The patch that brings an object to the report; empty if it matches."""
        return objects.patch_for(found, reported, owner=self.owner, is_dropped=self.is_dropped)

    async def waited_for_turn(self) -> bool:
        """Return when another write may be sent; True if that took so long that the report is outdated."""
        if self.limit is None:
            return False
        since = self.clock.monotonic()
        await self.limit.take()
        return self.clock.monotonic() - since > _OLD_S

    async def write(
        self, item: objects.WorkItem, found: CSIStorageCapacity | None, reported: objects.ReportedCapacity
    ) -> CSIStorageCapacity:
        """Create the object, or patch it if still needed; returns the server's version. Raises ApiError."""
        had_field = found is not None and bool(found.available_capacities)
        offers_field = bool(reported.pools) and reported.adds_pools and not had_field and not self.is_dropped
        if found is None:
            wanted = objects.new_object(
                item,
                reported,
                namespace=self.namespace,
                labels=self.labels,
                owner=self.owner,
                is_dropped=self.is_dropped,
            )
            try:
                written = await self.client.create(wanted)
            except errors.NotFound as exc:
                # Elsewhere NotFound means that the object is gone; here the namespace is missing.
                raise errors.TonnageError(
                    f'capacity objects cannot be made: there is no namespace "{self.namespace}"',
                    hint=f"create it (kubectl create namespace {self.namespace}), or name another",
                ) from exc
        else:
            change = self.patch_for(found, reported)
            if not change:
                return found
            metadata = {**change.get("metadata", {}), "resourceVersion": found.metadata.resource_version}
            written = await self.client.patch(CSIStorageCapacity, found.key, {**change, "metadata": metadata})
        self.published.note(written)
        if offers_field:
            is_kept = bool(written.available_capacities)
            if not is_kept and self._dropped_at is None:
                _log.info(
                    "The API server drops availableCapacities; pools are written as an annotation",
                    annotation=AVAILABLE_CAPACITIES,
                )
            self._dropped_at = None if is_kept else self.clock.monotonic()
        _log.debug("Published", object=written.key, item=item.key, reported=reported)
        return written

    async def confirmed(self, found: CSIStorageCapacity) -> CSIStorageCapacity | None:
        """The object, fetched if the informer has never shown it; None if it is gone."""
        if self.published.is_confirmed(found):
            return found
        current = await self.client.find(CSIStorageCapacity, found.key)
        if current is None:
            self.published.forget(found)
        return current

    async def delete(self, found: CSIStorageCapacity) -> None:
        """Delete this object, but not a later one of the same name."""
        await self.waited_for_turn()
        _log.info("A capacity object is deleted", object=found.key, item=objects.key_of(found))
        with suppress(errors.NotFound):
            await self.client.delete(CSIStorageCapacity, found.key, uid=found.uid)
        self.published.forget(found)


_MOST_WRITES: Final = 2
"""Writes per report: the field of pools turns out to be dropped (or kept), so the annotation is added (or removed)."""


@dataclass(frozen=True, kw_only=True)
class CapacitySettings:
    """How capacity is published: external-provisioner's flags, with its defaults."""

    namespace: str
    """Namespace of the objects: the provisioner's own, env NAMESPACE."""
    managed_by: str = objects.MANAGER
    """`objects.manager_on(node)` in node-deployment mode."""
    with_pools: bool = True
    """The gate CSIStorageCapacityV2."""
    for_immediate_binding: bool = False
    poll_interval_s: float = 60.0
    threads: int = 1
    first_retry_s: float = 1.0
    max_retry_s: float = 300.0
    qps: float = 1.0
    """Writes per second; 0 is no limit."""
    burst: int = 5


class CapacityController:
    def __init__(
        self,
        client: http.Client,
        driver: CsiClient,
        informers: Informers,
        *,
        driver_name: str,
        settings: CapacitySettings,
        clock: Clock,
        owner: OwnerReference | None = None,
        fixed_segment: objects.Segment | None = None,
        registry: CollectorRegistry | None = None,
        queues: metrics.WorkQueueMetrics | None = None,
    ) -> None:
        """Asks for informers; their owner starts them, and runs this when they are synced. `fixed_segment` is
        node-deployment mode."""
        self.driver_name = driver_name
        self.settings = settings
        self._driver = driver
        self._fixed_segment = fixed_segment
        self._needs_ids = False
        """True if the driver's classes may have some pools in common: there are several, not all of one group."""
        self._wanted: dict[Key, objects.WorkItem] = {}
        self._keys_by_segment: dict[objects.Segment, list[Key]] = {}
        self._reported: dict[Key, objects.ReportedCapacity] = {}
        self._clock = clock
        self._confirmed_s: dict[Key, float] = {}
        """When the driver last reported on a wanted item, else since when it is wanted, in monotonic seconds."""
        self._included = objects.IncludedClaims(clock)
        self._segments_work = Reconciler("csitopology", self._find_work_items, clock=clock, workers=1, metrics=queues)
        self._work = Reconciler(
            "csistoragecapacity",
            self._reconcile,
            clock=clock,
            workers=settings.threads,
            first_retry_s=settings.first_retry_s,
            max_retry_s=settings.max_retry_s,
            metrics=queues,
        )
        labels = objects.labels_of(driver_name, settings.managed_by)
        self._classes = informers.of(StorageClass)
        self._objects = informers.of(
            CSIStorageCapacity,
            namespace=settings.namespace,
            label_selector=",".join(f"{key}={value}" for key, value in labels.items()),
        )
        self._volumes = informers.of(PersistentVolume)
        if fixed_segment is None:
            self._nodes, self._csi_nodes = informers.of(Node), informers.of(CSINode)
        self._published = PublishedCapacities(self._objects)
        self._writer = CapacityWriter(
            client=client,
            published=self._published,
            namespace=settings.namespace,
            labels=labels,
            owner=owner,
            limit=throttle.TokenBucket(settings.qps, settings.burst, clock=clock) if settings.qps else None,
            clock=clock,
        )
        self._objects.on_change(self._on_object)
        self._classes.on_change(self._on_class)
        self._volumes.add_handlers(on_add=self._on_new_volume, on_update=self._on_volume)
        if fixed_segment is None:
            follow = self._segments_work.follow
            follow(self._nodes, lambda _: ("",), changed_by=lambda node: node.metadata.labels)
            follow(self._csi_nodes, lambda _: ("",), changed_by=lambda node: objects.topology_keys(node, driver_name))
        if registry is not None:
            show_capacity(registry, self.counts, self.ages)

    async def run(self) -> None:
        # Before the first look at an object: which of them nobody needs is known only now.
        await self._find_work_items("")
        await asyncio.gather(self._segments_work.run(), self._work.run())

    async def wait_idle(self) -> None:
        """Return when no work is due now; work due later does not count."""
        await self._segments_work.queue.wait_idle()
        await self._work.queue.wait_idle()

    def refresh(self, storage_class: str) -> None:
        """Ask the driver again, at once, about this class and the classes that share its pools."""
        for key in self._keys_about(storage_class, None):
            self._work.add(key)

    def refresh_volume(self, volume: PersistentVolume) -> None:
        """Ask again about every class where a volume is or was; the next report names its claim as included."""
        for segment in objects.segments_of_volume(volume) or (None,):
            for key in self._keys_about(volume.spec.storage_class_name, segment):
                if self.settings.with_pools and volume.spec.claim_ref is not None:
                    self._included.note(key, volume.spec.claim_ref.uid)
                self._work.add(key)

    def _keys_about(self, storage_class: str, segment: objects.Segment | None) -> list[Key]:
        known = None if segment is None else self._keys_by_segment.get(segment)
        if known is None and segment is not None:  # of an unknown segment: those of all segments that overlap it
            keys_by_segment = self._keys_by_segment.items()
            known = [key for other, keys in keys_by_segment if other.overlaps(segment) for key in keys]
        if known:
            return known
        named = self._classes.get(storage_class)
        group = named.capacity_group if named is not None else ""
        classes = {each.name for each in self._classes if group and each.capacity_group == group} | {storage_class}
        return [key for key, each in self._wanted.items() if each.storage_class in classes]

    def counts(self) -> Counts:
        """Counts of objects; `goal` is 0 until the informers are synced."""
        answered = [key for key in self._published if self._published.about(key)]
        current = sum(key in self._wanted for key in answered)
        obsolete = sum(len(self._published.about(key)) for key in answered if key not in self._wanted)
        return Counts(goal=len(self._wanted), current=current, obsolete=obsolete)

    def ages(self) -> Ages:
        """The age of the driver's last report on every wanted object; without a report, since when it is wanted."""
        now_s = self._clock.monotonic()
        ages_s = tuple(now_s - self._confirmed_s[key] for key in self._wanted)
        return Ages(ages_s, self.settings.poll_interval_s)

    # -- event handlers-----------------------------------------------------------------------------------------------

    def _on_class(self, found: StorageClass) -> None:
        self._segments_work.add("")
        self.refresh(found.name)  # a class that was deleted and recreated may have other parameters

    def _on_new_volume(self, new: PersistentVolume) -> None:
        for key in self._included.created(new.metadata.creation_timestamp):
            self._work.add(key)

    def _on_volume(self, old: PersistentVolume, new: PersistentVolume) -> None:
        """A volume rebuilt elsewhere gets another node affinity (KEP-5925): ask about both places."""
        is_ours = new.spec.csi is not None and new.spec.csi.driver == self.driver_name
        places = objects.segments_of_volume(new)
        if is_ours and places and places != objects.segments_of_volume(old):
            if new.spec.claim_ref is not None:
                self._included.moved(new.spec.claim_ref.uid)
            if self._fixed_segment in (None, *places):
                self.refresh_volume(new)
            self.refresh(new.spec.storage_class_name)

    def _on_object(self, found: CSIStorageCapacity) -> None:
        """Enqueue an object unless it is as we wrote it: our own writes arrive here, too."""
        key = objects.key_of(found)
        known, reported = self._published.about(key), self._reported.get(key)
        if key not in self._wanted or reported is None or len(known) != 1:
            self._work.add(key)
        elif self._writer.patch_for(known[0], reported):
            # With a delay: whoever changed it may do so again, and two correctors must not race.
            self._work.queue.add_after(key, self.settings.first_retry_s)

    # -- reconcile ----------------------------------------------------------------------------------------------------

    async def _find_work_items(self, _: Key) -> None:
        """Compute which objects must exist; enqueue new and unwanted ones."""
        if self._fixed_segment is None:
            segments = objects.find_segments(self.driver_name, self._csi_nodes, self._nodes.get)
        else:
            segments = frozenset({self._fixed_segment})
        immediate = self.settings.for_immediate_binding
        before = self._wanted
        self._wanted = objects.work_items(self.driver_name, self._classes, segments, for_immediate_binding=immediate)
        now_s = self._clock.monotonic()
        self._confirmed_s = {key: self._confirmed_s.get(key, now_s) for key in self._wanted}
        self._keys_by_segment = keyed.grouped((item.segment, key) for key, item in self._wanted.items())
        self._note_known_volumes(self._wanted.keys() - before.keys())
        classes = [each for each in self._classes if each.provisioner == self.driver_name]
        groups = {each.capacity_group or f"class {each.name}" for each in classes}
        needed_ids, self._needs_ids = self._needs_ids, len(groups) > 1
        changed = before.keys() ^ self._wanted.keys()
        for key in sorted(changed if self._needs_ids == needed_ids else before.keys() | self._wanted.keys()):
            self._work.add(key)

    def _note_known_volumes(self, new: Set[Key]) -> None:
        """Note recently created volumes as included in the first report of new objects."""
        newest_at = self._included.newest_at  # by the server's clock, like volumes' times; ours may be wrong
        for volume in self._volumes if new and self.settings.with_pools else ():
            owner, places = volume.spec.claim_ref, objects.segments_of_volume(volume)
            created_at = volume.metadata.creation_timestamp
            is_ours = volume.spec.csi is not None and volume.spec.csi.driver == self.driver_name
            if owner is None or created_at is None or newest_at is None or not is_ours:
                continue
            if (newest_at - created_at).total_seconds() > objects.KEPT_S:
                continue
            for place in places:
                for key in new & set(self._keys_about(volume.spec.storage_class_name, place)):
                    self._included.note(key, owner.uid)

    async def _reconcile(self, key: Key) -> float | None:
        """Make the objects of one work item match the driver's report; returns seconds until the next time."""
        item = self._wanted.get(key)
        storage_class = None if item is None else self._classes.get(item.storage_class)
        known = self._published.about(key)
        if item is None or storage_class is None:
            self._reported.pop(key, None)
            for capacity in known:
                await self._writer.delete(capacity)
            return None
        for capacity in known[1:]:
            await self._writer.delete(capacity)
        found = await self._writer.confirmed(known[0]) if known else None
        reported = await self._get_capacity(item, storage_class)
        for _ in range(_MOST_WRITES):
            if found is not None and not self._writer.patch_for(found, reported):
                break
            if await self._writer.waited_for_turn():
                reported = await self._get_capacity(item, storage_class)
            found = await self._writer.write(item, found, reported)
        return self.settings.poll_interval_s

    async def _get_capacity(self, item: objects.WorkItem, storage_class: StorageClass) -> objects.ReportedCapacity:
        """The driver's report. Raises CsiError or InvalidCapacity; then the objects stay as they are."""
        included = self._included.about(item.key)  # as of before the call
        response, ids = await self._driver.capacity_with_ids(objects.capacity_request(item, storage_class))
        reported = objects.read_response(
            item,
            response,
            with_pools=self.settings.with_pools,
            included=included,
            ids=ids if self._needs_ids else (),
        )
        self._reported[item.key] = reported
        self._confirmed_s[item.key] = self._clock.monotonic()
        return reported
