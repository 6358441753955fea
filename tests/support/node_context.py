"""What the parts of one node's kubelet are given, for tests of a part: settings, time and caches, and no API server."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

from prometheus_client import CollectorRegistry

from tonnage.client.cache import Cache, MutationCache
from tonnage.client.http import Client
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock
from tonnage.node.context import NodeContext, NodeFaults, NodeMetrics, PodIndex
from tonnage.node.settings import NodeSettings
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.storage_v1 import CSIDriver, CSINode, VolumeAttachment


def node_context(
    node: str,
    root_dir: Path,
    *addresses: str,
    clock: Clock,
    rng: random.Random | None = None,
    registry: CollectorRegistry | None = None,
    faults: NodeFaults | None = None,
    **settings: Any,
) -> NodeContext:
    """A node with drivers at these addresses; its folder is `root_dir`/`node`."""
    nowhere = cast(Client, None)
    return NodeContext(
        node=node,
        client=nowhere,
        leases=nowhere,
        settings=NodeSettings(names=(node,), root_dir=root_dir, csi_addresses=addresses, **settings),
        pods=PodIndex(Cache(Pod), frozenset({node}), clock=clock),
        nodes=MutationCache(Cache(Node), clock=clock),
        claims=MutationCache(Cache(PersistentVolumeClaim), clock=clock),
        volumes=Cache(PersistentVolume),
        csi_nodes=Cache(CSINode),
        csi_drivers=Cache(CSIDriver),
        attachments=Cache(VolumeAttachment),
        recorder=cast(Recorder, None),
        clock=clock,
        rng=rng or random.Random(1),
        faults=faults or NodeFaults(None, clock=clock),
        metrics=NodeMetrics(registry or CollectorRegistry()),
    )
