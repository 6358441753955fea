"""What the scheduler knows about storage, as metrics: free capacity by class, attach slots by driver.

Read when somebody looks, from what decisions are made of. By class and by driver, not by node: a label a node would be
thousands of series, and `explain` tells a single node better.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import Metric

from tonnage.scheduler.metrics import gauge
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.volumes.attach.attach_limits import NO_LIMIT
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.capacity.pools import free_bytes, largest_volume

_RESOURCE_EXHAUSTED: Final = 8
"""The gRPC code by which a driver says that a node has no attach slot left (KEP-4876)."""
_BY_CLASS: Final = ("storage_class",)
_BY_DRIVER: Final = ("driver_name",)


class StorageReport:
    """The storage of a cluster in numbers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def families(self) -> Iterable[Metric]:
        yield from self._capacity()
        yield from self._attachments()

    def _capacity(self) -> Iterable[Metric]:
        now = self._engine.clock.now()
        objects: dict[tuple[str], float] = defaultdict(float)
        free: dict[tuple[str], float] = defaultdict(float)
        largest: dict[tuple[str], float] = defaultdict(float)
        oldest_s: dict[tuple[str], float] = defaultdict(float)
        for each in self._engine.cluster.storage.capacities.values():
            key = (each.storage_class_name,)
            objects[key] += 1
            free[key] += max(free_bytes(each) or 0, 0)
            largest[key] = max(largest[key], largest_volume(each))
            told_at = each.figures_at
            if told_at is not None:
                oldest_s[key] = max(oldest_s[key], (now - told_at).total_seconds())
        yield gauge(
            "tonnage_capacity_objects", "CSIStorageCapacity objects that the scheduler knows of.", _BY_CLASS, objects
        )
        yield gauge(
            "tonnage_capacity_free_bytes",
            "What all CSIStorageCapacity objects of a class say is free. Classes that share disks are each told all.",
            _BY_CLASS,
            free,
        )
        yield gauge(
            "tonnage_capacity_largest_pool_bytes",
            "The largest volume that any CSIStorageCapacity object of a class has room for.",
            _BY_CLASS,
            largest,
        )
        yield gauge(
            "tonnage_capacity_oldest_age_seconds",
            "How long ago the CSIStorageCapacity object of a class that was not written for longest was. Provisioners "
            "write nothing where nothing changed, so that age alone is no fault.",
            _BY_CLASS,
            oldest_s,
        )

    def _attachments(self) -> Iterable[Metric]:
        cluster = self._engine.cluster
        used: dict[tuple[str], float] = {}
        slots: dict[tuple[str], float] = {}
        full: dict[tuple[str], float] = {}
        overdrawn: dict[tuple[str], float] = {}
        refused: dict[tuple[str], float] = defaultdict(float)
        if cluster.has_index(AttachedVolumes):
            view = cluster.index(AttachedVolumes)
            view.catch_up()
            for driver in view.limits.limited_drivers():
                limits = view.limits.limits(driver)[: cluster.size]
                volumes = view.used(driver)[: cluster.size]
                is_limited = cluster.exists[: cluster.size] & (limits != NO_LIMIT)
                used[(driver,)] = float(volumes[is_limited].sum())
                slots[(driver,)] = float(limits[is_limited].sum())
                full[(driver,)] = float((is_limited & (volumes >= limits)).sum())
                overdrawn[(driver,)] = float((is_limited & (volumes > limits)).sum())
        for each in cluster.storage.attachments.values():
            error = each.status.attach_error
            is_refused = error is not None and error.error_code == _RESOURCE_EXHAUSTED and not each.status.attached
            refused[(each.spec.attacher,)] += is_refused
        yield gauge(
            "tonnage_attach_used_volumes",
            "Volumes that are mounted or attached on nodes that have an attach limit for their driver.",
            _BY_DRIVER,
            used,
        )
        yield gauge(
            "tonnage_attach_limit_volumes", "The attach limits of all nodes that have one, together.", _BY_DRIVER, slots
        )
        yield gauge("tonnage_attach_full_nodes", "Nodes that take no more volumes of a driver.", _BY_DRIVER, full)
        yield gauge(
            "tonnage_attach_overdrawn_nodes",
            "Nodes that have more volumes of a driver than their CSINode allows: its count is out of step.",
            _BY_DRIVER,
            overdrawn,
        )
        yield gauge(
            "tonnage_attach_refused_volumes",
            "VolumeAttachments that the driver refuses because the node has no slot left (ResourceExhausted), though a "
            "pod was placed there: the CSINode's count is out of step with the node.",
            _BY_DRIVER,
            refused,
        )
