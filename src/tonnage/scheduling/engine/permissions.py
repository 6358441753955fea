"""Every permission that a live scheduler needs at the API server, in one table: what it reads, and what it writes.

The reads are those of `kinds.py`; the writes are what `tonnage.scheduler` does after a decision. `doctor` asks a server
for each of them, and a ClusterRole is made from the same rows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tonnage.objects.coordination_v1 import Lease
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.events_v1 import Event
from tonnage.objects.meta import Object
from tonnage.objects.resources import Resource
from tonnage.objects.scheme import resource_of
from tonnage.scheduling.configuration.file import LeaderElection
from tonnage.scheduling.engine.kinds import READ_KINDS

LEASE_NAMESPACE: Final = LeaderElection().resource_namespace
"""Where the lease of the default configuration is."""


class Permission(NamedTuple):
    """One verb on one resource; `namespace` empty is all of them."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    purpose: str = ""
    is_needed: bool = True
    """Without it no pod is bound rightly; without others something is missing that `purpose` says."""

    @property
    def qualified(self) -> str:
        """The resource as kubectl and ClusterRoles write it: `pods/binding`, `csinodes.storage.k8s.io`."""
        below = f"/{self.subresource}" if self.subresource else ""
        return f"{self.resource}.{self.group}{below}" if self.group else f"{self.resource}{below}"


def _reads() -> tuple[Permission, ...]:
    return tuple(
        _on(resource_of(kind.cls), verb, purpose=f"decisions look at {kind.cls.__name__} objects")
        for kind in READ_KINDS
        for verb in ("list", "watch")
    )


def _on(resource: Resource, verb: str, subresource: str = "", **more: object) -> Permission:
    return Permission(verb, resource.group, resource.plural, subresource, **more)  # type: ignore[arg-type]


def _write(cls: type[Object], verb: str, purpose: str, subresource: str = "") -> Permission:
    return _on(resource_of(cls), verb, subresource, purpose=purpose)


def _extra(cls: type[Object], verb: str, purpose: str, namespace: str = "") -> Permission:
    return _on(resource_of(cls), verb, purpose=purpose, namespace=namespace, is_needed=False)


PERMISSIONS: Final[tuple[Permission, ...]] = (
    *_reads(),
    _write(Pod, "get", "a binding that got no answer is looked after"),
    _write(Pod, "create", "pods are bound to nodes", "binding"),
    _write(Pod, "patch", "conditions and expected nodes are told", "status"),
    _write(Pod, "delete", "pods of less priority give way"),
    _write(PersistentVolumeClaim, "patch", "a claim is told the node that was chosen for its volume"),
    _write(PersistentVolume, "patch", "a volume is kept for the claim that was chosen for it"),
    _extra(Event, "create", "people are told by events"),
    _extra(Event, "patch", "events that repeat are counted"),
    *(
        _extra(Lease, verb, "several copies of the scheduler elect a leader", LEASE_NAMESPACE)
        for verb in ("get", "create", "update")
    ),
)
