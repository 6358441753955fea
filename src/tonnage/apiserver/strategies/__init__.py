"""The strategy of every resource, in one table."""

from __future__ import annotations

from tonnage.apiserver.strategies.base import Strategy
from tonnage.apiserver.strategies.config import ConfigMapStrategy, SecretStrategy, ServiceAccountStrategy
from tonnage.apiserver.strategies.csi_driver import CSIDriverStrategy
from tonnage.apiserver.strategies.csi_node import CSINodeStrategy
from tonnage.apiserver.strategies.csi_storage_capacity import CSIStorageCapacityStrategy
from tonnage.apiserver.strategies.device import (
    DeviceClassStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourceSliceStrategy,
)
from tonnage.apiserver.strategies.disruption_budget import PodDisruptionBudgetStrategy
from tonnage.apiserver.strategies.event import EventStrategy
from tonnage.apiserver.strategies.lease import LeaseStrategy
from tonnage.apiserver.strategies.namespace import NamespaceStrategy
from tonnage.apiserver.strategies.node import NodeStrategy
from tonnage.apiserver.strategies.persistent_volume import PersistentVolumeStrategy
from tonnage.apiserver.strategies.persistent_volume_claim import PersistentVolumeClaimStrategy
from tonnage.apiserver.strategies.pod import PodStrategy
from tonnage.apiserver.strategies.priority_class import PriorityClassStrategy
from tonnage.apiserver.strategies.service import ServiceStrategy
from tonnage.apiserver.strategies.storage_class import StorageClassStrategy
from tonnage.apiserver.strategies.volume_attachment import VolumeAttachmentStrategy
from tonnage.apiserver.strategies.workloads import (
    ControllerRevisionStrategy,
    DaemonSetStrategy,
    DeploymentStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
    StatefulSetStrategy,
)
from tonnage.clock import Clock
from tonnage.gates import Gates
from tonnage.objects.resources import RESOURCES

_TABLE: dict[tuple[str, str], type[Strategy]] = {
    ("", "configmaps"): ConfigMapStrategy,
    ("", "events"): EventStrategy,
    ("", "namespaces"): NamespaceStrategy,
    ("", "nodes"): NodeStrategy,
    ("", "persistentvolumeclaims"): PersistentVolumeClaimStrategy,
    ("", "persistentvolumes"): PersistentVolumeStrategy,
    ("", "pods"): PodStrategy,
    ("", "replicationcontrollers"): ReplicationControllerStrategy,
    ("", "secrets"): SecretStrategy,
    ("", "serviceaccounts"): ServiceAccountStrategy,
    ("", "services"): ServiceStrategy,
    ("apps", "controllerrevisions"): ControllerRevisionStrategy,
    ("apps", "daemonsets"): DaemonSetStrategy,
    ("apps", "deployments"): DeploymentStrategy,
    ("apps", "replicasets"): ReplicaSetStrategy,
    ("apps", "statefulsets"): StatefulSetStrategy,
    ("coordination.k8s.io", "leases"): LeaseStrategy,
    ("events.k8s.io", "events"): EventStrategy,
    ("policy", "poddisruptionbudgets"): PodDisruptionBudgetStrategy,
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
}


def strategies(gates: Gates, clock: Clock) -> dict[tuple[str, str], Strategy]:
    """(group, plural) -> the rules of that resource under these gates."""
    return {(row.group, row.plural): _TABLE[row.group, row.plural](row, gates, clock) for row in RESOURCES}
