"""coordination.k8s.io/v1: leases, by which nodes show that they are alive and programs choose a leader."""

from __future__ import annotations

from tonnage.objects.meta import MicroTime, Object, Record


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
