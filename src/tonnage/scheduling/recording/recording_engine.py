"""An engine that records everything done to it. It decides like the plain one.

Time stands still during a call: the engine reads the times of the line. So a repetition gets exactly the same times,
and everything that depends on them (backoffs, expiring promises) comes out the same.

The lines are JSON: a header, then one for each call.

    {"recording":1,"tonnage":"VERSION","seed":42,"configuration":"…","featureGates":"…","at":12.5,"nowUs":…}
    {"op":"add","at":12.5,"nowUs":…,"object":{"kind":"Node",…}}
    {"op":"attempt","at":13.1,"nowUs":…,"uid":"…","key":"shop/db-0","node":"node-3"}

`at` is in seconds of the monotonic clock, `nowUs` in microseconds since 1970. Objects have the fields that a scheduler
reads, without managedFields.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, Final, TypeVar, cast

import msgspec

from tonnage.clock import Clock
from tonnage.objects import codec, core_v1, meta
from tonnage.objects.core_v1.pod import PodMeta
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.engine.attempt import Attempt, EngineSettings, Placement, PostFilterOutcome
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.plugins.volume_binding import assumed_in
from tonnage.scheduling.queue.waiting_pods import QueuedPod, uid_of

VERSION: Final = 1
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

F = TypeVar("F", bound=Callable[..., Any])

NOTHING: Final = msgspec.Raw()
"""For a line without an object. (This very object: fields that are their default are not written.)"""
OPERATIONS: Final = frozenset(
    (
        *("add", "update", "delete", "open", "tick", "end", "stopped"),
        *("pop", "attempt", "postFilter", "done", "requeue", "failedOn", "makeWay"),
        *("withdraw", "bindingFinished", "overdueBinding", "preemptionBegins", "preemptionEnds"),
    )
)


class Header(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The first line: everything that is chosen about an engine at its start."""

    recording: int
    tonnage: str
    seed: int
    at: float
    now_us: int
    configuration: str = ""
    """The text of the KubeSchedulerConfiguration; empty for the defaults."""
    feature_gates: str = ""
    takes_any_pod: bool = False
    implies_namespaces: bool = False
    max_unschedulable_s: float = 300.0
    """From a flag, not from the configuration."""


class RecordedLine(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """One call of the engine, and for decisions its result."""

    op: str
    at: float
    now_us: int
    object: msgspec.Raw = NOTHING
    kind: str = ""
    key: str = ""
    uid: str = ""
    node: str = ""
    why: str = ""
    plugins: tuple[str, ...] = ()
    nomination: str | None = None
    written: tuple[str, ...] = ()
    """For a withdrawn placement: claims and volumes that the API has by then, as kind/key."""
    below: int = 0
    flag: bool | None = None


_ENCODER: Final = msgspec.json.Encoder()
_LINES: Final = msgspec.json.Decoder(RecordedLine)
_HEADERS: Final = msgspec.json.Decoder(Header)


def encoded(line: RecordedLine | Header) -> bytes:
    return _ENCODER.encode(line) + b"\n"


def read_line(text: bytes) -> RecordedLine:
    """Raises msgspec.MsgspecError for an invalid line."""
    recorded_line = _LINES.decode(text)
    if recorded_line.op not in OPERATIONS:
        raise msgspec.ValidationError(f'op "{recorded_line.op}" is not known')
    return recorded_line


def read_header(text: bytes) -> Header:
    """Raises msgspec.MsgspecError for an invalid header."""
    return _HEADERS.decode(text)


def raw(each: meta.Object) -> msgspec.Raw:
    """An object as it is written, without managedFields and kubectl's annotation."""
    metadata = each.metadata
    if LAST_APPLIED in metadata.annotations:
        annotations = {key: value for key, value in metadata.annotations.items() if key != LAST_APPLIED}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    if isinstance(metadata, PodMeta) and metadata.managed_fields:  # other kinds are read without
        metadata = msgspec.structs.replace(metadata, managed_fields=())
    if metadata is not each.metadata:
        each = msgspec.structs.replace(each, metadata=metadata)
    return msgspec.Raw(codec.encode(each))


def read_object(text: msgspec.Raw) -> meta.Object:
    """Raises Unreadable, UnknownKind."""
    return codec.decode_doc(codec.read_doc("object", bytes(text)))


def microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def time_of(line: Header | RecordedLine) -> tuple[datetime, float]:
    """The time of day and the monotonic time of a line."""
    return _EPOCH + timedelta(microseconds=line.now_us), line.at


Sink = Callable[[bytes], object]
"""Takes a line; must be quick, and must not raise."""


class LatchedClock:
    """A clock that can be made to stand still, at the time of day and the monotonic time in `held`."""

    def __init__(self, real: Clock, held: tuple[datetime, float] | None = None) -> None:
        self.real = real
        self.held = held

    def now(self) -> datetime:
        return self.real.now() if self.held is None else self.held[0]

    def monotonic(self) -> float:
        return self.real.monotonic() if self.held is None else self.held[1]

    async def sleep(self, seconds: float) -> None:
        await self.real.sleep(seconds)

    @contextmanager
    def latched(self, at: float | None = None) -> Iterator[None]:
        """Stand still inside the block: at the present, or at a monotonic time that was read already."""
        if self.held is not None:
            yield
            return
        self.held = self.real.now(), self.real.monotonic() if at is None else at
        try:
            yield
        finally:
            self.held = None


def _recorded_as(plain: F, op: str, told: Callable[..., dict[str, Any]]) -> F:
    """The engine's method `plain`, recorded with the fields that `told` reads off its arguments."""

    @wraps(plain)
    def method(engine: RecordingEngine, *given: Any, **named: Any) -> Any:
        with engine._recorded(op, **told(*given, **named)):
            return plain(engine, *given, **named)

    return cast(F, method)


class RecordingEngine(Engine):
    """Writes a line for every call from outside. Its own inner calls follow from that and are not written."""

    def __init__(
        self,
        profiles: Iterable[ResolvedProfile],
        *,
        clock: Clock,
        rng: random.Random,
        sink: Sink,
        seed: int,
        version: str = "",
        configuration: str = "",
        feature_gates: str = "",
        settings: EngineSettings | None = None,
        **options: Any,
    ) -> None:
        """`rng` must have just been seeded by `seed`; `configuration` and `feature_gates` are texts that reproduce the
        profiles and settings."""
        self._latch = LatchedClock(clock)
        self._sink = sink
        settings = settings or EngineSettings()
        with self._latch.latched():
            super().__init__(profiles, clock=self._latch, rng=rng, settings=settings, **options)
            header = Header(
                recording=VERSION,
                tonnage=version,
                seed=seed,
                at=self._latch.monotonic(),
                now_us=microseconds(self._latch.now()),
                configuration=configuration,
                feature_gates=feature_gates,
                takes_any_pod=settings.takes_any_pod,
                implies_namespaces=settings.implies_namespaces,
                max_unschedulable_s=settings.max_unschedulable_s,
            )
        self._sink(encoded(header))

    @contextmanager
    def _recorded(self, op: str, at: float | None = None, **told: Any) -> Iterator[dict[str, Any]]:
        """Run the block at one instant and write its line; the block may add fields to the yielded dict."""
        if self._latch.held is not None:  # an inner call of one that is written
            yield {}
            return
        with self._latch.latched(at):
            try:
                yield told
            finally:
                line = RecordedLine(op=op, at=self._latch.monotonic(), now_us=microseconds(self._latch.now()), **told)
                self._sink(encoded(line))

    # -- objects in ---------------------------------------------------------------------------------------------------

    add = _recorded_as(Engine.add, "add", lambda new: {"object": raw(new)})
    update = _recorded_as(Engine.update, "update", lambda old, new: {"object": raw(new)})
    delete = _recorded_as(Engine.delete, "delete", lambda old: {"kind": type(old).__name__, "key": old.key})
    open = _recorded_as(Engine.open, "open", dict)

    # -- decisions ----------------------------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        with self._recorded("pop") as told:
            queued_pod = super().pop()
            if queued_pod is not None:
                told["uid"], told["key"] = queued_pod.uid, queued_pod.info.key
        return queued_pod

    def attempt(self, queued: QueuedPod, *, explains: bool = False) -> Attempt:
        began_at = self._latch.real.monotonic()
        with self._recorded("attempt", uid=queued.uid, key=queued.info.key) as told:
            found = super().attempt(queued, explains=explains)
            told["node"] = found.placement.node if found.placement is not None else ""
        found.decided_in_s = self._latch.real.monotonic() - began_at  # the engine's clock stood still
        return found

    def post_filter(self, attempt: Attempt) -> PostFilterOutcome | None:
        with self._recorded("postFilter", uid=attempt.pod.uid, key=attempt.pod.key) as told:
            post_filter_outcome = super().post_filter(attempt)
            told["node"] = post_filter_outcome.result.nominated_node if post_filter_outcome is not None else ""
        return post_filter_outcome

    # -- after a decision ---------------------------------------------------------------------------------------------

    done = _recorded_as(Engine.done, "done", lambda pod: {"uid": uid_of(pod)})
    binding_finished = _recorded_as(
        Engine.binding_finished, "bindingFinished", lambda placement: {"uid": placement.pod.uid}
    )
    failed_on = _recorded_as(
        Engine.failed_on, "failedOn", lambda queued, node_name, why: {"uid": queued.uid, "node": node_name, "why": why}
    )
    make_way = _recorded_as(Engine.make_way, "makeWay", lambda node_name, below: {"node": node_name, "below": below})
    preemption_begins = _recorded_as(
        Engine.preemption_begins, "preemptionBegins", lambda plugin, pod: {"uid": pod.uid, "plugins": (plugin.name,)}
    )
    preemption_ends = _recorded_as(
        Engine.preemption_ends,
        "preemptionEnds",
        lambda plugin, pod, succeeded=None: {"uid": pod.uid, "plugins": (plugin.name,), "flag": succeeded},
    )

    def overdue_binding(self, placement: Placement, found: core_v1.Pod | None, *, was_answered: bool = True) -> bool:
        answer = raw(found) if found is not None else NOTHING
        with self._recorded("overdueBinding", uid=placement.pod.uid, object=answer, flag=was_answered):
            return super().overdue_binding(placement, found, was_answered=was_answered)

    def withdraw(self, placement: Placement) -> None:
        assumed = assumed_in(placement.cycle)
        written = tuple(sorted(assumed.written)) if assumed is not None else ()
        with self._recorded("withdraw", uid=placement.pod.uid, written=written):
            super().withdraw(placement)

    def requeue(
        self,
        queued: QueuedPod,
        newest: core_v1.Pod | None,
        *,
        plugins: Iterable[str] = (),
        nomination: str | None = None,
    ) -> bool:
        plugins = tuple(plugins)
        told: dict[str, Any] = {"flag": newest is not None, "plugins": plugins, "nomination": nomination}
        with self._recorded("requeue", uid=queued.uid, key=queued.info.key, **told):
            return super().requeue(queued, newest, plugins=plugins, nomination=nomination)

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> list[Placement]:
        with self._recorded("tick", at=now_s):
            return super().tick(now_s)

    def ended(self) -> None:
        """The scheduler stops in order."""
        with self._recorded("end"):
            pass
