"""Taints keep pods off a node; tolerations let them on again.

`NoSchedule` keeps new pods away, `PreferNoSchedule` makes the node less liked, `NoExecute` also turns out the pods that
are there. Mirrors upstream's Toleration.ToleratesTaint. Its `Lt` and `Gt` operators are alpha in 1.36 and off
(TaintTolerationComparisonOperators), and a toleration that uses them tolerates nothing, there as here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tonnage.objects.meta import Record, Time

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Keys of the taints that say how a node is; the last one is set by a person, who vouches that the node is down."""

HARD_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))
"""The effects that keep a new pod off a node."""


class Taint(Record):
    """A mark on a node that repels the pods which do not tolerate it."""

    key: str
    effect: str
    value: str = ""
    time_added: Time | None = None


class Toleration(Record):
    """What a pod puts up with: an empty `key` or `effect` means any.

    `toleration_seconds` is how long it stays once a NoExecute taint appears: absent is for ever, 0 or less not at all.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether this one toleration covers this taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Equal" | "":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def find_untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str] = HARD_EFFECTS
) -> Taint | None:
    """The first taint, among those with one of `effects`, that nothing tolerates; None when the pod may come."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None
