"""The reference driver's names on the wire, for whoever speaks of it without loading it."""

from __future__ import annotations

from typing import Final

DRIVER_NAME: Final = "pools.tonnage.dev"
TOPOLOGY_KEY: Final = "topology.tonnage.dev/node"
"""The one label of the driver's topology; its value is the node's id."""
