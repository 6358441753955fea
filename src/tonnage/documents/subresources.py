"""Binding and scale: subresources that are more than a part of an object, as pure functions.

Binding is the one write that gives a pod its node. Evictions stand with their budgets, in `kinds`.

A Scale is an object seen as one number, for kubectl scale and autoscalers. The object is a workload, or a custom one
whose definition names the paths. `apply_scale` returns it with a Scale's replicas; the verb treats that as an update.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from tonnage.documents import api_errors, go_text, strategy
from tonnage.documents.schema import ShapedResource
from tonnage.errors import BadRequest, Cause, InternalError
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
    conflict = partial(api_errors.conflict_of_kind, "", "pods/binding", name)
    _check_preconditions(pod, binding.get("metadata", {}))
    if "deletionTimestamp" in pod["metadata"]:
        raise api_errors.conflict_of_kind(
            "", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host"
        )
    if node := pod["spec"].get("nodeName"):
        raise api_errors.conflict_of_kind(
            "", "pods/binding", name, f"pod {name} is already assigned to node {go_value(node)}"
        )
    if pod["spec"].get("schedulingGates"):
        raise conflict(f"pod {name} has non-empty .spec.schedulingGates")

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


_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_MAX = (1 << 31) - 1
_SPEC = strategy.TypeRules("autoscaling.ScaleSpec")
_OF_WORKLOADS: Doc = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def scale_of(doc: Doc, resource: Resource, *, must_have: bool = True) -> Doc:
    """The object's Scale: desired replicas, current replicas, and the selector of its pods.

    Raises InternalError if a custom object has other values at its paths, or with `must_have` no desired replicas.
    """
    paths = _paths_of(resource)
    replicas, wrong = _integer(doc, paths["specReplicasPath"])
    present, also_wrong = _integer(doc, paths["statusReplicasPath"])
    if not isinstance(resource, ShapedResource):
        selector = _selector_of(doc, resource)
    elif not isinstance(selector := _found(doc, paths.get("labelSelectorPath") or ""), (str, type(None))):
        also_wrong = _mismatch(paths["labelSelectorPath"], selector, "string")
    told = wrong or also_wrong
    if not told and replicas is None and must_have:
        told = f'the spec replicas field "{paths["specReplicasPath"]}" does not exist'
    if told:
        raise InternalError(f"Internal error occurred: {told}", causes=(Cause("", told),))
    status: Doc = {"replicas": present or 0}
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: doc["metadata"][field] for field in _KEPT if field in doc["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _paths_of(resource: Resource) -> Doc:
    return resource.scale or {} if isinstance(resource, ShapedResource) else _OF_WORKLOADS


def _selector_of(doc: Doc, resource: Resource) -> str:
    selector = doc["spec"].get("selector", {})
    if resource.qualified == "replicationcontrollers":  # the one workload whose selector is a plain map
        selector = {"matchLabels": selector}
    return str(msgspec.convert(selector, LabelSelector))


def apply_scale(doc: Doc, scale: Doc, resource: Resource) -> Doc:
    """A copy of the object with a Scale's replicas, and with its uid and resourceVersion for the update to compare.

    Raises Invalid for a workload's negative number, BadRequest if a custom object has no place for it.
    """
    if not isinstance(resource, ShapedResource) and (errors := _SPEC(scale.get("spec", {}), "spec")):
        raise invalid_object("autoscaling", "Scale", doc["metadata"]["name"], errors)
    scaled: Doc = copy(doc)
    path = _paths_of(resource)["specReplicasPath"]
    *parents, last = _steps(path)
    place: Any = scaled
    for step in parents:
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            raise BadRequest(f'the spec replicas field "{path}" has no place in the object')
    place[last] = scale.get("spec", {}).get("replicas", 0)
    said = {field: scale.get("metadata", {}).get(field) for field in ("uid", "resourceVersion")}
    scaled["metadata"] |= {field: value for field, value in said.items() if value}
    return scaled


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
