"""`Facts`: everything read from a cluster, in the form that checks need. Nothing is requested here.

What could not be read differs from what does not exist: `unlisted` kinds, and gates and permissions that are UNKNOWN. A
dump without objects of a kind proves nothing about that kind either (`knows`).

The scheduler's permissions are checked verb by verb as in its role files, for the scheduler's own account: doctor's
user may have fewer rights (`scheduler_accounts`).

`CATALOGUE` is what can be found: one table of stable names, each with its severity. Scripts may rely on both.

    CATALOGUE["capacity-nil-topology"].about("CSIStorageCapacity kube-system/a", "it has no …", "set nodeTopology …")
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import msgspec

from tonnage.client.config.connection import ServerConnection
from tonnage.keyed import grouped
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.objects.users import split_service_account
from tonnage.roles import OWN_NAMESPACE, RoleRule, rules_of
from tonnage.scheduling.cluster.storage import csi_driver_of
from tonnage.scheduling.configuration.configuration import LeaderElection
from tonnage.whatif.creation import ObjectsByKind
from tonnage.whatif.simulate.disks import NodeReach
from tonnage.whatif.sources import ClusterState

LEASE_NAMESPACE: Final = LeaderElection().resource_namespace
_NOT_ASKED_FOR: Final = ("only-scheduler",)
_SCHEDULER: Final = "scheduler"


class Permission(NamedTuple):
    """One verb on one resource. An empty `namespace` means all namespaces, an empty `name` all objects."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    purpose: str = ""
    is_needed: bool = True
    """Without it no pod is bound correctly; without other permissions only `purpose` is lost."""
    name: str = ""
    right: str = ""
    """What is lost without its role, if the role is optional."""

    @property
    def qualified(self) -> str:
        """The resource as kubectl and ClusterRoles write it: `pods/binding`, `csinodes.storage.k8s.io`."""
        below = f"/{self.subresource}" if self.subresource else ""
        return f"{self.resource}.{self.group}{below}" if self.group else f"{self.resource}{below}"


def scheduler_permissions(namespace: str = LEASE_NAMESPACE) -> tuple[Permission, ...]:
    found = (
        permission
        for rule in rules_of("scheduler", namespace)
        if rule.right not in _NOT_ASKED_FOR
        for permission in _of_rule(rule)
    )
    return tuple(dict.fromkeys(found))


def _of_rule(rule: RoleRule) -> Iterator[Permission]:
    purpose = rule.reason.rstrip(".")
    for group in rule.groups:
        for resource in rule.resources:
            plural, _, subresource = resource.partition("/")
            for name in rule.names or ("",):
                for verb in rule.verbs:
                    where = (rule.namespace, purpose, rule.is_needed, name, rule.right)
                    yield Permission(verb, group, plural, subresource, *where)


def own_account(connection: ServerConnection) -> tuple[str, str] | None:
    """Namespace and name of the connection's ServiceAccount; None for other users."""
    user = connection.user
    if user.impersonation.user:
        return split_service_account(user.impersonation.user)
    token = user.token
    if not token and user.token_file is not None:
        try:
            token = user.token_file.read_text().strip()
        except (OSError, ValueError):
            return None  # connecting will report the problem
    return split_service_account(_subject(token))


def is_scheduler_account(name: str) -> bool:
    """True if Tonnage's scheduler runs as a ServiceAccount of this name, by deploy/ and the chart."""
    return name.endswith(_SCHEDULER) and (name == _SCHEDULER or "tonnage" in name)


def scheduler_accounts(own: tuple[str, str] | None, pods: Iterable[Pod]) -> Sequence[tuple[str, str]]:
    """ServiceAccounts (namespace, name) that Tonnage's scheduler may run as, those of its pods first."""
    running = [(pod.namespace, pod.spec.service_account_name) for pod in pods]
    homes = [*([own[0]] if own is not None else []), LEASE_NAMESPACE, OWN_NAMESPACE]
    usual = [(namespace, f"tonnage-{_SCHEDULER}") for namespace in homes]
    return list(dict.fromkeys([*(each for each in running if is_scheduler_account(each[1])), *usual]))


def _subject(token: str) -> str:
    """The `sub` of a JWT, unverified: it is only used to choose which account to look up."""
    parts = token.split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return ""
    return str(claims.get("sub", "")) if isinstance(claims, dict) else ""


T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class GateSign:
    """The state of a feature gate of the server, and the sign for it; None if it is not known."""

    is_on: bool | None
    by: str

    @property
    def state(self) -> str:
        return "unknown" if self.is_on is None else "on" if self.is_on else "off"

    def document(self) -> dict[str, Any]:
        return {"state": self.state, "by": self.by}


@dataclass(frozen=True, slots=True)
class ServerFacts:
    version: str = ""
    """Such as `v1.36.0`; empty if unknown."""
    major: int = 0
    minor: int = 0
    gates: Mapping[str, GateSign] = field(default_factory=dict)

    def is_on(self, gate: str) -> bool | None:
        return self.gates[gate].is_on if gate in self.gates else None


@dataclass(frozen=True, slots=True)
class GrantedAccess:
    permission: Permission
    is_allowed: bool | None
    """None if it is not known."""
    why: str = ""


class _OfKind(Generic[T]):
    """`facts.nodes`: the objects of a kind by key, in order."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def __get__(self, facts: Facts, owner: object = None) -> Mapping[Key, T]:
        return facts.of(self._kind)


@dataclass(frozen=True)
class Facts:
    objects: Sequence[Object]
    now: datetime
    source: str = ""
    is_live: bool = False
    unlisted: Mapping[str, str] = field(default_factory=dict)
    """Kinds that could not be listed, with the reason."""
    server: ServerFacts | None = None
    access: Sequence[GrantedAccess] = ()
    access_of: str = "this user"
    """Whose permissions `access` holds."""

    @classmethod
    def of_state(cls, state: ClusterState, **more: Any) -> Facts:
        return cls(state.objects, state.clock.now(), source=state.source, unlisted=state.unlisted, **more)

    def knows(self, cls: type[Object]) -> bool:
        """True if the absence of an object of this kind means that there is none."""
        if self.is_live:
            return cls.__name__ not in self.unlisted
        return bool(self.of(cls))

    # -- objects ------------------------------------------------------------------------------------------------------

    @cached_property
    def _by_kind(self) -> ObjectsByKind:
        return ObjectsByKind(sorted(self.objects, key=lambda each: each.key))

    def of(self, cls: type[T]) -> Mapping[Key, T]:
        return self._by_kind.of(cls)

    nodes = _OfKind(Node)
    pods = _OfKind(Pod)
    claims = _OfKind(PersistentVolumeClaim)
    volumes = _OfKind(PersistentVolume)
    classes = _OfKind(StorageClass)
    drivers = _OfKind(CSIDriver)
    capacities = _OfKind(CSIStorageCapacity)
    attachments = _OfKind(VolumeAttachment)

    @cached_property
    def csi_nodes(self) -> Mapping[str, CSINode]:
        """CSINodes of existing nodes."""
        return {name: each for name, each in self.of(CSINode).items() if name in self.nodes}

    # -- by driver ----------------------------------------------------------------------------------------------------

    @cached_property
    def classes_of(self) -> Mapping[str, Sequence[StorageClass]]:
        return grouped((csi_driver_of(each.provisioner), each) for each in self.classes.values())

    def driver_of_class(self, name: str) -> str:
        """The provisioner of a class; empty for an unknown class."""
        storage_class = self.classes.get(name)
        return "" if storage_class is None else csi_driver_of(storage_class.provisioner)

    @cached_property
    def capacities_of(self) -> Mapping[str, Sequence[CSIStorageCapacity]]:
        found = ((self.driver_of_class(each.storage_class_name), each) for each in self.capacities.values())
        return grouped((driver, each) for driver, each in found if driver)

    def is_checked(self, capacity: CSIStorageCapacity) -> bool:
        """True if new claims are compared with the object: its driver says so, or its class asks for it."""
        found = self.classes.get(capacity.storage_class_name)
        return found is not None and found.checks_capacity(self.drivers.get(csi_driver_of(found.provisioner)))

    @cached_property
    def nodes_of(self) -> Mapping[str, Sequence[str]]:
        """By driver: the nodes where it is registered."""
        return grouped((driver.name, name) for name, each in self.csi_nodes.items() for driver in each.spec.drivers)

    # -- which nodes --------------------------------------------------------------------------------------------------

    @cached_property
    def _reach(self) -> NodeReach:
        return NodeReach(self.nodes.values())

    @cached_property
    def reach(self) -> Mapping[Key, frozenset[str]]:
        """By capacity object: the nodes that its topology selects; none without a topology."""
        return {key: self._reach.selected(each.node_topology) for key, each in self.capacities.items()}

    @cached_property
    def homes(self) -> Mapping[str, frozenset[str]]:
        """By volume with node affinity: the existing nodes that it admits."""
        return {
            name: self._reach.admitted(each.spec.node_affinity.required)
            for name, each in self.volumes.items()
            if each.spec.node_affinity.required is not None
        }


class Severity(StrEnum):
    ERROR = "error"
    """Affected pods cannot be placed correctly, or data is out of reach."""
    WARNING = "warning"
    """Something is wrong or will be, though pods run."""
    INFO = "info"


NOTHING: Final = "nothing to do"
WEAKER: Final = "which weakens the promise that volumes fit"
"""Accompanies every remedy that weakens checks."""
WORST_FIRST: Final = (Severity.ERROR, Severity.WARNING, Severity.INFO)


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    severity: Severity
    object: str
    message: str
    remedy: str
    driver: str = ""

    def document(self) -> dict[str, Any]:
        return cast("dict[str, Any]", msgspec.to_builtins(self))


@dataclass(frozen=True, slots=True)
class FindingKind:
    name: str
    severity: Severity

    def about(self, found: Object | str, message: str, remedy: str, *, driver: str = "") -> Finding:
        """A finding about an object. For a CSIDriver object `driver` is that driver."""
        named = found if isinstance(found, str) else f"{type(found).__name__} {found.key}"
        driver = driver or (found.name if isinstance(found, CSIDriver) else "")
        return Finding(self.name, self.severity, named, message, remedy, driver)


_NAMES: Final = {
    Severity.ERROR: """
        capacity-missing permission-missing pools-unreadable volume-left-behind
    """,
    Severity.WARNING: """
        api-server-too-old attach-limit-exceeded attach-limit-on-some-nodes attach-limit-zero attach-refused
        capacity-group-alone capacity-missing-on-node capacity-nil-topology capacity-not-checked
        capacity-not-published capacity-of-missing-class capacity-reaches-no-node capacity-says-nothing capacity-stale
        claim-of-missing-class class-without-driver classes-share-disks driver-unregistered
        free-volumes-unreadable immediate-binding kind-not-listed permission-advised pods-pending
        pods-would-become-pending pool-ids-unreadable pool-policy-unreadable pools-stale
        rebuild-stuck rebuilding-needs-gate selected-node-gone size-rules-missing size-rules-unreadable
        thin-provisioning volumes-would-be-refused
    """,
    Severity.INFO: """
        api-server-version attach-limit-not-refreshed attach-limit-unknown capacity-without-pools configuration
        driver-on-some-nodes driver-summary feature-gates gates-beyond-kube-scheduler nomination-of-missing-node
        permission-unknown pods-would-move pods-would-stop-pending provisioner-not-csi volume-awaits-rebuild
        volume-copies
    """,
}
CATALOGUE: Final = {name: FindingKind(name, kind) for kind, names in _NAMES.items() for name in names.split()}
"""Every possible finding, by severity and then by name; docs/reference/json.md says what each means."""
