"""How this program writes, counts and logs.

Annotations are server-side applied as one set, so that what is no longer in it is removed. Problems are logged when
they come and when they are gone, not at every look.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge

from tonnage import errors, logs
from tonnage.client.http import Client
from tonnage.client.metrics import WorkQueueMetrics
from tonnage.objects import meta, storage_v1
from tonnage.objects.document import Doc
from tonnage.pools.settings import manager_of


class PoolsMetrics:
    """Counters and gauges; the `state` of an object is kept, stale or none."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._writes = Counter(
            "tonnage_pools_writes_total",
            "Annotations written or removed, by kind of object and result.",
            ("kind", "result"),
            registry=registry,
        )
        self._problems = Gauge(
            "tonnage_pools_problems",
            "What is wrong with classes, or with what their driver publishes, at the moment.",
            registry=registry,
        )
        self._objects = Gauge(
            "tonnage_pools_objects",
            "Capacity objects of the driver's classes, by state.",
            ("state",),
            registry=registry,
        )
        self.queues = WorkQueueMetrics(registry)
        self._runs = Counter(
            "tonnage_pools_command_runs_total", "Runs of --command, by result.", ("result",), registry=registry
        )

    def wrote(self, kind: str, result: str) -> None:
        self._writes.labels(kind, result).inc()

    def ran(self, result: str) -> None:
        self._runs.labels(result).inc()

    def show(self, states: dict[str, int], problems: int) -> None:
        for state in ("kept", "stale", "none"):
            self._objects.labels(state).set(states.get(state, 0))
        self._problems.set(problems)


_log = logs.logger("tonnage.pools")


class AnnotationWriter:
    def __init__(self, client: Client, metrics: PoolsMetrics) -> None:
        self._client = client
        self._metrics = metrics

    async def apply(
        self,
        found: meta.Object,
        wanted: Mapping[str, str],
        *,
        force: bool,
        only_as_seen: bool = False,
        on_behalf_of: str = "",
        whole: Doc | None = None,
    ) -> None:
        """Make these all annotations of this program on an object. Raises TonnageError.

        `only_as_seen`: only if it has not changed since. `on_behalf_of`: a node; copies for different nodes do not
        remove each other's annotations. `whole`: all other fields of an object that this program created.
        """
        kind, whole = type(found).__name__, whole or {}
        patch: Doc = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": kind,
            **whole,
            "metadata": {
                **whole.get("metadata", {}),
                "name": found.name,
                # The uid of the object we saw: an apply to a deleted one would create it.
                "uid": found.uid,
                **({"resourceVersion": found.metadata.resource_version} if only_as_seen else {}),
                **({"namespace": found.metadata.namespace} if found.metadata.namespace else {}),
                **({"annotations": dict(wanted)} if wanted else {}),
            },
        }
        applied = self._client.patch(
            type(found), found.key, patch, patch_type="apply", field_manager=manager_of(on_behalf_of), force=force
        )
        await self._counted(applied, "written" if wanted else "taken-away", kind)
        _log.info("Annotated" if wanted else "Annotations taken away", object=f"{kind} {found.key}", annotations=wanted)

    async def create(self, doc: Doc) -> None:
        """Create a capacity object; annotations are applied when it is seen. Another copy may have been first."""
        with suppress(errors.AlreadyExists):
            await self._counted(self._client.create_doc(doc), "created")
            key = f"{doc['metadata']['namespace']}/{doc['metadata']['name']}"
            _log.info("Created", object=f"CSIStorageCapacity {key}", class_name=doc["storageClassName"])

    async def delete(self, found: storage_v1.CSIStorageCapacity, why: str) -> None:
        with suppress(errors.NotFound, errors.Conflict):
            await self._counted(self._client.delete(storage_v1.CSIStorageCapacity, found.key, uid=found.uid), "deleted")
            _log.info("Deleted", object=f"CSIStorageCapacity {found.key}", class_name=found.storage_class_name, why=why)

    async def _counted(self, call: Awaitable[object], result: str, kind: str = "CSIStorageCapacity") -> None:
        try:
            await call
        except errors.TonnageError:
            self._metrics.wrote(kind, "failed")
            raise
        self._metrics.wrote(kind, result)


MOST_TOLD = 20
"""Lines per object at a time; the rest is a number."""


class ToldOnce:
    """The problems of several objects, as they were last logged."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def tell(self, thing: str, problems: Iterable[str]) -> None:
        """Log new problems of an object, and that it has none any more."""
        now, before = tuple(dict.fromkeys(problems)), self._known.get(thing, ())
        news = [each for each in now if each not in before]
        for problem in news[:MOST_TOLD]:
            _log.warning(problem, object=thing)
        if len(news) > MOST_TOLD:
            _log.warning("Further problems of the same kind", object=thing, problems=len(news) - MOST_TOLD)
        if before and not now:
            _log.info("All problems are gone", object=thing)
        if now:
            self._known[thing] = now
        else:
            self._known.pop(thing, None)

    def forget(self, thing: str) -> None:
        self._known.pop(thing, None)
