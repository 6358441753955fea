"""Any driver whose pools are in an annotation or a label of Node objects, which its admin may write there.

    --source nodes --driver csi.example.com --annotation example.com/pools         "100Gi,100Gi", or plain bytes
    --source nodes --driver csi.example.com --annotation 'example.com/{class}'     one a class
    --source nodes --driver csi.example.com --label example.com/pools              "100Gi_100Gi": labels have no commas

`{class}` is the StorageClass's name. A Node without the key is unknown; a Node with an empty value has no capacity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tonnage.objects.storage_v1 import StorageClass
from tonnage.pools.class_pools import ClassPools, NodePools, Pool, PoolSource, Published
from tonnage.pools.reading import annotations_of, bytes_of, field_written_at, labels_of, name_of


@dataclass(frozen=True)
class NodeTexts(PoolSource):
    """`--source nodes`. `key` may contain `{class}`."""

    key: str
    is_label: bool = False
    drivers: tuple[str, ...] = ()
    name: str = "nodes"

    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        key = self.key.replace("{class}", storage_class.name)
        by_node: dict[str, NodePools] = {}
        problems: list[str] = []
        for node in published.nodes:
            texts: Mapping[str, str] = labels_of(node) if self.is_label else annotations_of(node)
            text = texts.get(key)
            if text is None:
                continue
            words = [each.strip() for each in text.replace("_", ",").split(",") if each.strip()]
            found = [bytes_of(word) for word in words]
            if None in found:
                where = "label" if self.is_label else "annotation"
                problems.append(f'node {name_of(node)}: {where} {key} says "{text}", which is not a list of amounts')
                continue
            # With one key for all classes they share their pools.
            pools = tuple(Pool(f"{key}#{number}", free) for number, free in enumerate(found) if free is not None)
            at = field_written_at(node, "metadata", "labels" if self.is_label else "annotations", key)
            by_node[name_of(node)] = NodePools(pools, at)
        return ClassPools.of(by_node, "", problems)
