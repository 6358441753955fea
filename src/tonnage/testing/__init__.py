"""What tests of plugins need, under one name (docs/plugins.md); the modules may change with any release.

The names are loaded when they are first asked for, so that a test which starts programs does not load the scheduler.
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

_MODULES = {
    "builders": ("cluster_of", "node", "pod"),
    "plugin_calls": ("decide", "filter_results", "node_scores"),
    "storage_builders": (
        "attachment",
        "capacity",
        "claim",
        "csi_node",
        "driver",
        "pod_with",
        "storage_class",
        "volume",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
