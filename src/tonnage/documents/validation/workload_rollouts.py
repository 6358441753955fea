"""How a workload replaces its pods: the update strategies of Deployment, DaemonSet and StatefulSet.

Each kind has two words and, for the rolling one, its own pair of numbers; a word that is neither is refused with the
whole struct in the message, spelled as upstream's Go type spells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, forbidden, invalid, required
from tonnage.objects.field_rules import amount_of, at_most_all, count_or_percent, nonnegative, unsupported


def validate_deployment_strategy(strategy: Doc, path: str) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        told = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden(f"{path}.rollingUpdate", told)]
    if kind != "RollingUpdate":
        shown = _shown_strategy(kind, rolling, ("MaxUnavailable", "MaxSurge"))
        return [unsupported(path, shown, ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    out, extra = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    at = f"{path}.rollingUpdate"
    errors = count_or_percent(out, f"{at}.maxUnavailable") + count_or_percent(extra, f"{at}.maxSurge")
    if amount_of(out) == 0 and amount_of(extra) == 0:
        errors.append(invalid(f"{at}.maxUnavailable", out, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_all(out, f"{at}.maxUnavailable")


def validate_daemon_set_strategy(strategy: Doc, path: str) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        shown = _shown_strategy(kind, rolling, ("MaxUnavailable", "MaxSurge"))
        return [unsupported(path, shown, ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    out, extra = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    at = f"{path}.rollingUpdate"
    errors = count_or_percent(out, f"{at}.maxUnavailable") + count_or_percent(extra, f"{at}.maxSurge")
    errors += at_most_all(out, f"{at}.maxUnavailable") + at_most_all(extra, f"{at}.maxSurge")
    if amount_of(out) != 0 and amount_of(extra) != 0:
        errors.append(invalid(f"{at}.maxSurge", extra, "may not be set when maxUnavailable is non-zero"))
    elif amount_of(out) == 0 and amount_of(extra) == 0:
        errors.append(required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def validate_stateful_set_strategy(strategy: Doc, path: str) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is None:
            return []
        shown = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}
        return [invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")]
    if kind != "RollingUpdate":
        shown = _shown_strategy(kind, rolling, ("Partition", "MaxUnavailable"))
        return [invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    return nonnegative(rolling.get("partition", 0), f"{path}.rollingUpdate.partition")


def _shown_strategy(kind: str, rolling: Doc | None, fields: Sequence[str]) -> Doc:
    """A strategy as upstream's message prints it, by the names of its Go type."""
    inner: dict[str, Any] | None = None
    if rolling is not None:
        inner = {field: rolling.get(field[0].lower() + field[1:], 0) for field in fields}
    return {"Type": kind, "RollingUpdate": inner}
