"""A pod's whole story, and why it goes to a node or to none, as JSON for the page; and one object as YAML.

`pod_story` combines the API's objects, the scheduler's memory, and the lane's steps. A deleted pod has an empty `uid`
and what is still remembered of it.

`explained` answers like `tonnage explain --pod … -o json` ("answer"), with the weights of the scores, and refused
nodes grouped by plugin and reason; every group has its nearest miss in the words of the command's table.

`object_text` has one object as the API server has it now: with all fields, without managedFields. The dashboard may
list and not get: the object is listed by its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import yaml

from tonnage.clock import rfc3339, rfc3339_micro
from tonnage.dashboard.model.capacity_rows import classes_of
from tonnage.dashboard.model.known_objects import KnownObjects, first_at
from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.wire import Collections, LaneRow, VolumeRow
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Event, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.meta import Condition, Key, Object, split_key
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, PodInfo
from tonnage.scheduling.volumes.explain.account_entries import amount
from tonnage.whatif.explain_report import nearest_miss, nearest_node, refused_together
from tonnage.whatif.scheduler_memory import RememberedCapacity, SchedulerMemory

MOST_CLAIMS: Final = 16
"""For how many claims of a pod Events are read."""
_LONG_AGO = datetime.fromtimestamp(0, UTC)


async def pod_story(cluster: ShownCluster, key: Key) -> bytes:
    """Everything known about a pod. Raises TonnageError for an unknown pod."""
    objects, collections, memory = cluster.model.objects, cluster.collections, cluster.model.memory
    pod, revision = objects.pods.get(key), collections.revision
    lane = _lane(collections, key, pod)
    if pod is None and lane is None:
        raise TonnageError(
            f'nothing is known of a pod "{key}"', hint="it may have ended, or been deleted before this dashboard began"
        )
    notes: list[str] = []
    events: Sequence[Event] = ()
    try:
        events = await cluster.events_of(*_about(key, pod, objects))
    except TonnageError as exc:
        notes.append(f"Events cannot be read: {exc.message}")
    document = {
        "pod": key,
        "revision": revision,
        "at": cluster.clock.now(),
        **(_told(pod, objects, memory) if pod is not None else {"uid": ""}),
        "claims": [
            _claim(each, objects, collections, memory) for each in (pod.claim_keys() if pod is not None else ())
        ],
        "steps": lane.steps if lane is not None else (),
        "done": lane is not None and lane.done,
        "events": [_event(event) for event in sorted(events, key=lambda each: first_at(each) or _LONG_AGO)],
        "notes": notes,
    }
    return msgspec.json.encode(document, enc_hook=_written)


def _written(value: object) -> str:
    """A MicroTime, as current Events have."""
    if isinstance(value, datetime):
        return rfc3339_micro(value)
    raise TypeError(f"{type(value).__name__} cannot be written")


def _lane(collections: Collections, key: Key, pod: Pod | None) -> LaneRow | None:
    """The pod's lane, or that of the last pod with this name."""
    lanes = collections.of(LaneRow)
    if pod is not None:
        return lanes.get(pod.uid)
    named = [lane for lane in lanes.values() if lane.pod == key]
    return max(named, key=lambda each: each.steps[-1].at if each.steps else _LONG_AGO, default=None)


def _about(key: Key, pod: Pod | None, objects: KnownObjects) -> list[ObjectReference]:
    namespace, name = split_key(key)
    found = [ObjectReference(kind="Pod", namespace=namespace, name=name, uid=pod.uid if pod is not None else "")]
    for claim_key in (pod.claim_keys() if pod is not None else ())[:MOST_CLAIMS]:
        claim = objects.claims.get(claim_key)
        if claim is not None:
            kind = "PersistentVolumeClaim"
            found.append(ObjectReference(kind=kind, namespace=namespace, name=claim.name, uid=claim.uid))
    return found


def _told(pod: Pod, objects: KnownObjects, memory: SchedulerMemory) -> dict[str, Any]:
    owner, requests = pod.metadata.controller, PodInfo(pod).requests
    return {
        "uid": pod.uid,
        "phase": pod.status.phase,
        "reason": pod.status.reason,
        "message": pod.status.message,
        "created": pod.metadata.creation_timestamp,
        "terminating": pod.metadata.deletion_timestamp,
        "node": pod.spec.node_name,
        "nominated": pod.status.nominated_node_name,
        "scheduler": pod.spec.scheduler_name,
        "priority": pod.spec.priority,
        "priorityClass": pod.spec.priority_class_name,
        "workload": f"{owner.kind}/{pod.namespace}/{owner.name}" if owner is not None else "",
        "requests": {name: _asked(name, amount) for name, amount in requests.items() if amount},
        "nodeSelector": pod.spec.node_selector,
        "gates": [gate.name for gate in pod.spec.scheduling_gates],
        "conditions": [_condition(condition) for condition in pod.status.conditions],
        "assumed": memory.node_of(pod),
        "nominations": [nomination for nomination in memory.nominations or () if nomination.uid == pod.uid],
        "failedNodes": [failed_node for failed_node in memory.failed_nodes if failed_node.uid == pod.uid],
        "held": _each_once((each for each in memory.held if each.pod == pod.key), objects),
    }


def _each_once(held: Iterable[RememberedCapacity], objects: KnownObjects) -> list[RememberedCapacity]:
    """Reservations, only of objects of the claims' own classes: objects that share their pools are charged as well."""
    found = list(held)

    def is_own(each: RememberedCapacity) -> bool:
        capacity = objects.capacities.get(each.capacity)
        return capacity is None or capacity.storage_class_name in classes_of(objects, each)

    return [remembered_capacity for remembered_capacity in found if is_own(remembered_capacity)] or found


def _asked(name: str, number: int) -> str:
    if name == CPU:
        return f"{number}m" if number % 1000 else str(number // 1000)
    return amount(number) if name == MEMORY or "storage" in name else str(number)


def _condition(each: Condition) -> dict[str, Any]:
    return {
        "type": each.type,
        "status": each.status,
        "since": each.last_transition_time,
        "reason": each.reason,
        "message": each.message,
    }


def _claim(key: Key, objects: KnownObjects, collections: Collections, memory: SchedulerMemory) -> dict[str, Any]:
    claim = objects.claims.get(key)
    if claim is None:
        return {"claim": key, "missing": True}
    return {
        "claim": key,
        "row": collections.of(VolumeRow).get(key),
        "phase": claim.status.phase,
        "requested": claim.requested.value() if claim.requested is not None else None,
        "modes": claim.spec.access_modes,
        "created": claim.metadata.creation_timestamp,
        "selectedNode": claim.selected_node,
        "rebuildTarget": claim.rebuild_target,
        "conditions": [_condition(condition) for condition in claim.status.conditions],
        "attachments": _attachments(claim, objects),
        "promisedVolume": next((volume.volume for volume in memory.volumes if volume.claim_uid == claim.uid), ""),
        "held": _each_once((each for each in memory.held if key in each.claims), objects),
    }


def _attachments(claim: PersistentVolumeClaim, objects: KnownObjects) -> list[dict[str, Any]]:
    names = sorted(objects.attachments_of_volume[claim.spec.volume_name]) if claim.spec.volume_name else []
    found = []
    for attachment in (objects.attachments[name] for name in names):
        errors = (attachment.status.attach_error, attachment.status.detach_error)
        found.append(
            {
                "node": attachment.spec.node_name,
                "driver": attachment.spec.attacher,
                "attached": attachment.status.attached,
                "since": attachment.metadata.creation_timestamp,
                "detaching": attachment.metadata.is_terminating,
                "error": next((error.message for error in errors if error is not None), ""),
            }
        )
    return found


def _event(event: Event) -> dict[str, Any]:
    series = event.series
    return {
        "at": first_at(event) or _LONG_AGO,
        "last": (series.last_observed_time if series is not None else None) or event.last_timestamp,
        "count": max(event.count, series.count if series is not None else 0, 1),
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "from": event.reporting_component or event.source.component,
        "about": f"{event.involved_object.kind} {event.involved_object.namespace}/{event.involved_object.name}",
    }


async def explained(cluster: ShownCluster, asking: Asking, key: Key) -> bytes:
    """Why a pod goes to a node or to none. Raises TonnageError for an unknown pod."""
    revision, state = cluster.collections.revision, await cluster.state()
    notes = [*asking.configuration.notes, *state.warnings, *state.notes]
    explanation, weights = await asking.answer(lambda limit: asking.explained(state, key, notes.append))
    document = {
        "revision": revision,
        "at": rfc3339(state.clock.now()),
        "source": state.source,
        "notes": notes,
        "weights": weights,
        "refused": [
            {
                "rejectedBy": plugin,
                "reasons": reasons,
                "nodes": len(nodes),
                "nearestMiss": nearest_miss(nodes),
                "nearestNode": nearest_node(nodes),
            }
            for (plugin, reasons), nodes in refused_together(node for node in explanation.nodes if not node.feasible)
        ],
        "answer": explanation.document(),
    }
    return await asyncio.to_thread(msgspec.json.encode, document)


KINDS: Final[dict[str, type[Object]]] = {
    "nodes": Node,
    "persistentvolumes": PersistentVolume,
    "persistentvolumeclaims": PersistentVolumeClaim,
    "pods": Pod,
}
"""The kinds that may be asked for, by their resource: those of which the dashboard lists every object."""


async def object_text(cluster: ShownCluster, resource: str, key: Key) -> dict[str, Any]:
    """{"yaml", "at"}. Raises TonnageError for an object that is not there, or that may not be read."""
    doc = await cluster.document(KINDS[resource], key)
    return {"yaml": as_yaml(doc), "at": rfc3339(cluster.clock.now())}


def as_yaml(doc: Doc) -> str:
    """A document as `kubectl get -o yaml` writes it, without managedFields."""
    metadata = {name: value for name, value in doc.get("metadata", {}).items() if name != "managedFields"}
    first = ("apiVersion", "kind", "metadata")
    rest = {name: value for name, value in sorted(doc.items()) if name not in first}
    whole: Doc = {"apiVersion": doc.get("apiVersion", ""), "kind": doc.get("kind", ""), "metadata": metadata, **rest}
    dumped: str = yaml.dump(
        whole,
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        sort_keys=False,
        allow_unicode=True,
        width=1000,
    )
    return dumped
