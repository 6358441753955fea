"""A protobuf body read as a whole, whatever its kind."""

from __future__ import annotations

from tonnage.documents.protobuf import open_envelope, struct_named
from tonnage.objects.document import REQUEST, Budget, Doc


def decode_protobuf(body: bytes) -> Doc:
    """The object in a body, of whatever kind its envelope names. Raises Malformed, BudgetExceeded."""
    budget = Budget(REQUEST)
    envelope = open_envelope(body, budget)
    struct = struct_named(envelope.api_version, envelope.kind)
    return {**envelope.decode(struct, budget), "kind": envelope.kind, "apiVersion": envelope.api_version}
