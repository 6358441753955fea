"""Binding and scale: subresources that are more than a part of an object, as pure functions.

Binding is the one write that gives a pod its node. Evictions stand with the budgets, in `kinds/scheduling_kinds.py`.

A Scale is an object seen as one number, for kubectl scale and autoscalers. `apply_scale` returns the workload with a
Scale's replicas, which the verb treats as an update of the workload.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.documents import api_errors, go_text, strategy
from tonnage.errors import BadRequest, Cause, Conflict, InternalError
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.field_errors import Errors, go_value, invalid, invalid_object, required, unsupported
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.objects.selectors import LabelSelector


def validate_binding(binding: Doc, pod_name: str) -> None:
    """The checks without the pod. `pod_name` is the URL's. Raises BadRequest or UnknownReason."""
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
        raise api_errors.UnknownReason(told[0] if len(told) == 1 else f"[{', '.join(told)}]")


def bind(pod: Doc, binding: Doc, gates: Gates, *, now: str) -> Doc:
    """A copy of the pod with its node. Labels and annotations of the Binding win. Raises Conflict."""
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
    strategy.set_condition(bound, {"type": "PodScheduled", "status": "True"}, now=now)
    return bound


def _check_preconditions(pod: Doc, wanted: Doc) -> None:
    metadata = pod["metadata"]
    for field, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != metadata.get(field):
            raise api_errors.precondition_failed(
                BY_PLURAL["", "pods"],
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


_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_MAX = (1 << 31) - 1
_SPEC = strategy.TypeRules("autoscaling.ScaleSpec")


def scale_of(doc: Doc, resource: Resource) -> Doc:
    """The workload's Scale: desired replicas, current replicas, and the selector of its pods."""
    selector = doc["spec"].get("selector", {})
    if resource.qualified == "replicationcontrollers":  # the one workload whose selector is a plain map
        text = ",".join(f"{key}={selector[key]}" for key in sorted(selector))
    else:
        text = str(msgspec.convert(selector, LabelSelector))
    return scale_document(doc, doc["spec"].get("replicas", 0), doc.get("status", {}).get("replicas", 0), text)


def scale_document(doc: Doc, wanted: int, present: int, selector: str) -> Doc:
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
    """A copy of the workload with a Scale's replicas. Raises Invalid for a negative number."""
    if errors := _SPEC(scale.get("spec", {}), "spec"):
        raise invalid_object("autoscaling", "Scale", doc["metadata"]["name"], errors)
    scaled: Doc = copy(doc)
    scaled["spec"]["replicas"] = scale.get("spec", {}).get("replicas", 0)
    return _with_version(scaled, scale)


def _with_version(scaled: Doc, scale: Doc) -> Doc:
    """Copy the Scale's uid and resourceVersion, if any, for the update verb to compare."""
    said = {field: scale.get("metadata", {}).get(field) for field in ("uid", "resourceVersion")}
    scaled["metadata"] |= {field: value for field, value in said.items() if value}
    return scaled


def custom_scale_of(doc: Doc, paths: Doc, *, must_have: bool = True) -> Doc:
    """The Scale of a document. Raises InternalError if spec replicas are missing and `must_have`."""
    replicas, wrong = _integer(doc, paths["specReplicasPath"])
    present, also_wrong = _integer(doc, paths["statusReplicasPath"])
    selector = _found(doc, paths.get("labelSelectorPath") or "")
    if not isinstance(selector, (str, type(None))):
        also_wrong = _mismatch(paths["labelSelectorPath"], selector, "string")
    told = wrong or also_wrong
    if not told and replicas is None and must_have:
        told = f'the spec replicas field "{paths["specReplicasPath"]}" does not exist'
    if told:
        raise InternalError(f"Internal error occurred: {told}", causes=(Cause("", told),))
    return scale_document(doc, replicas or 0, present or 0, selector or "")


def apply_custom_scale(doc: Doc, scale: Doc, paths: Doc) -> Doc:
    """The document with a Scale's replicas. Raises BadRequest if the path cannot be set."""
    replicas = scale.get("spec", {}).get("replicas", 0)
    scaled: Doc = copy(doc)
    *parents, last = _steps(paths["specReplicasPath"])
    place: Any = scaled
    for step in parents:
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            raise BadRequest(f'the spec replicas field "{paths["specReplicasPath"]}" has no place in the object')
    place[last] = replicas
    return _with_version(scaled, scale)


def validate_scale_paths(doc: Doc, paths: Doc | None, *, status_only: bool = False) -> Errors:
    """The errors of the numbers at a scale subresource's paths."""
    if paths is None:
        return []
    errors: Errors = []
    for name in ("statusReplicasPath",) if status_only else ("specReplicasPath", "statusReplicasPath"):
        path = paths[name]
        number, wrong = _integer(doc, path)
        if wrong:
            errors.append(invalid(path, 0, wrong))
        elif number is not None and number < 0:
            errors.append(invalid(path, number, "should be a non-negative integer"))
        elif number is not None and number > _MAX:
            errors.append(invalid(path, number, f"should be less than or equal to {_MAX}"))
    if path := paths.get("labelSelectorPath"):
        selector = _found(doc, path)
        if not isinstance(selector, (str, type(None))):
            errors.append(invalid(path, "", _mismatch(path, selector, "string")))
    return errors


def _steps(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _found(doc: Doc, path: str) -> Any:
    return dig(doc, *_steps(path)) if path else None


def _integer(doc: Doc, path: str) -> tuple[int | None, str]:
    value = _found(doc, path)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value, ""
    return None, _mismatch(path, value, "int64")


def _mismatch(path: str, value: Any, wanted: str) -> str:
    found = {str: "string", bool: "bool", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}
    told = f"{go_text.plain(value)} is of the type {found.get(type(value), 'int64')}, expected {wanted}"
    return f"{path} accessor error: {told}"
