"""What tests of plugins need, under one name (docs/plugins.md); the modules may change with any release."""

from __future__ import annotations

from tonnage.testing.builders import cluster_of, node, pod
from tonnage.testing.plugin_calls import decide, filter_results, node_scores
from tonnage.testing.storage_builders import (
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

__all__ = [
    "attachment",
    "capacity",
    "claim",
    "cluster_of",
    "csi_node",
    "decide",
    "driver",
    "filter_results",
    "node",
    "node_scores",
    "pod",
    "pod_with",
    "storage_class",
    "volume",
]
