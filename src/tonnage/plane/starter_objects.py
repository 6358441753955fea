"""What a fresh cluster of `tonnage up` has besides its nodes: the driver's CSIDriver and the default class `pools`.

Made only where they are missing: what a person has changed, or brought with -f, stays.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tonnage.client.http import Client
from tonnage.driver.names import DRIVER_NAME
from tonnage.errors import AlreadyExists
from tonnage.objects.document import Doc

CLASS: Final = "pools"

_OBJECTS: Final[tuple[Doc, ...]] = (
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER_NAME},
        "spec": {
            "attachRequired": True,
            "podInfoOnMount": True,
            "storageCapacity": True,
            "volumeRebuilding": True,
            # The shortest that the API takes: on a laptop one wants to see limits follow.
            "nodeAllocatableUpdatePeriodSeconds": 10,
        },
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": DRIVER_NAME,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
    },
)


async def ensure_starter_objects(client: Client) -> None:
    """Create what is missing. Safe to run at every start."""
    for doc in _OBJECTS:
        with suppress(AlreadyExists):
            await client.create_doc(doc)
