"""A cluster that the dashboard shows: its rows, and its objects for questions.

Informers fill a live cluster (`live_cluster.py`). The faults of an embedded cluster are rows too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tonnage.clock import Clock
from tonnage.dashboard.model.cluster_model import ClusterModel
from tonnage.dashboard.wire import Collections, FaultRow, NoticeRow
from tonnage.errors import NotFound, TonnageError
from tonnage.faults import FaultFile
from tonnage.objects import codec, core_v1, small_groups
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object
from tonnage.whatif import sources, workloads
from tonnage.whatif.scheduler_memory import SchedulerMemory
from tonnage.whatif.schedulers_seen import SchedulersSeen


class ShownCluster:
    """A cluster's rows (`collections`), the model that makes them (`model`), and the state for questions."""

    asks_scheduler = False
    is_known = True
    """False until the state was read for the first time."""

    def __init__(self, *, clock: Clock, source: str = "the objects") -> None:
        self.clock = clock
        self.source = source
        self.collections = Collections()
        self.model = ClusterModel(self.collections)
        self.model.refusals.start = clock.now().replace(microsecond=0)  # Events have whole seconds

    def settle(self) -> None:
        self.model.settle(self.clock.now())

    def objects(self) -> Iterator[Object]:
        """Every known object that decisions read."""
        return (each for each in self.model.objects if not isinstance(each, workloads.NOT_READ_BY_DECISIONS))

    async def memory(self) -> SchedulerMemory | None:
        """The scheduler's current memory; None without a scheduler to ask."""
        return None

    async def schedulers(self, running: Sequence[str]) -> SchedulersSeen:
        """Which schedulers place pods. `running`: scheduler names that are known to be served."""
        return SchedulersSeen()

    async def leases(self) -> Sequence[small_groups.Lease] | None:
        """The leases of programs; None without a server to ask. Raises TonnageError."""
        return None

    def unread(self) -> Mapping[str, str]:
        """Kinds that may not be read, and why."""
        return {}

    async def rules(self) -> Sequence[Doc]:
        """The objects that pod creation reads: LimitRanges, ResourceQuotas, PriorityClasses, RuntimeClasses."""
        return ()

    async def state(self, *, with_workloads: bool = False, with_memory: bool = True) -> sources.ClusterState:
        """The current state for what-if questions, taken without an await between its objects. A scheduler that cannot
        be asked gives a note, and its memory counts as empty."""
        memory, notes = None, list(self.notes())
        try:
            memory = await self.memory() if with_memory else None
        except TonnageError as exc:
            notes.append(sources.scheduler_silent(exc))
        of_workloads = (each for each in self.model.objects if isinstance(each, workloads.NOT_READ_BY_DECISIONS))
        rules = await self.rules() if with_workloads else ()
        schedulers = await self.schedulers(memory.scheduler_names if memory is not None else ())
        return sources.ClusterState(
            list(self.objects()),
            self.source,
            self.clock,
            notes=notes,
            memory=memory,
            workloads=list(of_workloads) if with_workloads else (),
            unlisted=self.unlisted(),
            schedulers=schedulers,
            rules=rules,
        )

    def notes(self) -> Sequence[str]:
        """Notes that a person should read before trusting an answer."""
        return ()

    def unlisted(self) -> Mapping[str, str]:
        return {}

    async def document(self, cls: type[Object], key: Key) -> Doc:
        """One object with all its fields, as it is now. Raises NotFound."""
        return codec.to_doc(self.known(cls, key))

    def known(self, cls: type[Object], key: Key) -> Object:
        """An object as it was last heard of. Raises NotFound."""
        found = self.model.objects.find(cls, key)
        if found is None:
            raise NotFound(f'{codec.resource_of(cls).qualified} "{key}" not found')
        return found

    async def events_of(self, *about: core_v1.ObjectReference) -> Sequence[core_v1.Event]:
        return ()


_NOTICE: Final = "faults"


def look_at_faults(cluster: ShownCluster, file: FaultFile) -> None:
    """Update the rows of faults, by `kind@node`, from the file. An unreadable file becomes a notice."""
    collections = cluster.collections
    try:
        held = file.all()
        collections.remove("notices", _NOTICE)
    except TonnageError as exc:
        collections.put("notices", _NOTICE, NoticeRow(text=exc.message, hint=exc.hint or ""))
        return
    rows = {f"{each.kind}@{each.node}": FaultRow(kind=each.kind, node=each.node, value=each.value) for each in held}
    for key in collections.of(FaultRow).keys() - rows.keys():
        collections.remove("faults", key)
    for key, row in rows.items():
        collections.put("faults", key, row)
    cluster.model.suffer(held)  # a driver with this fault reports stale figures
    cluster.settle()
