"""policy/v1: how many pods of a group may be missing at once."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.meta import Condition, Object, Record, Time
from tonnage.objects.selectors import LabelSelector


class PodDisruptionBudgetSpec(Record):
    """At most one of the two limits is set, as a number or as a percentage. `selector` absent selects no pod."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = "IfHealthyBudget"


class PodDisruptionBudgetCondition(Condition):
    observed_generation: int = 0


class PodDisruptionBudgetStatus(Record):
    """`disrupted_pods` are evicted and not yet gone, by name, with the time of their eviction."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    disrupted_pods: Mapping[str, Time] = {}
    conditions: tuple[PodDisruptionBudgetCondition, ...] = ()


class PodDisruptionBudget(Object):
    """A promise to a group of pods; evictions keep it, preemption tries to."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
