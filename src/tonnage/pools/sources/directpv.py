"""DirectPV: one DirectPVDrive per drive, written by its controller before a volume's creation is answered.

A drive takes a volume (`matchDrive` in pkg/csi/controller/utils.go) if it is Ready, not unschedulable, not being
deleted, and `freeCapacity` is at least the claim's bytes, which are not rounded. Of the class's parameters, the access
tier must be the drive's, and every other key with the prefix directpv.min.io must be a label of the drive with the same
value. Among these drives the one with the most free capacity is chosen, at random among equals (`selectDrive`).

`directpv.min.io/volume-claim-id`: a drive takes one volume of the class's id. Drives that have one are left out; that
two new volumes need two drives cannot be expressed by pools, and is reported.
"""

from __future__ import annotations

from typing import Final

from tonnage.keyed import grouped
from tonnage.objects.document import Doc, dig
from tonnage.objects.resources import Resource
from tonnage.objects.storage_v1 import StorageClass
from tonnage.pools.class_pools import ClassPools, NodePools, Pool, PoolSource, Published
from tonnage.pools.reading import bytes_of, labels_of, name_of, text_of, written_at

DRIVES: Final = Resource("directpv.min.io", "v1beta1", "DirectPVDrive", "directpvdrives", False)
_PREFIX: Final = "directpv.min.io"
_NODE: Final = f"{_PREFIX}/node"
_TIER: Final = f"{_PREFIX}/access-tier"
_CLAIM_ID: Final = f"{_PREFIX}/volume-claim-id"
_TIERS: Final = ("Default", "Warm", "Hot", "Cold")


class DirectPv(PoolSource):
    name = "directpv"
    drivers = ("directpv-min-io",)
    kinds = (DRIVES,)
    has_agent = True

    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        wanted = {key: text for key, text in storage_class.parameters.items() if key.startswith(_PREFIX)}
        if _TIER in wanted:
            wanted[_TIER] = wanted[_TIER].title()
            if wanted[_TIER] not in _TIERS:
                told = f"parameters[{_TIER}]: {storage_class.parameters[_TIER]} is not one of {', '.join(_TIERS)}"
                return ClassPools(problems=(told,))
        claim_id, problems = wanted.pop(_CLAIM_ID, ""), list[str]()
        if claim_id:
            problems.append(f"parameters[{_CLAIM_ID}]: a pod's claims need a drive each, which is not checked")
        drives = grouped((labels_of(doc).get(_NODE, ""), doc) for doc in published.objects)
        by_node = {}
        for node, docs in drives.items():
            pools = []
            for doc in docs:
                free = bytes_of(dig(doc, "status", "freeCapacity"))
                has_claim = bool(claim_id) and labels_of(doc).get(f"{_CLAIM_ID}-{claim_id}") == "true"
                if _takes_volumes(doc) and not has_claim and wanted.items() <= labels_of(doc).items():
                    if free is None:
                        problems.append(f"drive {name_of(doc)} of node {node} does not say how much is free")
                    else:
                        pools.append(Pool(name_of(doc), free))
            times = [at for doc in docs if (at := written_at(doc)) is not None]
            by_node[node] = NodePools(tuple(pools), max(times, default=None))
        by_node.pop("", None)
        return ClassPools.of(by_node, "most-free", problems)


def _takes_volumes(doc: Doc) -> bool:
    return (
        text_of(dig(doc, "status", "status")) == "Ready"
        and dig(doc, "spec", "unschedulable") is not True
        and dig(doc, "metadata", "deletionTimestamp") is None
    )
