"""When a Job's pod that failed counts, and when a Job counts as done before all is done. Mirrors batch/validation."""

from __future__ import annotations

from tonnage.objects.document import Doc
from tonnage.objects.field_errors import OMIT, Errors, duplicate, go_value, invalid, required, too_long, too_many
from tonnage.objects.field_rules import nonnegative, unsupported, validate_label_name
from tonnage.objects.texts.index_intervals import InvalidIntervals, count_of, parse_intervals

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MOST_RULES = 20
_MOST_CODES = 255
_MOST_PATTERNS = 20
_MOST_INDEX_BYTES = 64 * 1024


def validate_pod_failure_policy(spec: Doc, path: str) -> Errors:
    rules = spec["podFailurePolicy"].get("rules", [])
    errors = [too_many(f"{path}.rules", len(rules), _MOST_RULES)] if len(rules) > _MOST_RULES else []
    pod = spec.get("template", {}).get("spec", {})
    names = {each.get("name", "") for field in ("containers", "initContainers") for each in pod.get(field, ())}
    for idx, rule in enumerate(rules):
        errors += _validate_rule(rule, f"{path}.rules[{idx}]", names, has_index_limit="backoffLimitPerIndex" in spec)
    return errors


def _validate_rule(rule: Doc, path: str, names: set[str], *, has_index_limit: bool) -> Errors:
    errors: Errors = []
    action = rule.get("action", "")
    if not action:
        errors.append(required(f"{path}.action", _valid_values(_ACTIONS)))
    elif action == "FailIndex":
        if not has_index_limit:
            errors.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    elif action not in _ACTIONS:
        errors.append(unsupported(f"{path}.action", action, _ACTIONS))
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions", [])
    if codes is not None:
        errors += _validate_exit_codes(codes, f"{path}.onExitCodes", names)
    if conditions:
        errors += _validate_conditions(conditions, f"{path}.onPodConditions")
    if codes is not None and conditions:
        errors.append(invalid(path, OMIT, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        errors.append(invalid(path, OMIT, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _validate_conditions(patterns: list[Doc], path: str) -> Errors:
    errors = [too_many(path, len(patterns), _MOST_PATTERNS)] if len(patterns) > _MOST_PATTERNS else []
    for idx, pattern in enumerate(patterns):
        errors += validate_label_name(pattern.get("type", ""), f"{path}[{idx}].type")
        status = pattern.get("status", "")
        if not status:
            errors.append(required(f"{path}[{idx}].status", _valid_values(_STATUSES)))
        elif status not in _STATUSES:
            errors.append(unsupported(f"{path}[{idx}].status", status, _STATUSES))
    return errors


def _validate_exit_codes(rule: Doc, path: str, names: set[str]) -> Errors:
    errors: Errors = []
    operator, container, values = rule.get("operator", ""), rule.get("containerName"), rule.get("values", [])
    if not operator:
        errors.append(required(f"{path}.operator", _valid_values(_OPERATORS)))
    elif operator not in _OPERATORS:
        errors.append(unsupported(f"{path}.operator", operator, _OPERATORS))
    if container is not None and container not in names:
        told = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, told))
    if not values:
        errors.append(invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > _MOST_CODES:
        errors.append(too_many(f"{path}.values", len(values), _MOST_CODES))
    seen: set[int] = set()
    for idx, code in enumerate(values):
        if operator == "In" and code == 0:
            errors.append(invalid(f"{path}.values[{idx}]", code, "must not be 0 for the In operator"))
        if code in seen:
            errors.append(duplicate(f"{path}.values[{idx}]", code))
        seen.add(code)
    if values != sorted(values):
        errors.append(invalid(f"{path}.values", values, "must be ordered"))
    return errors


def validate_success_policy(spec: Doc, path: str) -> Errors:
    rules = spec["successPolicy"].get("rules", [])
    errors: Errors = []
    if not rules:
        told = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", told))
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    for idx, rule in enumerate(rules):
        errors += _validate_success_rule(rule, f"{path}.rules[{idx}]", spec.get("completions", 0))
    return errors


def _validate_success_rule(rule: Doc, path: str, completions: int) -> Errors:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    errors: Errors = []
    if count is None and indexes is None:
        told = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(required(path, told))
    total = 0
    if indexes is not None:
        if len(indexes.encode()) > _MOST_INDEX_BYTES:
            errors.append(too_long(f"{path}.succeededIndexes", _MOST_INDEX_BYTES))
        try:
            total = count_of(parse_intervals(indexes, completions))
        except InvalidIntervals as exc:
            told = f"error parsing succeededIndexes: {exc.message}"
            errors.append(invalid(f"{path}.succeededIndexes", indexes, told))
    if count is not None:
        errors += nonnegative(count, f"{path}.succeededCount")
        if count > completions:
            told = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(invalid(f"{path}.succeededCount", count, told))
        if indexes is not None and count > total:
            told = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            errors.append(invalid(f"{path}.succeededCount", count, told))
    return errors


def _valid_values(values: tuple[str, ...]) -> str:
    """As Go prints a list of quoted words."""
    return f"valid values: [{' '.join(map(go_value, values))}]"
