"""Who owns the capacity objects: the provisioner's pod, or what manages it, so that they go when the driver goes.

    --capacity-ownerref-level   -1 nobody   0 the pod   1 its StatefulSet, DaemonSet or ReplicaSet   2 a Deployment   …

The pod is the one that POD_NAME and NAMESPACE name. Mirrors external-provisioner's pkg/owner: the last step up is read
off the reference and costs no request, so that nobody needs to be allowed to read the owner itself.
"""

from __future__ import annotations

from tonnage.client.http import Client
from tonnage.errors import TonnageError
from tonnage.objects import codec
from tonnage.objects.meta import OwnerReference
from tonnage.objects.resources import BY_KIND


class NoOwner(TonnageError):
    """The way up from the pod ends before the level that was asked for."""


async def find_owner(client: Client, *, namespace: str, pod_name: str, level: int) -> OwnerReference | None:
    """The object `level` steps above the pod; None for a negative level. Raises NoOwner or ApiError."""
    if level < 0:
        return None
    api_version, kind, name = "v1", "Pod", pod_name
    for steps_left in range(level, -1, -1):
        resource = BY_KIND.get((api_version, kind))
        if resource is None:
            raise NoOwner(
                f'{api_version}/{kind} "{name}" in namespace "{namespace}" is of a kind that cannot be looked up',
                hint="use a lower --capacity-ownerref-level",
            )
        metadata = (await client.get_doc(resource, f"{namespace}/{name}" if resource.namespaced else name))["metadata"]
        if not steps_left:
            return OwnerReference(api_version=api_version, kind=kind, name=name, uid=metadata["uid"], controller=True)
        owners = [codec.convert(OwnerReference, each) for each in metadata.get("ownerReferences", ())]
        above = next((each for each in owners if each.controller), None)
        if above is None:
            raise NoOwner(
                f'{api_version}/{kind} "{name}" in namespace "{namespace}" has no controlling owner, '
                "cannot unwind the ownership further",
                hint="use a lower --capacity-ownerref-level, or -1 for no owner",
            )
        api_version, kind, name = above.api_version, above.kind, above.name
        if steps_left == 1:
            return OwnerReference(api_version=api_version, kind=kind, name=name, uid=above.uid, controller=True)
    raise AssertionError("unreachable: the last level returns")
