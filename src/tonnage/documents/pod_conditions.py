"""Setting a condition of a pod: by type, in place, with the time only of a real change."""

from __future__ import annotations

from tonnage.objects.document import Doc


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
