"""The kinds that hold or name settings: Namespace, ConfigMap, Secret, ServiceAccount, ResourceQuota."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.meta import Condition, Object, Record
from tonnage.quantity import Quantity


class NamespaceSpec(Record):
    """While it has `finalizers`, a namespace that is being deleted still holds something."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Record):
    phase: str = "Active"
    conditions: tuple[Condition, ...] = ()


class Namespace(Object):
    """A scope for names; its labels are what namespace selectors look at."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(Object):
    data: Mapping[str, str] = {}
    binary_data: Mapping[str, bytes] = {}
    immutable: bool = False


class Secret(Object):
    """`data` is what the wire carries in base64, decoded."""

    type: str = "Opaque"
    data: Mapping[str, bytes] = {}
    immutable: bool = False


class ServiceAccount(Object):
    """An identity for pods; only that it exists is of interest here."""


class ResourceQuotaSpec(Record):
    """The most that the objects of a namespace may use, by resource."""

    hard: Mapping[str, Quantity] = {}


class ResourceQuotaStatus(Record):
    """The limits that are enforced, and how much of each is in use."""

    hard: Mapping[str, Quantity] = {}
    used: Mapping[str, Quantity] = {}


class ResourceQuota(Object):
    """How much the objects of a namespace may use together."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()

    @property
    def is_counted(self) -> bool:
        """Whether what it says is enforced, and everything it limits has been counted."""
        return self.spec.hard == self.status.hard and self.spec.hard.keys() <= self.status.used.keys()
