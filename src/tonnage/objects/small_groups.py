"""policy/v1, coordination.k8s.io/v1 and scheduling.k8s.io/v1: disruption budgets, leases and priority classes."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.meta import Condition, MicroTime, Object, Record, Time
from tonnage.objects.selectors import LabelSelector


class PodDisruptionBudgetSpec(Record):
    """At most one of the two limits is set, as a number or as a percentage. `selector` absent selects no pod."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = "IfHealthyBudget"


class PodDisruptionBudgetStatus(Record):
    """`disrupted_pods` are evicted pods that still exist: name -> time of the eviction."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    disrupted_pods: Mapping[str, Time] = {}
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Object):
    """A promise to a group of pods; evictions keep it, preemption tries to."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


LEASE_HEADER = "Tonnage-Lease"
"""Request header: the lease and the holder under whom a write is made: `kube-system/kube-scheduler host_1f0a`.

Tonnage's API server refuses the write once another holder has the lease, however late it arrives; others ignore it.
"""


class LeaseSpec(Record):
    """Held by `holder_identity` until `renew_time` is `lease_duration_seconds` old; an empty holder has released it."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: int = 0


class Lease(Object):
    """A lock that one holder has for a limited time."""

    spec: LeaseSpec = LeaseSpec()


class PriorityClass(Object):
    """A named priority; the class with `global_default` is for pods that name none."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
