"""The driver's sockets: one for all nodes, and one for each node where the kubelets look for them.

| socket | services |
| --- | --- |
| `endpoint` | Identity, Controller of all nodes; with one node and no sockets for nodes, its Node service as well |
| `node_endpoint_template`, `{node}` filled in | Identity, Controller of this node (a node deployment's), Node |
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.server import Register, served
from tonnage.driver.driver import Driver
from tonnage.driver.services.controller import ControllerService
from tonnage.driver.services.identity import IdentityService
from tonnage.driver.services.interceptor import CallInterceptor
from tonnage.driver.services.node import NodeService
from tonnage.errors import TonnageError


@asynccontextmanager
async def serve(driver: Driver, *, endpoint: str, node_endpoint_template: str = "") -> AsyncIterator[tuple[str, ...]]:
    """Open every socket, and close them in order; the addresses, `endpoint` first. Raises TonnageError.

    Work that callers have left behind is finished before this returns.
    """
    if node_endpoint_template and "{node}" not in node_endpoint_template:
        raise TonnageError(
            f'"{node_endpoint_template}" is one address for all nodes', hint="write {node} where the node's id goes"
        )
    async with AsyncExitStack() as opened:
        addresses = [endpoint]
        alone = driver.nodes[0] if len(driver.nodes) == 1 and not node_endpoint_template else ""
        await _open(opened, driver, endpoint, driver.nodes, alone)
        for node in driver.nodes if node_endpoint_template else ():
            address = node_endpoint_template.replace("{node}", node)
            await _open(opened, driver, address, (node,), node)
            addresses.append(address)
        yield tuple(addresses)


async def _open(opened: AsyncExitStack, driver: Driver, address: str, nodes: tuple[str, ...], node: str) -> None:
    interceptor = CallInterceptor(driver.core, node)
    services: list[Register] = [
        partial(rpc.add_IdentityServicer_to_server, IdentityService(driver)),
        partial(rpc.add_ControllerServicer_to_server, ControllerService(driver, nodes)),
    ]
    if node:
        services.append(partial(rpc.add_NodeServicer_to_server, NodeService(driver, node)))
    opened.push_async_callback(interceptor.drain)
    await opened.enter_async_context(served(address, services, interceptors=[interceptor]))
