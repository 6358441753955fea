"""PodDisruptionBudget, and the evictions that count it down.

The server carries out an `EvictionDecision` in this order: write the budget's decremented status, mark the pod
(`mark_disrupted`), delete it with the decision's options. A pod that has ended, has not started or is being deleted
charges no budget, nor does an unready pod that its budget can spare.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import msgspec

from tonnage.documents.api_errors import UnknownReason
from tonnage.documents.deletion import check_preconditions
from tonnage.documents.strategy import Generation, Strategy, TypeRules, has_condition, set_condition
from tonnage.errors import BadRequest, Cause, Forbidden, TooManyRequests
from tonnage.objects import field_rules, resources
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors, Wrong, go_value, invalid, invalid_object
from tonnage.objects.selectors import InvalidSelector, LabelSelector

_BUDGET_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class PodDisruptionBudgetStrategy(Strategy):
    generation = Generation.COUNTED
    unconditional_update = False
    new_status: ClassVar[Doc] = dict.fromkeys(_BUDGET_COUNTS, 0)

    def validate(self, doc: Doc) -> Errors:
        spec = doc.get("spec", {})
        errors = _BUDGET(spec, "spec")
        if "minAvailable" not in spec or "maxUnavailable" not in spec:
            return errors
        fields = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {field[0].upper() + field[1:]: spec.get(field) for field in fields}
        return [invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"), *errors]

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return _BUDGET_STATUS(new.get("status", {}), "status")


_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_TOLD = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' "
    f"(e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
    f"regex used for validation is '{_REASON}')"
)
_CONDITION = TypeRules(
    "meta.Condition",
    reason=field_rules.both(
        field_rules.must_be(lambda value: re.fullmatch(_REASON, value) is not None, _REASON_TOLD),
        field_rules.at_most_bytes(1024),
    ),
)


def validate_conditions(conditions: list[Doc], path: str) -> Wrong:
    """Conditions of the uniform type metav1.Condition. Mirrors ValidateConditions of meta/v1."""
    unique = field_rules.unique()
    for idx, condition in enumerate(conditions):
        yield from unique(condition.get("type", ""), f"{path}[{idx}].type")
        yield from _CONDITION(condition, f"{path}[{idx}]")


_BUDGET = TypeRules("policy.PodDisruptionBudgetSpec")
_BUDGET_STATUS = TypeRules("policy.PodDisruptionBudgetStatus", conditions=validate_conditions)


_PODS = resources.BY_PLURAL["", "pods"]
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
