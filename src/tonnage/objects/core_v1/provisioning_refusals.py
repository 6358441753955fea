"""Why a volume was not made, read from what a provisioner says: for good, or only for now.

    for good   the claim, its class or its source is wrong, or the driver cannot do it: no room in the world helps
    for now    the driver is away, slow or busy, something is not ready yet, or there is no room

A provisioner says it in the claim's `ProvisioningFailed` events, a driver's words as `rpc error: code = …`; ours also
in an annotation of the claim, for the node and the attributes that were asked for. Codes are read as CSI and gRPC mean
them; a code that is none of theirs, and words that nobody knows, are taken for "for now".
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tonnage.objects.core_v1.persistent_volume import PersistentVolumeClaim

PROVISIONING_FAILED: Final = "ProvisioningFailed"
"""The reason of the events."""
PROVISIONING_REFUSED: Final = "tonnage.dev/provisioning-refused"
"""Annotation of a claim: the last word of our provisioner, if it was a refusal for good."""

_FOR_GOOD: Final = frozenset(
    {
        "InvalidArgument",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "Unauthenticated",
        "FailedPrecondition",
        "OutOfRange",
        "Unimplemented",
    }
)
"""Left out: Canceled, Unknown, DeadlineExceeded, Aborted, Internal, Unavailable, DataLoss, which may end by themselves;
and ResourceExhausted, which is about room."""
_CODE: Final = re.compile(r"rpc error: code = (\w+)")
_NODE_IS_AWAY: Final = re.compile(
    r'error generating accessibility requirements|\b(csi)?nodes?(\.\S+)? "[^"]*" not found'
)
_MISTAKE: Final = re.compile(
    r'"[^"]*" not found'  # a source, a class, a secret
    r"|could not find the requested resource|404 page not found"  # its kind: there are no snapshots in this cluster
    r"|the PVC source not found|does not belong to the right APIGroup|is currently being deleted|is being deleted"
    r"|must be greater than or equal in size|is less than the size"
    r"|must have the same volume mode|storageclass cannot be empty"
    r"|CSI driver does not support|is not supported|does not match driver name"
    r"|fstype specified in parameters with both|failed to strip CSI Parameters|failed to translate storage class"
)
"""Words of external-provisioner's, and of ours, about what it finds before it asks the driver."""


class _Refused(msgspec.Struct, frozen=True, rename="camel"):
    message: str
    node: str = ""
    volume_attributes_class_name: str = ""


def is_for_good(message: str) -> bool:
    """True if what a provisioner says about a claim is a refusal that room does not cure."""
    found = _CODE.search(message)
    if found is not None:
        return found[1] in _FOR_GOOD
    return _MISTAKE.search(message) is not None and _NODE_IS_AWAY.search(message) is None


def refusal_text(claim: PersistentVolumeClaim, message: str) -> str:
    """The annotation that says that a claim was refused, as it is now."""
    told = _Refused(message, claim.selected_node, claim.spec.volume_attributes_class_name)
    return msgspec.json.encode(told).decode()


def annotated_refusal(claim: PersistentVolumeClaim) -> str:
    """What the annotation says of a claim as it is now; empty without one, and if it is about another node."""
    text = claim.metadata.annotations.get(PROVISIONING_REFUSED)
    if text is None:
        return ""
    try:
        told = msgspec.json.decode(text, type=_Refused)
    except msgspec.MsgspecError:
        return ""
    asked = claim.selected_node, claim.spec.volume_attributes_class_name
    return told.message if (told.node, told.volume_attributes_class_name) == asked else ""
