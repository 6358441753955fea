"""What tests of plugins need, under one name (docs/plugins.md); the modules may change with any release.

Names are loaded on first use, so that a test which starts programs does not load the scheduler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = ("builders", "plugin_calls", "storage_builders")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in map(import_module, (f"{__name__}.{each}" for each in _MODULES)):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
