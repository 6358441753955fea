"""What becomes of a namespace's quotas when an object comes or changes. Mirrors CheckRequest.

`charge` answers for one quota: what is added to its `status.used`, or a Forbidden with upstream's words. It judges by
the quota's status, which the controller keeps: a quota that nobody has counted yet refuses everything it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from tonnage.documents import api_errors
from tonnage.documents.pod_resources import Amounts, amounts_of
from tonnage.documents.quota.scopes import is_about, is_terminating
from tonnage.documents.quota.usage import compute_usage, names_for, usage_of
from tonnage.errors import Forbidden
from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource
from tonnage.quantity import Quantity

_ZERO = Quantity.from_int(0)
_STATED_BY_CONTAINERS = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""Where a quota has one of these, each container has to say how much it wants."""
_JUDGED_AT_UPDATE = ("persistentvolumeclaims", "services")


def may_use_more(resource: Resource, new: Doc, old: Doc) -> bool:
    """Can this update use more of a quota? Of pods only one that changes their scope."""
    if resource.group:
        return False
    if resource.plural == "pods":
        return is_terminating(new) != is_terminating(old)
    return resource.plural in _JUDGED_AT_UPDATE


def charge(quota: Doc, resource: Resource, new: Doc, old: Doc | None, now: datetime) -> Amounts:
    """What a quota is charged for an object that is created (`old` is None) or changed; empty when nothing.

    Raises Forbidden when that is more than is left, when nobody has counted yet, or when a container does not say what
    it wants.
    """
    status = quota.get("status", {})
    hard, used = _amounts(status.get("hard", {})), _amounts(status.get("used", {}))
    name, names = quota["metadata"]["name"], names_for(resource, hard)
    if not names or not is_about(quota, resource, new):
        return {}
    if missing := _unstated(resource, new, names):
        raise _refused(resource, new, f"failed quota: {name}: must specify {missing}")
    if any(each not in used for each in names):
        raise _refused(resource, new, f"status unknown for quota: {name}, resources: {','.join(names)}")
    delta = usage_of(resource, new, now)
    if old is not None and is_about(quota, resource, old):
        before = usage_of(resource, old, now)
        delta = {each: max(amount - before.get(each, _ZERO), _ZERO) for each, amount in delta.items()}
    delta = {each: delta[each] for each in names if each in delta and not delta[each].is_zero()}
    exceeded = [each for each in delta if used[each] + delta[each] > hard[each]]
    if exceeded:
        raise _refused(
            resource,
            new,
            f"exceeded quota: {name}, requested: {_text(delta, exceeded)}, used: {_text(used, exceeded)}, "
            f"limited: {_text(hard, exceeded)}",
        )
    return delta


def with_used(quota: Doc, delta: Amounts, *, is_release: bool = False) -> Doc:
    """The quota with more, or less, in use. What it does not count is left out."""
    status = quota.get("status", {})
    used = _amounts(status.get("used", {}))
    for name, amount in delta.items():
        if name in used:
            used[name] = max(used[name] - amount, _ZERO) if is_release else used[name] + amount
    return {**quota, "status": {**status, "used": {name: str(amount) for name, amount in used.items()}}}


def recounted(quota: Doc, content: Mapping[Resource, Iterable[Doc]], now: datetime) -> Doc:
    """The status of a quota by what is in its namespace: `content` has the objects of each kind it counts."""
    hard = quota.get("spec", {}).get("hard", {})
    used: Amounts = {}
    for resource, docs in content.items():
        names = names_for(resource, hard)
        used |= {name: used.get(name, _ZERO) for name in names}
        for doc in docs:
            if names and is_about(quota, resource, doc):
                usage = usage_of(resource, doc, now)
                used |= {name: used[name] + usage[name] for name in names if name in usage}
    kept = _amounts(quota.get("status", {}).get("used", {}))
    counts = {name: used.get(name, kept.get(name)) for name in hard}
    status = {"hard": dict(hard), "used": {name: str(count) for name, count in counts.items() if count is not None}}
    return {field: amounts for field, amounts in status.items() if amounts}


def is_same_status(one: Doc, other: Doc) -> bool:
    """Do two statuses say the same amounts, however written?"""
    return all(_amounts(one.get(field, {})) == _amounts(other.get(field, {})) for field in ("hard", "used"))


def _unstated(resource: Resource, doc: Doc, names: list[str]) -> str:
    """`cpu for: a,b; memory for: a`: what the quota counts and containers do not state."""
    if (resource.group, resource.plural) != ("", "pods") or doc["spec"].get("resources"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in [*doc["spec"].get("containers", ()), *doc["spec"].get("initContainers", ())]:
        stated = compute_usage(amounts_of(container, "requests"), amounts_of(container, "limits"))
        for name in _STATED_BY_CONTAINERS.intersection(names).difference(stated):
            missing.setdefault(name, set()).add(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


def _amounts(texts: Mapping[str, str]) -> Amounts:
    return {name: Quantity.of(text) for name, text in texts.items()}


def _text(amounts: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names))


def _refused(resource: Resource, doc: Doc, why: str) -> Forbidden:
    return api_errors.forbidden(resource, doc["metadata"].get("name", ""), why)
