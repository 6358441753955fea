"""The `scale` subresource: a workload seen as one number, for kubectl scale and autoscalers.

Pure on both sides: `scale_of` makes the Scale (autoscaling/v1) of a Deployment, ReplicaSet, StatefulSet or
ReplicationController, `apply_scale` gives the workload with the number a Scale asks for. The verb then treats that as
an update of the workload, so its own rules, generation and watchers see nothing unusual.
"""

from __future__ import annotations

import msgspec

from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors, invalid_object
from tonnage.objects.field_rules import nonnegative
from tonnage.objects.resources import Resource
from tonnage.objects.selectors import LabelSelector

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(doc: Doc, resource: Resource) -> Doc:
    """The workload's Scale: how many are wanted, how many there are, and which pods they are."""
    selector = doc["spec"].get("selector", {})
    if resource.qualified == "replicationcontrollers":  # the one workload whose selector is a plain map
        text = ",".join(f"{key}={selector[key]}" for key in sorted(selector))
    else:
        text = str(msgspec.convert(selector, LabelSelector))
    return scale_document(doc, doc["spec"].get("replicas", 0), doc.get("status", {}).get("replicas", 0), text)


def scale_document(doc: Doc, wanted: int, present: int, selector: str) -> Doc:
    """A Scale of the object that `doc` is."""
    status: Doc = {"replicas": present}
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: doc["metadata"][field] for field in _KEPT if field in doc["metadata"]},
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def apply_scale(doc: Doc, scale: Doc) -> Doc:
    """The workload with the replicas a Scale asks for; an absent number is zero. `doc` itself is not touched.

    A uid or resourceVersion in the Scale goes along, for the update verb to compare. Raises Invalid for a negative
    number.
    """
    errors = validate_scale(scale)
    if errors:
        raise invalid_object("autoscaling", "Scale", doc["metadata"]["name"], errors)
    scaled: Doc = copy(doc)
    scaled["spec"]["replicas"] = scale.get("spec", {}).get("replicas", 0)
    for field in ("uid", "resourceVersion"):
        if scale.get("metadata", {}).get(field):
            scaled["metadata"][field] = scale["metadata"][field]
    return scaled


def validate_scale(scale: Doc) -> Errors:
    return nonnegative(scale.get("spec", {}).get("replicas", 0), "spec.replicas")
