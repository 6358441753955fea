"""The driver's sockets: one for all nodes, and one per node where its kubelet looks for it.

| socket | services |
| --- | --- |
| `endpoint` | Identity, Controller of all nodes; with one node and no sockets for nodes, its Node service as well |
| `node_endpoint_template`, `{node}` filled in | Identity, Controller of this node (a node deployment's), Node |

Around every call faults are injected, and StatusErrors become answers. A caller who hangs up does not stop a call: the
work continues, holding its lock, and the caller's next try finds it done.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import BoolValue

from tonnage import __version__, errors, logs
from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.errors import Code, StatusError
from tonnage.csi.server import Register, served
from tonnage.driver.controller_service import ControllerService
from tonnage.driver.driver import Driver
from tonnage.driver.node_service import NodeService
from tonnage.driver.volumes.parameters import groups_within, nodes_within

_Service = csi.PluginCapability.Service
_Expansion = csi.PluginCapability.VolumeExpansion


class IdentityService(rpc.IdentityServicer):
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def GetPluginInfo(self, request: csi.GetPluginInfoRequest, context: object) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self._driver.settings.name, vendor_version=__version__)

    async def GetPluginCapabilities(
        self, request: csi.GetPluginCapabilitiesRequest, context: object
    ) -> csi.GetPluginCapabilitiesResponse:
        services = (_Service.CONTROLLER_SERVICE, _Service.VOLUME_ACCESSIBILITY_CONSTRAINTS)
        return csi.GetPluginCapabilitiesResponse(
            capabilities=[
                *(csi.PluginCapability(service=_Service(type=service)) for service in services),
                csi.PluginCapability(volume_expansion=_Expansion(type=_Expansion.ONLINE)),
            ]
        )

    async def Probe(self, request: csi.ProbeRequest, context: object) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready=BoolValue(value=True))


_log = logs.logger(__name__)


class CallInterceptor(grpc.aio.ServerInterceptor):
    """The interceptor of one socket. `node` is the socket's node, "" for all nodes."""

    def __init__(self, driver: Driver, node: str = "") -> None:
        self._driver = driver
        self._node = node
        self._under_way: set[asyncio.Future[Any]] = set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None:  # no such method: gRPC answers that itself
            return handler
        method = str(handler_call_details.method)

        async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            try:
                return await self._answer(handler.unary_unary, method, request, context)
            except StatusError as exc:
                _log.debug("Call refused", method=method, code=exc.code.name, err=exc.message)
                await context.abort(exc.code, exc.message)
            except (errors.TonnageError, OSError) as exc:
                _log.error("Call failed", method=method, err=str(exc))
                await context.abort(Code.INTERNAL, str(exc))

        return grpc.unary_unary_rpc_method_handler(
            answer, handler.request_deserializer, lambda answer: b"" if answer is None else answer.SerializeToString()
        )

    async def drain(self) -> None:
        """Wait for calls whose callers have hung up."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _answer(self, behaviour: Any, method: str, request: Any, context: Any) -> Any:
        if not inspect.iscoroutinefunction(behaviour):  # a method that our service does not override
            raise StatusError(Code.UNIMPLEMENTED, f"{method} is not implemented by this driver")
        self._driver.faults.refresh()
        await self._driver.faults.delay_or_refuse(self._about(request), self._driver.clock)
        task = asyncio.ensure_future(behaviour(request, context))
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # read it, or asyncio complains: the caller may have hung up

    def _about(self, request: Any) -> tuple[str, ...]:
        """The nodes that a call is about: the socket's, those that the request names, or its volume's."""
        if self._node:
            return (self._node,)
        nodes = tuple(self._driver.settings.pools)
        fields = request.DESCRIPTOR.fields_by_name
        if "node_id" in fields and request.node_id:
            return (request.node_id,)
        if "accessible_topology" in fields and request.HasField("accessible_topology"):
            return nodes_within(request.accessible_topology, nodes)
        if "accessibility_requirements" in fields and request.HasField("accessibility_requirements"):
            return next(iter(groups_within(request.accessibility_requirements, nodes)), ())
        known = self._driver.allocations.volumes.get(request.volume_id) if "volume_id" in fields else None
        return (known.node,) if known else ()


@asynccontextmanager
async def serve(driver: Driver, *, endpoint: str, node_endpoint_template: str = "") -> AsyncIterator[tuple[str, ...]]:
    """Open every socket; yields the addresses, `endpoint` first. Ends when calls have ended. Raises TonnageError."""
    if node_endpoint_template and "{node}" not in node_endpoint_template:
        raise errors.TonnageError(
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
    interceptor = CallInterceptor(driver, node)
    services: list[Register] = [
        partial(rpc.add_IdentityServicer_to_server, IdentityService(driver)),
        partial(rpc.add_ControllerServicer_to_server, ControllerService(driver, nodes)),
    ]
    if node:
        services.append(partial(rpc.add_NodeServicer_to_server, NodeService(driver, node)))
    opened.push_async_callback(interceptor.drain)
    await opened.enter_async_context(served(address, services, interceptors=[interceptor]))
