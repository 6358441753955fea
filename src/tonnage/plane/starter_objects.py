"""What a fresh cluster of `tonnage up` has besides its nodes: the driver's CSIDriver and the default class `pools`.

With `--classes N` there are `pools-2`, … as well. All of them draw from the same pools of the nodes, and say so: they
are one capacity group. Made only where they are missing: what a person has changed, or brought with -f, stays. How the
driver picks pools its CSIDriver says (`tonnage.dev/pool-policy`), and follows `--pool-policy`, unless a person wrote
`unknown` there.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tonnage.client.http import Client
from tonnage.driver.names import DRIVER_NAME
from tonnage.errors import AlreadyExists
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import CAPACITY_GROUP, POOL_POLICY, CSIDriver, StorageClass

CLASS: Final = "pools"
GROUP: Final = "pools"
"""The capacity group of the classes, where there are several."""

_DRIVER: Final[Doc] = {
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
}


def class_names(classes: int) -> list[str]:
    """`pools`, `pools-2`, …"""
    return [CLASS, *(f"{CLASS}-{number}" for number in range(2, classes + 1))]


def starter_objects(classes: int, pool_policy: str = "") -> list[Doc]:
    """What there is, with so many classes."""
    driver = _DRIVER
    if pool_policy:
        driver = {**_DRIVER, "metadata": {"name": DRIVER_NAME, "annotations": {POOL_POLICY: pool_policy}}}
    return [driver, *(_class(name, is_grouped=classes > 1) for name in class_names(classes))]


def _class(name: str, *, is_grouped: bool) -> Doc:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if name == CLASS else {}
    if is_grouped:
        annotations[CAPACITY_GROUP] = GROUP
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": DRIVER_NAME,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
    }


async def ensure_starter_objects(client: Client, classes: int = 1, pool_policy: str = "") -> None:
    """Create what is missing. Safe to run at every start.

    In a cluster that had one class and gets more, the first joins their group, once. Who takes it out again may.
    """
    created = set()
    for doc in starter_objects(classes, pool_policy):
        with suppress(AlreadyExists):
            await client.create_doc(doc)
            created.add(doc["metadata"]["name"])
    if pool_policy and DRIVER_NAME not in created:
        driver = await client.get(CSIDriver, DRIVER_NAME)
        if driver.pool_policy not in (pool_policy, "unknown"):
            await client.patch(CSIDriver, DRIVER_NAME, {"metadata": {"annotations": {POOL_POLICY: pool_policy}}})
    if CLASS not in created and created & set(class_names(classes)):
        first = await client.get(StorageClass, CLASS)
        if not first.capacity_group:
            await client.patch(StorageClass, CLASS, {"metadata": {"annotations": {CAPACITY_GROUP: GROUP}}})
