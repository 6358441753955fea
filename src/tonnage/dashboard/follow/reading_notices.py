"""What a person should know about what cannot be read: one notice a kind, in plain words, with the remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from tonnage.client.informer import Informer
from tonnage.dashboard.wire.rows import NoticeRow
from tonnage.errors import Forbidden, NotFound, TonnageError, Unauthorized
from tonnage.objects.meta import Object
from tonnage.objects.resources import Resource
from tonnage.objects.scheme import resource_of

AWAY_AFTER_S: Final = 2.0
"""A connection that is cut is made anew at once; what lasts longer than this is told."""
SERVER: Final = "server"

_MEANING: Final = {
    "Node": "no node is shown but those that volumes name",
    "Pod": "who waits and who uses a volume is not shown",
    "PersistentVolume": "where volumes are is not shown",
    "PersistentVolumeClaim": "claims are not shown, volumes without them are",
    "StorageClass": "which driver a class belongs to is not known",
    "CSINode": "attach limits are not shown",
    "CSIDriver": "which drivers rebuild volumes is not known",
    "CSIStorageCapacity": "free capacity is not shown",
    "VolumeAttachment": "what is attached where is not shown",
    "Event": "lanes lack what only Events tell",
}
_QUESTIONS: Final = "questions count them as none"


class KindReading(NamedTuple):
    """How reading one kind goes."""

    cls: type[Object]
    failure: TonnageError | None
    failing_for_s: float
    namespace: str = ""


def reading_of(informer: Informer[Any], namespace: str) -> KindReading:
    since_s = informer.out_of_step_since_s
    failure = informer.last_failure if since_s is not None else None
    return KindReading(informer.cls, failure, informer.now_s - since_s if since_s is not None else 0.0, namespace)


def is_refused(reading: KindReading) -> bool:
    """Whether the server is there and does not give this kind: waiting does not help."""
    return isinstance(reading.failure, Forbidden | NotFound)


def notices(readings: Iterable[KindReading], server: str) -> Iterator[tuple[str, NoticeRow]]:
    """By topic. A server that is away is one notice, however many kinds are read."""
    away: list[KindReading] = []
    for each in readings:
        if each.failure is None:
            continue
        if is_refused(each):
            yield resource_of(each.cls).qualified, _refused(each)
        elif each.failing_for_s >= AWAY_AFTER_S:
            away.append(each)
    if away:
        yield SERVER, _away(away, server)


def _refused(reading: KindReading) -> NoticeRow:
    resource, kind = resource_of(reading.cls), reading.cls.__name__
    meaning = _MEANING.get(kind, _QUESTIONS)
    if isinstance(reading.failure, NotFound):
        hint = f"it has no {resource.group or 'core'}/{resource.version} {resource.plural}"
        return NoticeRow(severity="info", text=f"this server does not know {kind} objects: {meaning}", hint=hint)
    where = f" in namespace {reading.namespace}" if reading.namespace else ""
    return NoticeRow(
        text=f"{kind} objects may not be read{where}: {meaning}", hint=_remedy(resource, reading.namespace)
    )


def _remedy(resource: Resource, namespace: str) -> str:
    verbs = f"let the user of the kubeconfig list and watch {resource.plural}"
    verbs += f" of group {resource.group}" if resource.group else ""
    if resource.namespaced and not namespace:
        return f"{verbs} in all namespaces, or show one namespace alone with --namespace"
    return verbs


def _away(away: list[KindReading], server: str) -> NoticeRow:
    failure = max(away, key=lambda each: each.failing_for_s).failure
    assert failure is not None
    if isinstance(failure, Unauthorized):
        text = f"{server} does not know who asks: {failure.message}"
        return NoticeRow(severity="error", text=f"{text}; what is shown is old", hint=failure.hint or _AGAIN)
    text = f"{server} does not answer: {failure.message}; what is shown was true before, and it is asked again"
    return NoticeRow(severity="error", text=text, hint=failure.hint or "")


_AGAIN: Final = "start the dashboard again with a kubeconfig whose credentials are still good"
