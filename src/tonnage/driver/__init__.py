"""The reference CSI driver: several pools per node, many nodes in one process, all state survives `kill -9`.

serving         the sockets, and what happens around every call
controller_service, node_service   the gRPC services; `messages` reads fields and shows records as CSI messages
driver          `Driver`: records and contents, for the services and `volumes/`
allocations     what is allocated in pools and on nodes, and faults on request
volumes/        a volume on the node where it is wanted, links to it; sizes, parameters, topology
state/          records and contents on disk
rebuilding      the one part that knows Kubernetes: it keeps KEP-5925's contract, through `RebuildHooks`
node_pools      pools as people write them, and the choice of a pool for a new volume
"""

from __future__ import annotations

from typing import Final

DRIVER_NAME: Final = "pools.tonnage.dev"
TOPOLOGY_KEY: Final = "topology.tonnage.dev/node"
"""The one label of the driver's topology; its value is the node's id."""
