"""Binding: the one write that gives a pod its node.

`bind` is the rule of POST pods/binding as a pure function: the pod as it is stored and the Binding go in, the pod as
it shall be stored comes out, or one of upstream's refusals is raised. The node is not looked up; where its zone and
region are known, `pod_admission.carry_topology` puts them on the Binding first. Generation stays: binding does not
change what the pod asks for.
"""

from __future__ import annotations

from tonnage.documents.api_errors import UnknownReason, precondition_failed
from tonnage.errors import BadRequest, Conflict
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors, go_value, required
from tonnage.objects.field_rules import unsupported
from tonnage.objects.resources import BY_PLURAL

_PODS = BY_PLURAL["", "pods"]


class BadTarget(UnknownReason):
    """A Binding that names no node."""


def validate_binding(binding: Doc, pod_name: str) -> None:
    """What can be judged without the pod: raises BadRequest or BadTarget. `pod_name` is the URL's."""
    if binding.get("metadata", {}).get("name", "") != pod_name:
        raise BadRequest("name in URL does not match name in Binding object")
    target = binding.get("target", {})
    errors: Errors = []
    if target.get("kind", "") not in ("", "Node"):
        errors.append(unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    if errors:
        told = [str(error) for error in errors]
        raise BadTarget(told[0] if len(told) == 1 else f"[{', '.join(told)}]")


def bind(pod: Doc, binding: Doc, gates: Gates, *, now: str) -> Doc:
    """The pod with its node; `pod` itself is not touched. `now` is RFC 3339. Raises Conflict.

    Annotations and labels of the Binding go to the pod and win over its own. The nomination ends here when both
    NominatedNodeNameForExpectation and ClearingNominatedNodeNameAfterBinding are on.
    """
    name = pod["metadata"]["name"]
    _check_preconditions(pod, binding.get("metadata", {}))
    if "deletionTimestamp" in pod["metadata"]:
        raise _conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if node := pod["spec"].get("nodeName"):
        raise _conflict(name, f"pod {name} is already assigned to node {go_value(node)}")
    if pod["spec"].get("schedulingGates"):
        raise _conflict(name, f"pod {name} has non-empty .spec.schedulingGates")

    bound: Doc = copy(pod)
    bound["spec"]["nodeName"] = binding["target"]["name"]
    if gates.enabled("NominatedNodeNameForExpectation") and gates.enabled("ClearingNominatedNodeNameAfterBinding"):
        bound.get("status", {}).pop("nominatedNodeName", None)
    for field in ("annotations", "labels"):
        merged = {**bound["metadata"].get(field, {}), **binding.get("metadata", {}).get(field, {})}
        if merged:
            bound["metadata"][field] = merged
    set_condition(bound, {"type": "PodScheduled", "status": "True"}, now=now)
    return bound


def _check_preconditions(pod: Doc, wanted: Doc) -> None:
    """A Binding may say which pod it means, and which version of it."""
    metadata = pod["metadata"]
    for field, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != metadata.get(field):
            raise precondition_failed(
                _PODS,
                metadata.get("namespace", ""),
                metadata["name"],
                field=title,
                asked=wanted[field],
                found=metadata.get(field, ""),
            )


def _conflict(name: str, told: str) -> Conflict:
    return Conflict(
        f"Operation cannot be fulfilled on pods/binding {go_value(name)}: {told}", kind="pods/binding", name=name
    )


def set_condition(pod: Doc, condition: Doc, *, now: str) -> None:
    """Put `condition` in the place of the one of its type, or at the end. Mirrors UpdatePodCondition.

    `now` (RFC 3339) becomes its lastTransitionTime, unless its status is what it was: then the old time stays.
    """
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    for idx, was in enumerate(conditions):
        if was.get("type") == condition["type"]:
            is_same = was.get("status") == condition["status"]
            since = was.get("lastTransitionTime") if is_same else now
            conditions[idx] = {**condition, "lastTransitionTime": since} if since else dict(condition)
            return
    conditions.append({**condition, "lastTransitionTime": now})
