"""coordination.k8s.io/v1: leases, by which nodes show that they are alive and programs choose a leader."""

from __future__ import annotations

from tonnage.objects.meta import MicroTime, Object, Record

LEASE_HEADER = "Tonnage-Lease"
"""In a request, the lease and the holder under whom a write is made: `kube-system/kube-scheduler host_1f0a`.

Tonnage's API server refuses the write once somebody else holds the lease, however late it arrives; others ignore it.
"""


class LeaseSpec(Record):
    """Held by `holder_identity` until `renew_time` is `lease_duration_seconds` old; an empty holder has let go."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: int = 0


class Lease(Object):
    """Something that one holder has for a while."""

    spec: LeaseSpec = LeaseSpec()
