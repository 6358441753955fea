"""The rules of every kind, a file a kind, and the table of their strategies.

A kind's file has its `Strategy` (`documents/strategy.py`), its defaults and what makes an object legal. Defaults change
a document in place, and running them twice is running them once: they run whenever a document is decoded, before
anything judges it. What several kinds share stands in `documents/validation`.
"""

from __future__ import annotations

from tonnage.clock import Clock
from tonnage.documents.kinds.config import ConfigMapStrategy, SecretStrategy, ServiceAccountStrategy
from tonnage.documents.kinds.custom_resource_definition import CustomResourceDefinitionStrategy
from tonnage.documents.kinds.event import EventStrategy
from tonnage.documents.kinds.limit_range import LimitRangeStrategy
from tonnage.documents.kinds.namespace import NamespaceStrategy
from tonnage.documents.kinds.network_policy import NetworkPolicyStrategy
from tonnage.documents.kinds.node import NodeStrategy
from tonnage.documents.kinds.pods.pod import PodStrategy, PodTemplateStrategy
from tonnage.documents.kinds.rbac import (
    ClusterRoleBindingStrategy,
    ClusterRoleStrategy,
    RoleBindingStrategy,
    RoleStrategy,
)
from tonnage.documents.kinds.resource_quota import ResourceQuotaStrategy
from tonnage.documents.kinds.runtime_class import RuntimeClassStrategy
from tonnage.documents.kinds.scheduling_kinds import (
    DeviceClassStrategy,
    LeaseStrategy,
    PodDisruptionBudgetStrategy,
    PriorityClassStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourceSliceStrategy,
)
from tonnage.documents.kinds.service import ServiceStrategy
from tonnage.documents.kinds.storage.csi_kinds import (
    CSIDriverStrategy,
    CSINodeStrategy,
    CSIStorageCapacityStrategy,
    VolumeAttachmentStrategy,
)
from tonnage.documents.kinds.storage.persistent_volume import PersistentVolumeStrategy
from tonnage.documents.kinds.storage.persistent_volume_claim import PersistentVolumeClaimStrategy
from tonnage.documents.kinds.storage.storage_class import StorageClassStrategy, VolumeAttributesClassStrategy
from tonnage.documents.kinds.workloads.cron_job import CronJobStrategy
from tonnage.documents.kinds.workloads.daemon_set import DaemonSetStrategy
from tonnage.documents.kinds.workloads.deployment import (
    DeploymentStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
)
from tonnage.documents.kinds.workloads.job import JobStrategy
from tonnage.documents.kinds.workloads.stateful_set import StatefulSetStrategy
from tonnage.documents.kinds.workloads.workload import ControllerRevisionStrategy
from tonnage.documents.strategy import Strategy
from tonnage.gates import Gates
from tonnage.objects.resources import RBAC, RESOURCES

_TABLE: dict[tuple[str, str], type[Strategy]] = {
    ("", "configmaps"): ConfigMapStrategy,
    ("", "events"): EventStrategy,
    ("", "limitranges"): LimitRangeStrategy,
    ("", "namespaces"): NamespaceStrategy,
    ("", "nodes"): NodeStrategy,
    ("", "persistentvolumeclaims"): PersistentVolumeClaimStrategy,
    ("", "persistentvolumes"): PersistentVolumeStrategy,
    ("", "pods"): PodStrategy,
    ("", "podtemplates"): PodTemplateStrategy,
    ("", "replicationcontrollers"): ReplicationControllerStrategy,
    ("", "resourcequotas"): ResourceQuotaStrategy,
    ("", "secrets"): SecretStrategy,
    ("", "serviceaccounts"): ServiceAccountStrategy,
    ("", "services"): ServiceStrategy,
    ("apiextensions.k8s.io", "customresourcedefinitions"): CustomResourceDefinitionStrategy,
    ("apps", "controllerrevisions"): ControllerRevisionStrategy,
    ("apps", "daemonsets"): DaemonSetStrategy,
    ("apps", "deployments"): DeploymentStrategy,
    ("apps", "replicasets"): ReplicaSetStrategy,
    ("apps", "statefulsets"): StatefulSetStrategy,
    ("batch", "cronjobs"): CronJobStrategy,
    ("batch", "jobs"): JobStrategy,
    ("coordination.k8s.io", "leases"): LeaseStrategy,
    ("events.k8s.io", "events"): EventStrategy,
    ("networking.k8s.io", "networkpolicies"): NetworkPolicyStrategy,
    ("node.k8s.io", "runtimeclasses"): RuntimeClassStrategy,
    ("policy", "poddisruptionbudgets"): PodDisruptionBudgetStrategy,
    (RBAC, "clusterrolebindings"): ClusterRoleBindingStrategy,
    (RBAC, "clusterroles"): ClusterRoleStrategy,
    (RBAC, "rolebindings"): RoleBindingStrategy,
    (RBAC, "roles"): RoleStrategy,
    ("resource.k8s.io", "deviceclasses"): DeviceClassStrategy,
    ("resource.k8s.io", "resourceclaims"): ResourceClaimStrategy,
    ("resource.k8s.io", "resourceclaimtemplates"): ResourceClaimTemplateStrategy,
    ("resource.k8s.io", "resourceslices"): ResourceSliceStrategy,
    ("scheduling.k8s.io", "priorityclasses"): PriorityClassStrategy,
    ("storage.k8s.io", "csidrivers"): CSIDriverStrategy,
    ("storage.k8s.io", "csinodes"): CSINodeStrategy,
    ("storage.k8s.io", "csistoragecapacities"): CSIStorageCapacityStrategy,
    ("storage.k8s.io", "storageclasses"): StorageClassStrategy,
    ("storage.k8s.io", "volumeattachments"): VolumeAttachmentStrategy,
    ("storage.k8s.io", "volumeattributesclasses"): VolumeAttributesClassStrategy,
}


def strategies(gates: Gates, clock: Clock) -> dict[tuple[str, str], Strategy]:
    """(group, plural) -> the rules of that resource under these gates."""
    return {(row.group, row.plural): _TABLE[row.group, row.plural](row, gates, clock) for row in RESOURCES}
