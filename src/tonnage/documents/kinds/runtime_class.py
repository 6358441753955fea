"""RuntimeClass, and its effect on the pods that name it (`obey_runtime_class`)."""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.api_errors import forbidden_pod
from tonnage.documents.kinds.pods.pod_spec import validate_tolerations
from tonnage.documents.strategy import Strategy
from tonnage.documents.validation.resources import validate_resource_requirements
from tonnage.objects import field_rules
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import Errors, duplicate
from tonnage.objects.field_rules import immutable, unique
from tonnage.quantity import Quantity

_NAMING = ("key", "operator", "value", "effect")


def _validate_unlike_tolerations(tolerations: list[Doc], path: str) -> Errors:
    is_repeated = unique()
    return validate_tolerations(tolerations, path) + [
        duplicate(f"{path}[{idx}]", toleration)
        for idx, toleration in enumerate(tolerations)
        if is_repeated(tuple(toleration.get(field, "") for field in _NAMING), "")
    ]


class RuntimeClassStrategy(Strategy):
    by_hand: ClassVar[field_rules.Rules] = {
        "overhead": lambda overhead, path: validate_resource_requirements(
            {"limits": overhead.get("podFixed", {})}, path
        ),
        "scheduling.tolerations": _validate_unlike_tolerations,
    }

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return immutable("handler", new.get("handler", ""), old.get("handler", ""))


def obey_runtime_class(pod: Doc, runtime_class: Doc) -> None:
    """Write the class's overhead and scheduling into a pod, in place. Raises Forbidden if the pod contradicts them."""
    spec = pod["spec"]
    if "overhead" in runtime_class:
        overhead = runtime_class["overhead"].get("podFixed", {})
        if spec.get("overhead"):
            refuse_foreign_overhead(pod, runtime_class)
        spec.pop("overhead", None)
        if overhead:
            spec["overhead"] = dict(overhead)
    if "scheduling" in runtime_class:
        scheduling = runtime_class["scheduling"]
        selector, wanted = spec.get("nodeSelector", {}), scheduling.get("nodeSelector", {})
        for key, value in sorted(wanted.items()):
            if selector.get(key, value) != value:
                told = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
                raise forbidden_pod(pod, f"conflict: {told}; pod.spec.nodeSelector[{key}] = {selector[key]}")
        if selector or wanted:
            spec["nodeSelector"] = {**selector, **wanted}
        merged = merge_tolerations(spec.get("tolerations", []), scheduling.get("tolerations", []))
        if merged:
            spec["tolerations"] = merged


def refuse_foreign_overhead(pod: Doc, runtime_class: Doc | None) -> None:
    """Raise Forbidden if a pod's overhead is not that of its RuntimeClass."""
    stated = pod["spec"].get("overhead")
    if runtime_class is not None and "overhead" in runtime_class:
        texts = (runtime_class["overhead"].get("podFixed", {}), stated or {})
        wanted, given = ({name: Quantity.of(text) for name, text in each.items()} for each in texts)
        if wanted != given:
            raise forbidden_pod(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    elif stated is not None:
        raise forbidden_pod(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")


def merge_tolerations(first: list[Doc], second: list[Doc]) -> list[Doc]:
    """Both lists without tolerations that another toleration covers. Mirrors MergeTolerations."""
    every = [*first, *second]
    merged: list[Doc] = []
    for idx, one in enumerate(every):
        if any(_covers(other, one) for other in merged):
            continue
        if any(not same(other, one) and _covers(other, one) for other in every[idx + 1 :]):
            continue
        merged.append(one)
    return merged


def _covers(wide: Doc, narrow: Doc) -> bool:
    if same(wide, narrow):
        return True
    key, operator, effect = wide.get("key", ""), wide.get("operator", "") or "Equal", wide.get("effect", "")
    if narrow.get("key", "") != key and (key or operator != "Exists"):
        return False
    if narrow.get("effect", "") != effect and effect:
        return False
    if effect == "NoExecute" and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator == "Equal":
        return narrow.get("operator") == "Equal" and narrow.get("value", "") == wide.get("value", "")
    return operator == "Exists"
