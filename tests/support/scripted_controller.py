"""The Controller service of the scripted driver: so many bytes on each node, volumes made of them and attached.

How a call ends can be said in four ways: for a method until further notice (`refuse`), for its next calls (`script`),
for every controller call (`refusal`), or by a function that is asked each time (`mood`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import Int64Value

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.csi_pb2_grpc import ControllerServicer
from tonnage.csi.driver_capabilities import ControllerRpc
from tonnage.quantity import Quantity

Code = grpc.StatusCode
Context = grpc.aio.ServicerContext[Any, Any]

CONTROLLER_RPCS: Final = (
    ControllerRpc.CREATE_DELETE_VOLUME,
    ControllerRpc.PUBLISH_UNPUBLISH_VOLUME,
    ControllerRpc.EXPAND_VOLUME,
    ControllerRpc.CLONE_VOLUME,
    ControllerRpc.GET_CAPACITY,
)


class ScriptedController(ControllerServicer):
    """Answers controller calls; `calls` holds those of all services of the driver."""

    def __init__(self, *, topology_key: str, rpcs: tuple[int, ...]) -> None:
        self.topology_key = topology_key
        self.rpcs = rpcs
        self.calls: list[tuple[str, Message]] = []
        """Every call, in order: the method's name and the request."""
        self.delay_s = 0.0
        self.before_call: Callable[[str], Awaitable[None]] | None = None
        """Awaited with the method's name before it is answered: to look at the world in that instant."""
        self.script: dict[str, deque[Code]] = {}
        """How the next controller calls of a method end, before they begin."""
        self.refusal: tuple[Code, str] | None = None
        """What every controller call is answered, while there is one."""
        self.mood: Callable[[str], Code | None] = lambda _: None
        """How a call ends, asked before it begins (`CreateVolume`) and after it is done (`CreateVolume answer`)."""
        self.gate: asyncio.Event | None = None
        """While it is there and not set, CreateVolume has made its volume and does not answer."""
        self.free_bytes: dict[str, int] = {}
        """By node; "" is everywhere, for a driver without topology."""
        self.volumes: dict[str, csi.Volume] = {}
        """By the name that was asked for."""
        self.attached: set[tuple[str, str]] = set()
        """Volume id and node id."""
        self.publish_context: dict[str, str] = {}
        """Told of every volume that is attached, beside its device."""
        self.expands_on_node = False
        self.gives_less_by = 0
        """Bytes that its volumes are smaller than what was asked for."""
        self.alter: Callable[[csi.Volume], None] = lambda _: None
        """Changes what is told about a volume that was made, and how it is known from then on."""
        self._places: dict[str, str] = {}  # by the name of a volume, where its bytes are
        self._refusals: dict[str, tuple[Code, str]] = {}
        self._reports: dict[tuple[str, str], csi.GetCapacityResponse] = {}
        self._reports_then: dict[tuple[str, str], csi.GetCapacityResponse] = {}

    def refuse(self, method: str, code: Code, told: str) -> None:
        """Answer this method so, until it is allowed again."""
        self._refusals[method] = code, told

    def allow(self, method: str) -> None:
        self._refusals.pop(method, None)

    def asked(self, method: str) -> list[Any]:
        """The requests of one method."""
        return [request for called, request in self.calls if called == method]

    @property
    def attach_calls(self) -> list[str]:
        """`publish VOLUME NODE` and `unpublish VOLUME NODE`, in order."""
        words = {"ControllerPublishVolume": "publish", "ControllerUnpublishVolume": "unpublish"}
        calls: list[tuple[str, Any]] = [(words[name], request) for name, request in self.calls if name in words]
        return [f"{word} {request.volume_id} {request.node_id}" for word, request in calls]

    def report(self, node: str, *pools: str, total: str = "0", maximum: str | None = None, kind: str = "") -> None:
        """Answer GetCapacity so for a node, and a class whose parameter `kind` is this."""
        self._reports[node, kind] = csi.GetCapacityResponse(
            available_capacity=_bytes(total),
            maximum_volume_size=None if maximum is None else Int64Value(value=_bytes(maximum)),
            available_capacities=[_bytes(each) for each in pools],
        )

    def report_once(self, node: str, *, total: str) -> None:
        """Answer so the next time, and then what it answers now."""
        self._reports_then[node, ""] = self._reports[node, ""]
        self.report(node, total=total)

    async def _note(self, method: str, request: Message, context: Context) -> None:
        self.calls.append((method, request))
        if self.before_call is not None:
            await self.before_call(method)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if method in self._refusals:
            await context.abort(*self._refusals[method])

    async def _play(self, method: str, request: Message, context: Context) -> None:
        await self._note(method, request, context)
        if self.script.get(method):
            await context.abort(self.script[method].popleft(), f"{method} as the script says")
        if self.refusal is not None:
            await context.abort(*self.refusal)
        await self._mind(method, context)

    async def _mind(self, moment: str, context: Context) -> None:
        if (code := self.mood(moment)) is not None:
            await context.abort(code, f"{moment}: in no mood")

    # -- the service --------------------------------------------------------------------------------------------------

    async def ControllerGetCapabilities(
        self, request: csi.ControllerGetCapabilitiesRequest, context: Context
    ) -> csi.ControllerGetCapabilitiesResponse:
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[
                csi.ControllerServiceCapability(rpc=ControllerRpc(type=ControllerRpc.Type.Name(each)))
                for each in self.rpcs
            ]
        )

    async def GetCapacity(self, request: csi.GetCapacityRequest, context: Context) -> csi.GetCapacityResponse:
        await self._play("GetCapacity", request, context)
        node = request.accessible_topology.segments.get(self.topology_key, "")
        key = node, request.parameters.get("kind", "")
        answer = self._reports.get(key)
        if answer is None:
            return csi.GetCapacityResponse(available_capacity=self.free_bytes.get(node, 0))
        self._reports[key] = self._reports_then.pop(key, answer)
        return answer

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: Context) -> csi.CreateVolumeResponse:
        await self._play("CreateVolume", request, context)
        made = self.volumes.get(request.name)
        if made is None:
            size = request.capacity_range.required_bytes
            preferred = request.accessibility_requirements.preferred
            node = preferred[0].segments[self.topology_key] if preferred else ""
            if self.free_bytes.get(node, 0) < size:
                await context.abort(Code.RESOURCE_EXHAUSTED, f"no pool of {node} has {size} bytes left")
            self.free_bytes[node] -= size
            content = request.volume_content_source if request.HasField("volume_content_source") else None
            made = self.volumes[request.name] = csi.Volume(
                volume_id=f"id-{request.name}",
                capacity_bytes=size - self.gives_less_by,
                volume_context={"pool": "0"},
                content_source=content,
                accessible_topology=[csi.Topology(segments={self.topology_key: node})] if node else [],
            )
            self._places[request.name] = node
            self.alter(made)
        if self.gate is not None:
            await self.gate.wait()
        await self._mind("CreateVolume answer", context)
        return csi.CreateVolumeResponse(volume=made)

    async def DeleteVolume(self, request: csi.DeleteVolumeRequest, context: Context) -> csi.DeleteVolumeResponse:
        await self._play("DeleteVolume", request, context)
        for name, volume in list(self.volumes.items()):
            if volume.volume_id == request.volume_id:
                self.free_bytes[self._places.pop(name)] += volume.capacity_bytes + self.gives_less_by
                del self.volumes[name]
        await self._mind("DeleteVolume answer", context)
        return csi.DeleteVolumeResponse()

    async def ControllerExpandVolume(
        self, request: csi.ControllerExpandVolumeRequest, context: Context
    ) -> csi.ControllerExpandVolumeResponse:
        await self._play("ControllerExpandVolume", request, context)
        return csi.ControllerExpandVolumeResponse(
            capacity_bytes=request.capacity_range.required_bytes - self.gives_less_by,
            node_expansion_required=self.expands_on_node,
        )

    async def ControllerPublishVolume(
        self, request: csi.ControllerPublishVolumeRequest, context: Context
    ) -> csi.ControllerPublishVolumeResponse:
        await self._play("ControllerPublishVolume", request, context)
        self.attached.add((request.volume_id, request.node_id))
        return csi.ControllerPublishVolumeResponse(
            publish_context={"device": f"/dev/{request.volume_id}", **self.publish_context}
        )

    async def ControllerUnpublishVolume(
        self, request: csi.ControllerUnpublishVolumeRequest, context: Context
    ) -> csi.ControllerUnpublishVolumeResponse:
        await self._play("ControllerUnpublishVolume", request, context)
        self.attached.discard((request.volume_id, request.node_id))
        return csi.ControllerUnpublishVolumeResponse()

    async def ListVolumes(self, request: csi.ListVolumesRequest, context: Context) -> csi.ListVolumesResponse:
        answer = csi.ListVolumesResponse()
        for handle in sorted({handle for handle, _ in self.attached}):
            nodes = [node for each, node in sorted(self.attached) if each == handle]
            status = csi.ListVolumesResponse.VolumeStatus(published_node_ids=nodes)
            entry = csi.ListVolumesResponse.Entry(volume=csi.Volume(volume_id=handle), status=status)
            answer.entries.append(entry)
        return answer


def _bytes(text: str) -> int:
    return Quantity.parse(text).value()
