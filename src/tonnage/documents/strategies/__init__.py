"""The strategy of every resource, in one table."""

from __future__ import annotations

from tonnage.clock import Clock
from tonnage.documents.strategies.base import Strategy
from tonnage.documents.strategies.batch.cron_job import CronJobStrategy
from tonnage.documents.strategies.batch.job import JobStrategy
from tonnage.documents.strategies.config import ConfigMapStrategy, SecretStrategy, ServiceAccountStrategy
from tonnage.documents.strategies.csi_driver import CSIDriverStrategy
from tonnage.documents.strategies.csi_node import CSINodeStrategy
from tonnage.documents.strategies.csi_storage_capacity import CSIStorageCapacityStrategy
from tonnage.documents.strategies.custom_resource_definition import CustomResourceDefinitionStrategy
from tonnage.documents.strategies.device import (
    DeviceClassStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourceSliceStrategy,
)
from tonnage.documents.strategies.disruption_budget import PodDisruptionBudgetStrategy
from tonnage.documents.strategies.event import EventStrategy
from tonnage.documents.strategies.lease import LeaseStrategy
from tonnage.documents.strategies.limit_range import LimitRangeStrategy
from tonnage.documents.strategies.namespace import NamespaceStrategy
from tonnage.documents.strategies.node import NodeStrategy
from tonnage.documents.strategies.persistent_volume import PersistentVolumeStrategy
from tonnage.documents.strategies.persistent_volume_claim import PersistentVolumeClaimStrategy
from tonnage.documents.strategies.pod import PodStrategy
from tonnage.documents.strategies.pod_template import PodTemplateStrategy
from tonnage.documents.strategies.priority_class import PriorityClassStrategy
from tonnage.documents.strategies.rbac import (
    ClusterRoleBindingStrategy,
    ClusterRoleStrategy,
    RoleBindingStrategy,
    RoleStrategy,
)
from tonnage.documents.strategies.resource_quota import ResourceQuotaStrategy
from tonnage.documents.strategies.runtime_class import RuntimeClassStrategy
from tonnage.documents.strategies.service import NetworkPolicyStrategy, ServiceStrategy
from tonnage.documents.strategies.storage_class import StorageClassStrategy, VolumeAttributesClassStrategy
from tonnage.documents.strategies.volume_attachment import VolumeAttachmentStrategy
from tonnage.documents.strategies.workloads import (
    ControllerRevisionStrategy,
    DaemonSetStrategy,
    DeploymentStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
    StatefulSetStrategy,
)
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
