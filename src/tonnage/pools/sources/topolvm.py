"""TopoLVM: device classes of a node, from annotations of Node objects.

    capacity.topolvm.io/ssd: "107374182400"          free bytes of the device class ssd
    capacity.topolvm.io/00default: "107374182400"    of the default one, which is also above under its own name

A class names its device class by the parameter `topolvm.io/device-class`; without it the default is meant. A device
class is one group or thin pool, so there is no choice. Installations from before 2022 use topolvm.cybozu.com. The
default's own name is the one device class with the same number on all nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import StorageClass
from tonnage.pools.class_pools import ClassPools, NodePools, Pool, PoolSource, Published
from tonnage.pools.reading import annotations_of, bytes_of, field_written_at, name_of

DRIVERS: Final = ("topolvm.io", "topolvm.cybozu.com")
DEFAULT: Final = "00default"


class TopoLvm(PoolSource):
    name = "topolvm"
    drivers = DRIVERS
    has_agent = True

    def pools_of(self, storage_class: StorageClass, published: Published) -> ClassPools:
        """The one pool of the class's device class, on every node that has device classes."""
        driver = storage_class.provisioner if storage_class.provisioner in DRIVERS else DRIVERS[0]
        prefix = f"capacity.{driver}/"
        device_class = storage_class.parameters.get(f"{driver}/device-class", "") or DEFAULT
        told = {name_of(node): _told(node, prefix) for node in published.nodes}
        disk = device_class if device_class != DEFAULT else _default_name(told)
        by_node: dict[str, NodePools] = {}
        problems: list[str] = []
        for node in published.nodes:
            name = name_of(node)
            if not told[name]:
                continue
            text = annotations_of(node).get(prefix + device_class)
            at = field_written_at(node, "metadata", "annotations", prefix + device_class)
            free = None if text is None else bytes_of(text)
            if text is not None and free is None:
                problems.append(f'node {name}: annotation {prefix}{device_class} says "{text}", which is not an amount')
                continue
            by_node[name] = NodePools((Pool(disk, free),) if free is not None else (), at)
        return ClassPools(by_node, "", tuple(problems))


def _told(node: Doc, prefix: str) -> Mapping[str, int]:
    found = {key.removeprefix(prefix): text for key, text in annotations_of(node).items() if key.startswith(prefix)}
    return {name: free for name, text in found.items() if (free := bytes_of(text)) is not None}


def _default_name(told: Mapping[str, Mapping[str, int]]) -> str:
    """The one device class with the default's number on every node that has a default, if one of them is not 0."""
    nodes = [each for each in told.values() if DEFAULT in each]
    names = {name for node in nodes for name in node if name != DEFAULT}
    alike = [name for name in names if all(node.get(name) == node[DEFAULT] for node in nodes)]
    return alike[0] if len(alike) == 1 and any(node[DEFAULT] for node in nodes) else DEFAULT
