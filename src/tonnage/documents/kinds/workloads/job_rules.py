"""Rules for a Job's policies and status: a status counts up, and a finished Job stays finished.

Other controllers than ours may run a Job (`managedBy`), so the server checks them all. The rules apply to changes of
the status; old errors may stay. Mirrors validateJobStatus and its relatives.
"""

from __future__ import annotations

from functools import partial

from tonnage.documents.strategy import TypeRules, has_condition
from tonnage.documents.validation.internal_form import internal
from tonnage.objects import field_rules as rules
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import OMIT, Errors, Wrong, invalid, required, too_long, too_many
from tonnage.objects.field_rules import check, each, unique
from tonnage.objects.texts.index_intervals import Interval, InvalidIntervals, count_of, parse_interval, parse_intervals


def is_indexed(spec: Doc) -> bool:
    return bool(spec.get("completionMode") == "Indexed")


_STATUS, _SUCCESS_RULE = TypeRules("batch.JobStatus"), TypeRules("batch.SuccessPolicyRule")
_CONDITIONS = "status.conditions"


def validate_job_status(new: Doc, old: Doc) -> Errors:
    status = new.get("status", {})
    errors, is_unique = _STATUS(status, "status"), unique()
    uid = each(lambda uid, path: is_unique(uid, path) if uid else [invalid(path, uid, "must not be empty")])
    errors += check(status, "status", {f"uncountedTerminatedPods.{field}": uid for field in ("succeeded", "failed")})
    return [*errors, *_validate_state(new, old), *_validate_indexes(new, old), *_validate_kept(new, old)]


def is_finished(doc: Doc) -> bool:
    return has_condition(doc, "Complete") or has_condition(doc, "Failed")


def _validate_state(new: Doc, old: Doc) -> Errors:
    spec, status, was = new["spec"], new.get("status", {}), old.get("status", {})
    is_complete, is_failed, is_done = has_condition(new, "Complete"), has_condition(new, "Failed"), is_finished(new)
    is_met, is_failing = has_condition(new, "SuccessCriteriaMet"), has_condition(new, "FailureTarget")

    def became(kind: str) -> bool:
        return has_condition(new, kind) != has_condition(old, kind)

    def changed(field: str) -> bool:
        return not same(status.get(field), was.get(field))

    completed, ended, started = became("Complete"), is_done != is_finished(old), status.get("startTime")
    finished_at, uncounted = status.get("completionTime"), status.get("uncountedTerminatedPods", {})
    errors: Errors = []

    def wrong(told: str) -> None:
        errors.append(invalid(_CONDITIONS, OMIT, told))

    if (completed or became("Failed")) and is_complete and is_failed:
        wrong("cannot set Complete=True and Failed=true conditions")
    if (completed or became("FailureTarget")) and is_complete and is_failing:
        wrong("cannot set Complete=True and FailureTarget=true conditions")
    if completed or changed("completionTime"):
        if finished_at is not None and not is_complete:
            told = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid("status.completionTime", finished_at, told))
        if finished_at is None and is_complete:
            errors.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    if (changed("startTime") or changed("completionTime")) and started and finished_at and finished_at < started:
        errors.append(invalid("status.completionTime", finished_at, "must be equal to or after `startTime`"))
    if (became("Failed") or changed("failedIndexes")) and is_failed and not is_failing:
        wrong("cannot set Failed=True condition without the FailureTarget=true condition")
    if (completed or became("SuccessCriteriaMet")) and is_complete and not is_met:
        wrong("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    active, terminating, ready = status.get("active", 0), status.get("terminating"), status.get("ready")
    if (ended or changed("active")) and is_done and active > 0:
        errors.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    has_nothing_to_do = bool(spec.get("suspend")) and spec.get("completions") == 0
    if (ended or changed("startTime")) and is_done and started is None and not has_nothing_to_do:
        errors.append(required("status.startTime", "startTime is required for finished job"))
    if (
        (ended or changed("uncountedTerminatedPods"))
        and is_done
        and (uncounted.get("failed") or uncounted.get("succeeded"))
    ):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        errors.append(invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job"))
    if (ended or changed("terminating")) and is_done and terminating:
        errors.append(invalid("status.terminating", terminating, "terminating>0 is invalid for finished job"))
    if (changed("ready") or changed("active")) and ready is not None and ready > active:
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    if is_met and is_failed:
        wrong("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if is_met and is_failing:
        wrong("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if "successPolicy" in spec and not is_met and is_complete:
        wrong("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    return errors


def _validate_indexes(new: Doc, old: Doc) -> Wrong:
    spec, status, was = new["spec"], new.get("status", {}), old.get("status", {})
    completed, failed, bound = status.get("completedIndexes", ""), status.get("failedIndexes"), spec.get("completions")
    completed_changed = completed != was.get("completedIndexes", "")
    failed_changed = failed != was.get("failedIndexes")
    if completed_changed and bound is not None:
        yield from _validate_format(completed, bound, "completedIndexes")
    if failed_changed and bound is not None and "backoffLimitPerIndex" in spec and failed is not None:
        yield from _validate_format(failed, bound, "failedIndexes")
    if completed_changed and completed and not is_indexed(spec):
        told = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", completed, told)
    if failed_changed and failed is not None and "backoffLimitPerIndex" not in spec:
        told = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", failed, told)
    if (completed_changed or failed_changed) and bound is not None and failed is not None:
        both = _overlap(_understood(completed, bound), _understood(failed, bound))
        if both is not None:
            told = f"failedIndexes and completedIndexes overlap at index: {both}"
            yield invalid("status.failedIndexes", failed, told)


def _validate_format(text: str, bound: int, field: str) -> Errors:
    try:
        parse_intervals(text, bound)
    except InvalidIntervals as exc:
        return [invalid(f"status.{field}", text, f"error parsing {field}: {exc.message}")]
    return []


def _understood(text: str, bound: int) -> list[Interval]:
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        try:
            found.append(parse_interval(part, bound))
        except InvalidIntervals:
            continue  # reported by the check of the format
    return found


def _overlap(one: list[Interval], other: list[Interval]) -> int | None:
    """The first index in both lists; both are sorted."""
    mine, theirs = 0, 0
    while mine < len(one) and theirs < len(other):
        low, high = max(one[mine][0], other[theirs][0]), min(one[mine][1], other[theirs][1])
        if low <= high:
            return low
        if one[mine][0] <= other[theirs][0]:
            mine += 1
        else:
            theirs += 1
    return None


def _validate_kept(new: Doc, old: Doc) -> Wrong:
    spec, status, was = new["spec"], new.get("status", {}), old.get("status", {})
    for kind in ("Failed", "Complete", "FailureTarget"):
        if has_condition(old, kind) and not has_condition(new, kind):
            yield invalid(_CONDITIONS, OMIT, f"cannot disable the terminal {kind}=True condition")
    # An Indexed Job with as many pods as completions may be scaled down.
    is_scalable = is_indexed(spec) and spec.get("completions") == spec.get("parallelism")
    for field in ("failed", "succeeded"):
        if status.get(field, 0) < was.get(field, 0) and not (field == "succeeded" and is_scalable):
            yield invalid(f"status.{field}", status.get(field, 0), f"cannot decrease the {field} counter")
    finished_at, before = status.get("completionTime"), was.get("completionTime")
    if finished_at is not None and before is not None and finished_at != before:
        yield invalid("status.completionTime", finished_at, "field is immutable")
    is_resuming = has_condition(old, "Suspended") and has_condition(new, "Suspended", "False")
    is_other_start = "startTime" in was and status.get("startTime") != was["startTime"]
    if is_other_start and not is_resuming and not spec.get("suspend"):
        told = "field is immutable for unsuspended job once set"
        yield invalid("status.startTime", status.get("startTime"), told)
    if has_condition(old, "SuccessCriteriaMet") and not has_condition(new, "SuccessCriteriaMet"):
        yield invalid(_CONDITIONS, OMIT, "cannot disable the SuccessCriteriaMet=True condition")
    is_met_late = has_condition(new, "SuccessCriteriaMet") and not has_condition(old, "SuccessCriteriaMet")
    if is_met_late and has_condition(old, "Complete"):
        told = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield invalid(_CONDITIONS, OMIT, told)


_MOST_RULES = 20
_MOST_CODES = 255
_MOST_INDEX_BYTES = 64 * 1024


_RULE, _CODES = TypeRules("batch.PodFailurePolicyRule"), TypeRules("batch.PodFailurePolicyOnExitCodesRequirement")


def validate_pod_failure_policy(spec: Doc, path: str) -> Errors:
    if "podFailurePolicy" not in spec:
        return []
    pod = spec.get("template", {}).get("spec", {})
    names = {item.get("name", "") for field in ("containers", "initContainers") for item in pod.get(field, ())}
    rule = partial(_validate_rule, names=names, has_index_limit="backoffLimitPerIndex" in spec)
    return check(spec["podFailurePolicy"], f"{path}.podFailurePolicy", {"rules": each(rule, at_most=_MOST_RULES)})


def _validate_rule(rule: Doc, path: str, *, names: set[str], has_index_limit: bool) -> Wrong:
    yield from _RULE(rule, path, "action")
    if rule.get("action") == "FailIndex" and not has_index_limit:
        yield invalid(f"{path}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions", [])
    if codes is not None:
        yield from _validate_exit_codes(codes, f"{path}.onExitCodes", names)
    yield from _RULE(rule, path, "onPodConditions")
    if codes is not None and conditions:
        yield invalid(path, OMIT, "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not conditions:
        yield invalid(path, OMIT, "specifying one of OnExitCodes and OnPodConditions is required")


def _validate_exit_codes(rule: Doc, path: str, names: set[str]) -> Errors:
    operator, container, values = rule.get("operator", ""), rule.get("containerName"), rule.get("values", [])
    errors = _CODES(rule, path)
    if container is not None and container not in names:
        told = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, told))
    if not values:
        errors.append(invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > _MOST_CODES:
        errors.append(too_many(f"{path}.values", len(values), _MOST_CODES))
    not_zero = rules.must_be(lambda code: operator != "In" or code != 0, "must not be 0 for the In operator")
    errors += each(rules.both(not_zero, unique()))(values, f"{path}.values")
    return errors if values == sorted(values) else [*errors, invalid(f"{path}.values", values, "must be ordered")]


def validate_success_policy(spec: Doc, path: str) -> Errors:
    if "successPolicy" not in spec:
        return []
    if not is_indexed(spec):
        shown = internal("SuccessPolicy", {"rules": spec["successPolicy"].get("rules") or None})
        return [invalid(f"{path}.successPolicy", shown, "requires indexed completion mode")]
    rule = each(partial(_validate_success_rule, completions=spec.get("completions", 0)), at_most=_MOST_RULES)
    told = "at least one rules must be specified when the successPolicy is specified"
    return check(spec["successPolicy"], f"{path}.successPolicy", {"rules": rules.needed(rule, told)})


def _validate_success_rule(rule: Doc, path: str, completions: int) -> Wrong:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        told = "at least one of succeededCount or succeededIndexes must be specified"
        yield required(path, told)
    total = 0
    if indexes is not None:
        if len(indexes.encode()) > _MOST_INDEX_BYTES:
            yield too_long(f"{path}.succeededIndexes", _MOST_INDEX_BYTES)
        try:
            total = count_of(parse_intervals(indexes, completions))
        except InvalidIntervals as exc:
            told = f"error parsing succeededIndexes: {exc.message}"
            yield invalid(f"{path}.succeededIndexes", indexes, told)
    if count is not None:
        yield from _SUCCESS_RULE(rule, path)
        if count > completions:
            told = f"must be less than or equal to {completions} (the number of specified completions)"
            yield invalid(f"{path}.succeededCount", count, told)
        if indexes is not None and count > total:
            told = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            yield invalid(f"{path}.succeededCount", count, told)
