"""When a pod counts: active, ready, available; and shares of a number, as counts or percentages.

Ready is what the kubelet says. Available is ready for `minReadySeconds` without a break; as no event comes when that
time is over, `next_check_s` says when to look again. Mirrors podutil.IsPodAvailable and intstr.GetScaledValue….
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from tonnage.objects.core_v1 import Pod
from tonnage.objects.texts.decode_budget import whole_number


def is_active(pod: Pod) -> bool:
    """It runs or will: it has not ended and nobody deleted it."""
    return not pod.is_terminal and not pod.metadata.is_terminating


def is_ready(pod: Pod) -> bool:
    condition = pod.condition("Ready")
    return condition is not None and condition.is_true


def ready_since(pod: Pod) -> datetime | None:
    """When it became ready; None while it is not, or when nobody noted it."""
    condition = pod.condition("Ready")
    return condition.last_transition_time if condition is not None and condition.is_true else None


def with_ready_since(pod: Pod, at: datetime) -> Pod:
    """The pod as if it had become ready at that time."""
    conditions = tuple(
        msgspec.structs.replace(each, last_transition_time=at) if each.type == "Ready" else each
        for each in pod.status.conditions
    )
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=conditions))


def is_available(pod: Pod, min_ready_s: int, now: datetime) -> bool:
    if not is_ready(pod):
        return False
    since = ready_since(pod)
    return min_ready_s == 0 or (since is not None and since + timedelta(seconds=min_ready_s) <= now)


def next_check_s(pods: Iterable[Pod], min_ready_s: int, now: datetime) -> float | None:
    """Seconds until the first of these ready pods becomes available; None when none is on its way."""
    if min_ready_s <= 0:
        return None
    sinces = (ready_since(pod) for pod in pods)
    left_s = [(since + timedelta(seconds=min_ready_s) - now).total_seconds() for since in sinces if since is not None]
    return min((seconds for seconds in left_s if seconds > 0), default=None)


def earliest(*times_s: float | None) -> float | None:
    """The first of several times to look again; None is never."""
    return min((each for each in times_s if each is not None), default=None)


def scaled_value(count_or_percent: int | str, total: int, *, round_up: bool) -> int:
    """`3` is 3 and `"25%"` a quarter of `total`, rounded as asked. ValueError for what is neither."""
    if isinstance(count_or_percent, int):
        return count_or_percent
    number, sign, rest = count_or_percent.partition("%")
    if not sign or rest or not number.lstrip("-").isdecimal():
        raise ValueError(f'invalid value for IntOrString: invalid type: string is not a percentage: "{number}"')
    # Whole numbers throughout: -(-a // b) rounds a / b up.
    percent = whole_number(number)
    return -(-percent * total // 100) if round_up else percent * total // 100
