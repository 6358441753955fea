"""A pod's way from queue to binding as spans.

    schedule pod ────────────────────────────────────────────────────────────────────────────────────┐
      queue ────────┐ attempt ───────────┐ queue ───┐ attempt ──────────────┐ bind ───────────────────┤
                      decide ───┐                     decide ──┐ reserve ───┘   prebind ────┐ …

A trace begins when a new pod is first queued and ends when it is bound or gone. Attributes follow OpenTelemetry's
conventions for Kubernetes; ours begin with `tonnage.`. `open_telemetry` opens the `Tracer`. Times are seconds
since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tonnage.clock import Clock
from tonnage.scheduling.decision.answers import NARROWED, Diagnosis
from tonnage.scheduling.engine.attempt import Attempt, Placement
from tonnage.scheduling.framework import Code, Status
from tonnage.scheduling.queue.waiting_pods import QueuedPod

Attribute = str | int | float | bool
Attributes = Mapping[str, Attribute]

_NS: Final = 1_000_000_000
_CLOSE_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Tracer:
    """The parts of OpenTelemetry's library in use; untyped, because the library is optional."""

    provider: Any
    tracer: Any
    trace: Any
    nobody: Any
    """The context of a root span."""

    def start(self, name: str, start_s: float, attributes: Attributes, context: Any = None) -> Span:
        """Begin a new trace or, with `context`, a part of one."""
        within = self.nobody if context is None else context
        made = self.tracer.start_span(name, context=within, start_time=_ns(start_s), attributes=dict(attributes))
        return Span(self, made)

    def close(self) -> None:
        """Send the remaining spans, within some seconds."""
        self.provider.force_flush(_CLOSE_MS)
        self.provider.shutdown()


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work with a duration."""

    tracer: Tracer
    span: Any

    @property
    def is_recording(self) -> bool:
        """False if it is not sampled: most pods are not, and their attributes need not be computed."""
        return bool(self.span.is_recording())

    def child(self, name: str, start_s: float, attributes: Attributes) -> Span:
        return self.tracer.start(name, start_s, attributes, self.tracer.trace.set_span_in_context(self.span))

    def end(self, end_s: float, attributes: Attributes | None = None, error: str = "") -> None:
        """End the span; with an `error` it failed."""
        if attributes:
            self.span.set_attributes(dict(attributes))
        if error:
            self.span.set_status(self.tracer.trace.StatusCode.ERROR, error)
        self.span.end(end_time=_ns(end_s))


def _ns(at_s: float) -> int:
    return int(at_s * _NS)


MOST_PODS: Final = 10_000
"""The most open traces; beyond, the oldest trace is ended."""
MOST_NAME: Final = 253
"""The longest name in Kubernetes."""
MOST_MESSAGE: Final = 1024


class PodTraces:
    """The traces of one scheduler; without a `tracer` there are none. All methods return at once."""

    def __init__(self, tracer: Tracer | None, clock: Clock) -> None:
        self._tracer = tracer
        self._clock = clock
        self._open: dict[str, Span] = {}
        self._binding: dict[str, Span] = {}

    def __len__(self) -> int:
        return len(self._open)

    def attempted(self, queued: QueuedPod, attempt: Attempt, started_at: float) -> None:
        """A pod was tried; `started_at` is of the monotonic clock."""
        root = self._root(queued, self._tracer) if self._tracer is not None else None
        if root is None or not root.is_recording:
            return
        root.child("queue", self._wall(queued.queued_at), {"tonnage.queue.attempt": queued.attempts}).end(
            self._wall(started_at)
        )
        span = root.child("attempt", self._wall(started_at), {"tonnage.attempt": queued.attempts})
        decided_at = started_at + attempt.decided_in_s
        span.child("decide", self._wall(started_at), {}).end(self._wall(decided_at))
        decision = attempt.decision
        told: dict[str, Attribute] = {"tonnage.nodes": decision.cycle.cluster.count if decision is not None else 0}
        error = ""
        if attempt.placement is not None:
            span.child("reserve", self._wall(decided_at), {}).end(self._now())
            told |= {"tonnage.result": "scheduled", "k8s.node.name": _name(attempt.placement.node)}
        elif decision is not None and decision.diagnosis is not None:
            told |= {"tonnage.result": "unschedulable", **_rejections(decision.diagnosis)}
        else:
            error = attempt.status.message
            told |= {"tonnage.result": "error" if attempt.status.code is Code.ERROR else "unschedulable"}
        span.end(self._now(), told, _message(error))

    def binding(self, placement: Placement) -> None:
        """The binding of a placed pod begins."""
        root = self._open.get(placement.pod.uid)
        if root is not None and root.is_recording:
            attributes = {"k8s.node.name": _name(placement.node)}
            self._binding[placement.pod.uid] = root.child("bind", self._now(), attributes)

    def phase(self, uid: str, name: str, began_at: float) -> None:
        """A part of a binding has ended: permit, prebind."""
        span = self._binding.get(uid)
        if span is not None:
            span.child(name, self._wall(began_at), {}).end(self._now())

    def bound(self, placement: Placement, status: Status) -> None:
        """The binding has ended; if it succeeded, the pod's trace ends too."""
        uid, now = placement.pod.uid, self._now()
        span = self._binding.pop(uid, None)
        if span is not None:
            span.end(now, error="" if status.is_success else _message(status.message))
        if status.is_success:
            root = self._open.pop(uid, None)
            if root is not None:
                root.end(now, {"k8s.node.name": _name(placement.node)})

    def pod_gone(self, uid: str) -> None:
        """The pod was deleted, or another scheduler placed it."""
        self._binding.pop(uid, None)
        root = self._open.pop(uid, None)
        if root is not None:
            root.end(self._now(), error="the pod is gone, or was placed by another")

    def close(self) -> None:
        """The scheduler stops: end all open traces, and send them."""
        for root in self._open.values():
            root.end(self._now(), error="the scheduler stopped")
        self._open.clear()
        if self._tracer is not None:
            self._tracer.close()

    def _root(self, queued: QueuedPod, tracer: Tracer) -> Span:
        root = self._open.get(queued.uid)
        if root is None:
            pod = queued.pod
            attributes: dict[str, Attribute] = {
                "k8s.pod.name": _name(pod.name),
                "k8s.pod.uid": _name(queued.uid),
                "k8s.namespace.name": _name(pod.metadata.namespace),
                "tonnage.scheduler.name": _name(pod.spec.scheduler_name),
            }
            began_at = queued.initial_attempt_at
            start_s = self._wall(queued.queued_at if began_at is None else min(began_at, queued.queued_at))
            root = self._open[queued.uid] = tracer.start("schedule pod", start_s, attributes)
            if len(self._open) > MOST_PODS:
                oldest = next(iter(self._open))
                self._open.pop(oldest).end(self._now(), error="too many traces are open")
        return root

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _wall(self, at: float) -> float:
        """An instant of the monotonic clock as seconds since 1970."""
        return self._now() - (self._clock.monotonic() - at)


def _rejections(diagnosis: Diagnosis) -> dict[str, Attribute]:
    """The number of nodes that each plugin refused."""
    if diagnosis.refusal is not None:
        return {"tonnage.message": _message(diagnosis.refusal.message)}
    first = diagnosis.first[diagnosis.cluster.exists[: len(diagnosis.first)]]
    counts = np.bincount(first, minlength=NARROWED)
    found: dict[str, Attribute] = {
        f"tonnage.rejected.{plugin}": int(counts[position])
        for position, plugin in enumerate(diagnosis.plugins)
        if counts[position]
    }
    return {**found, "tonnage.message": _message(diagnosis.told())}


def _name(text: str) -> str:
    return text[:MOST_NAME]


def _message(text: str) -> str:
    return text[:MOST_MESSAGE]
