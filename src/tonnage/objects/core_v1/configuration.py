"""The kinds that hold or name settings: Namespace, ConfigMap, Secret, ServiceAccount."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.meta import Condition, Object, Record


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
