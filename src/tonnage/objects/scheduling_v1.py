"""scheduling.k8s.io/v1: names for priorities."""

from __future__ import annotations

from tonnage.objects.meta import Object


class PriorityClass(Object):
    """A priority by name; the one with `global_default` is for pods that name none."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
