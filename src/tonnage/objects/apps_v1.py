"""apps/v1: the workloads that make pods. Templates stay whole documents: pods are made by copying them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage.objects.meta import Condition, Object, Record, Time
from tonnage.objects.selectors import LabelSelector


class ControllerRevision(Object):
    revision: int
    data: Any = None


class RollingUpdateDaemonSet(Record):
    max_unavailable: int | str = 1
    max_surge: int | str = 0


class DaemonSetUpdateStrategy(Record):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdateDaemonSet = RollingUpdateDaemonSet()


class DaemonSetSpec(Record):
    selector: LabelSelector | None = None
    template: Mapping[str, Any] = {}
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(Record):
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    updated_number_scheduled: int = 0
    observed_generation: int = 0
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class DaemonSet(Object):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class RollingUpdateDeployment(Record):
    max_unavailable: int | str = "25%"
    max_surge: int | str = "25%"


class DeploymentStrategy(Record):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdateDeployment = RollingUpdateDeployment()


class DeploymentSpec(Record):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: Mapping[str, Any] = {}
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    progress_deadline_seconds: int = 600
    paused: bool = False


class DeploymentCondition(Condition):
    last_update_time: Time | None = None


class DeploymentStatus(Record):
    """Without `terminating_replicas` some ReplicaSet does not count them; without `collision_count` there was none."""

    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()


class Deployment(Object):
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Record):
    replicas: int = 1
    selector: LabelSelector | None = None
    template: Mapping[str, Any] = {}
    min_ready_seconds: int = 0


class ReplicaSetStatus(Record):
    """Without `terminating_replicas` the controller does not count them."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Object):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdateStatefulSetStrategy(Record):
    """Only pods from ordinal `partition` on are updated."""

    partition: int = 0
    max_unavailable: int | str = 1


class StatefulSetUpdateStrategy(Record):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdateStatefulSetStrategy = RollingUpdateStatefulSetStrategy()


class StatefulSetPersistentVolumeClaimRetentionPolicy(Record):
    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class StatefulSetOrdinals(Record):
    start: int = 0


class StatefulSetSpec(Record):
    replicas: int = 1
    selector: LabelSelector | None = None
    service_name: str = ""
    template: Mapping[str, Any] = {}
    volume_claim_templates: tuple[Mapping[str, Any], ...] = ()
    pod_management_policy: str = "OrderedReady"
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy = (
        StatefulSetPersistentVolumeClaimRetentionPolicy()
    )
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class StatefulSetStatus(Record):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    observed_generation: int = 0
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class StatefulSet(Object):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()
