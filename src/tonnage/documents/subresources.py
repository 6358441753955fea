"""Binding, eviction and scale: the subresources that are more than a part of an object, as pure functions.

Binding is the one write that gives a pod its node, eviction a deletion that respects disruption budgets. The server
carries out an `EvictionDecision` in this order: write the budget's decremented status, mark the pod (`mark_disrupted`),
delete it with the decision's options. A pod that has ended, has not started or is being deleted charges no budget, nor
does an unready pod that its budget can spare.

A Scale is an object seen as one number, for kubectl scale and autoscalers. `apply_scale` returns the workload with a
Scale's replicas, which the verb treats as an update of the workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from tonnage.documents.api_errors import UnknownReason, precondition_failed
from tonnage.documents.deletion import check_preconditions
from tonnage.documents.go_text import plain
from tonnage.documents.validation.type_rules import TypeRules
from tonnage.errors import BadRequest, Cause, Conflict, Forbidden, InternalError, TooManyRequests
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.field_errors import Errors, go_value, invalid, invalid_object, required, unsupported
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.objects.selectors import InvalidSelector, LabelSelector


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
        raise UnknownReason(told[0] if len(told) == 1 else f"[{', '.join(told)}]")


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
    set_condition(bound, {"type": "PodScheduled", "status": "True"}, now=now)
    return bound


def _check_preconditions(pod: Doc, wanted: Doc) -> None:
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


def has_condition(doc: Doc, kind: str, status: str = "True") -> bool:
    conditions = doc.get("status", {}).get("conditions", ())
    return any(item.get("type") == kind and item.get("status") == status for item in conditions)


def set_condition(doc: Doc, condition: Doc, *, now: str) -> None:
    """Replace the condition of this type, as UpdatePodCondition; its time becomes `now` if its status changes."""
    conditions = doc.setdefault("status", {}).setdefault("conditions", [])
    for idx, was in enumerate(conditions):
        if was.get("type") == condition["type"]:
            is_same = was.get("status") == condition["status"]
            since = was.get("lastTransitionTime") if is_same else now
            conditions[idx] = {**condition, "lastTransitionTime": since} if since else dict(condition)
            return
    conditions.append({**condition, "lastTransitionTime": now})


_PODS = BY_PLURAL["", "pods"]
MAX_DISRUPTED_PODS = 2000
"""With more evictions than this that the budget's controller has not confirmed, no further one is allowed."""
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_AFTER_S = 10


class OnConflict(Enum):
    """What to do if the pod has changed between the decision and the delete."""

    FAIL = "the caller named the version; tell it"
    JUDGE_AGAIN = "the pod was not guarded by a budget; look again whether it still is not"
    TRY_LATER = "the pod may have become ready; answer `still_processing`"


@dataclass(frozen=True)
class EvictionDecision:
    options: Doc
    budget: Doc | None = None
    """The budget with its new status, to be written first; None if no budget is charged."""
    budget_name: str = ""
    on_conflict: OnConflict = OnConflict.FAIL


def judge_eviction(
    pod: Doc, budgets: Iterable[Doc], eviction: Doc, *, now: str, dry_run: Sequence[str] = ()
) -> EvictionDecision:
    """Decide an eviction by the budgets of its namespace. Raises TooManyRequests, Forbidden or UnknownReason."""
    options: Doc = copy(eviction.get("deleteOptions", {}))
    if dry_run and not options.get("dryRun"):
        options["dryRun"] = list(dry_run)
    wanted, version = options.get("preconditions", {}), pod["metadata"].get("resourceVersion", "")
    is_named = "resourceVersion" in wanted
    nailed = {**options, "preconditions": {**wanted, "resourceVersion": version}}
    phase, is_going = pod.get("status", {}).get("phase"), "deletionTimestamp" in pod["metadata"]
    if is_going or phase in ("Succeeded", "Failed", "Pending"):
        # A pending pod may start any moment, and then a budget guards it; the others never start.
        is_nailed = phase == "Pending" and not is_going and not is_named
        on_conflict = OnConflict.FAIL if is_named else OnConflict.JUDGE_AGAIN
        return EvictionDecision(nailed if is_nailed else options, on_conflict=on_conflict)

    matching = [budget for budget in budgets if _guards(budget, pod)]
    if len(matching) > 1:
        told = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise UnknownReason(told)
    if not matching:
        return EvictionDecision(options)
    budget = matching[0]
    name = budget["metadata"]["name"]
    if not has_condition(pod, "Ready") and _spares_unready(budget):
        on_conflict = OnConflict.FAIL if is_named else OnConflict.TRY_LATER
        return EvictionDecision(nailed, budget_name=name, on_conflict=on_conflict)
    charged = _charge(budget, pod["metadata"]["name"], now=now)
    return EvictionDecision(options, budget=None if options.get("dryRun") else charged, budget_name=name)


def validate_eviction(eviction: Doc, pod_name: str) -> None:
    """The checks without the pod. `pod_name` is the URL's. Raises BadRequest or Invalid."""
    if eviction.get("metadata", {}).get("name", "") != pod_name:
        raise BadRequest("name in URL does not match name in Eviction object")
    option = "ignoreStoreReadErrorWithClusterBreakingPotential"
    if eviction.get("deleteOptions", {}).get(option):
        told = "can not be set for pod eviction, try after removing the option"
        raise invalid_object("policy", "Eviction", pod_name, [invalid(f"deleteOptions.{option}", True, told)])


def mark_disrupted(pod: Doc, options: Doc, *, now: str) -> Doc:
    """The pod with the condition DisruptionTarget. Raises Conflict if the options name another uid or version.

    The write gives the pod a new resourceVersion, which must replace a version in the options before the delete.
    """
    wanted = options.get("preconditions", {})
    uid, resource_version = wanted.get("uid") or None, wanted.get("resourceVersion") or None
    check_preconditions(_PODS, pod["metadata"], uid=uid, resource_version=resource_version)
    marked: Doc = copy(pod)
    why = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    set_condition(marked, {"type": "DisruptionTarget", "status": "True", **why}, now=now)
    return marked


def still_processing(budget_name: str) -> TooManyRequests:
    """The budget's numbers are not up to date yet; the client should retry in ten seconds."""
    told = f"The disruption budget {budget_name} is still being processed by the server."
    return _refused(told, retry_after_s=_RETRY_AFTER_S)


def _guards(budget: Doc, pod: Doc) -> bool:
    """True if the budget selects the pod. A missing or invalid selector selects nothing."""
    selector = budget.get("spec", {}).get("selector")
    if selector is None or budget["metadata"].get("namespace") != pod["metadata"].get("namespace"):
        return False
    try:
        return msgspec.convert(selector, LabelSelector).matches(pod["metadata"].get("labels", {}))
    except InvalidSelector:
        return False


def _spares_unready(budget: Doc) -> bool:
    """True if an unready pod may go: its budget allows it always, or has enough healthy pods without it."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired: int = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _charge(budget: Doc, pod_name: str, *, now: str) -> Doc:
    """The budget with one disruption less and the pod on record. Mirrors checkAndDecrement."""
    name, status = budget["metadata"]["name"], budget.get("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise still_processing(name)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods", {})) > MAX_DISRUPTED_PODS:
        raise _forbidden(name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        raise _refused(_why_none(name, status))
    charged: Doc = copy(budget)
    charged["status"]["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        condition = {"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": ""}
        set_condition(charged, {**condition, "observedGeneration": status.get("observedGeneration", 0)}, now=now)
    charged["status"]["disruptedPods"] = {**status.get("disruptedPods", {}), pod_name: now}
    return charged


def _why_none(name: str, status: Doc) -> str:
    conditions = {item.get("type"): item for item in reversed(status.get("conditions", []))}
    condition: Doc = conditions.get("DisruptionAllowed", {})
    reason, message = condition.get("reason", ""), condition.get("message", "")
    is_told = condition.get("status") == "False" and message
    current, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    # A failed sync comes first: its numbers cannot be trusted.
    if is_told and reason == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if is_told:
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _refused(told: str, *, retry_after_s: int = 0) -> TooManyRequests:
    return TooManyRequests(_REFUSED, causes=(Cause("DisruptionBudget", told),), retry_after_s=retry_after_s)


def _forbidden(name: str, told: str) -> Forbidden:
    return Forbidden(
        f"poddisruptionbudget.policy {go_value(name)} is forbidden: {told}",
        group="policy",
        kind="poddisruptionbudget",
        name=name,
    )


_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_MAX = (1 << 31) - 1
_SPEC = TypeRules("autoscaling.ScaleSpec")


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
    told = f"{plain(value)} is of the type {found.get(type(value), 'int64')}, expected {wanted}"
    return f"{path} accessor error: {told}"
