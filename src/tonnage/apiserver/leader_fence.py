"""Writes made under a lease: refused once somebody else holds it, however late they arrive.

A leader's client names its lease and itself in the header `Tonnage-Lease` (see `tonnage.client.leadership`). It does
not send what it may no longer write; but bytes that left in time may lie in a proxy until another has taken over, and
only the server can know. This is ours: Kubernetes' API server passes the header over.

A lease that is not there has been deleted by somebody, and nobody else holds it: such writes are carried out.
"""

from __future__ import annotations

from tonnage.errors import BadRequest, Conflict
from tonnage.objects.coordination_v1 import LEASE_HEADER, Lease
from tonnage.objects.document import decode, dig
from tonnage.objects.scheme import resource_of
from tonnage.store import StoreRecord
from tonnage.store.writes import Fence


def fence_of(header: str | None) -> Fence | None:
    """The fence that a request asks for, if any. Raises BadRequest."""
    if header is None:
        return None
    lease, _, identity = header.partition(" ")
    namespace, _, name = lease.partition("/")
    if not (namespace and name and identity):
        told = f'the header {LEASE_HEADER} names no lease and holder: "{header}"'
        raise BadRequest(f'{told}; write it like "kube-system/name holder"')
    return Fence(resource_of(Lease).key(namespace, name), lambda record: holder_of(record) in (None, identity))


def holder_of(record: StoreRecord | None) -> str | None:
    """Who holds a lease: empty when it was let go, None when there is no lease."""
    if record is None:
        return None
    return str(dig(decode(record.document), "spec", "holderIdentity") or "")


def broken(header: str, record: StoreRecord | None) -> Conflict:
    """The answer to a write that came too late."""
    lease, _, identity = header.partition(" ")
    return Conflict(
        f'the write was made by "{identity}" as holder of the lease "{lease}", which "{holder_of(record) or ""}" '
        "holds by now: it is not carried out"
    )
