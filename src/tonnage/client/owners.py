"""Who owns what a program creates: its pod, or a controller above it, so that the objects go with the installation."""

from __future__ import annotations

import msgspec

from tonnage.client.http import Client
from tonnage.errors import TonnageError
from tonnage.objects import codec, meta, resources


class NoOwner(TonnageError):
    """The pod has no owner at the requested level."""


async def find_owner(client: Client, *, namespace: str, pod_name: str, level: int | None) -> meta.OwnerReference | None:
    """The object `level` steps above the pod; for None its workload: the first above it that is no ReplicaSet.

    Nothing for a negative level. Raises NoOwner or ApiError.
    """
    if level is not None and level < 0:
        return None
    owner, steps = meta.OwnerReference(api_version="v1", kind="Pod", name=pod_name, uid="", controller=True), 0
    while owner.kind in ("Pod", "ReplicaSet") if level is None else steps < max(level, 1):
        what = f'{owner.api_version}/{owner.kind} "{owner.name}" in namespace "{namespace}"'
        resource = resources.BY_KIND.get((owner.api_version, owner.kind))
        if resource is None:
            raise NoOwner(f"{what} is of a kind that cannot be looked up", hint="use a lower --capacity-ownerref-level")
        key = f"{namespace}/{owner.name}" if resource.namespaced else owner.name
        metadata = (await client.get_doc(resource, key))["metadata"]
        owner = msgspec.structs.replace(owner, uid=metadata["uid"])
        if level == 0:
            return owner
        owners = [codec.convert(meta.OwnerReference, each) for each in metadata.get("ownerReferences", ())]
        above = next((each for each in owners if each.controller), None)
        if above is None and level is None:
            break
        if above is None:
            raise NoOwner(
                f"{what} has no controlling owner, cannot unwind the ownership further",
                hint="use a lower --capacity-ownerref-level, or -1 for no owner",
            )
        owner, steps = above, steps + 1
    return msgspec.structs.replace(owner, block_owner_deletion=False)
