"""The reference CSI driver: several pools a node, many nodes in one process, everything kept through `kill -9`.

serving         the sockets, and what happens around every call
services/       the gRPC services: requests read and checked
driver          `Driver`: what the services call
volumes/        create, delete, expand, snapshot, publish, stage, rebuild; sizes, parameters, topology: no I/O
core            what those share: settings, locks, faults, state
state/          records and contents on disk, and in memory what each pool and node has allocated
rebuilding      the one part that knows Kubernetes: it keeps KEP-5925's contract, through `RebuildHooks`
node_pools      pools as people write them, and which one a new volume goes to
injected_faults what goes wrong on request
"""

from __future__ import annotations

from typing import Final

DRIVER_NAME: Final = "pools.tonnage.dev"
TOPOLOGY_KEY: Final = "topology.tonnage.dev/node"
"""The one label of the driver's topology; its value is the node's id."""
