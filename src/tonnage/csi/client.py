"""`CsiClient`: calls to a CSI driver over its socket, with a time limit, retries and metrics.

    try 1 ──Unavailable, Aborted──► pause 0.1–0.2 s ──► try 2 ──► pause 0.2–0.4 s ──► … while the next fits the limit

`RETRIED_CODES` are retried: every call of CSI is idempotent. Other codes are raised as `CsiError` at once. Requests are
never logged: they may hold secrets. An unreadable answer is DataLoss, whatever gRPC calls it: the call may have been
executed. A recreated socket is asked for its driver's name first, so that no other driver gets a call.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections.abc import Callable, Coroutine
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.message import Message

from tonnage import logs
from tonnage.clock import Backoff, Clock, Closing
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.address import socket_identity, target_of
from tonnage.csi.errors import Code, CsiError, code_name, is_in_doubt

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)
OnCall = Callable[[str, str, str, float], None]
"""Called after every call: the driver (empty until its name is known), the method as `/csi.v1.Node/NodeGetInfo`, the
gRPC code as `ResourceExhausted`, and seconds."""

DEFAULT_TIMEOUT_S = 15.0
RETRIED_CODES = (Code.UNAVAILABLE, Code.ABORTED)
"""The driver is away, or is busy with this volume."""
CHANGING_CALLS = frozenset(
    (
        "CreateVolume",
        "DeleteVolume",
        "ControllerPublishVolume",
        "ControllerUnpublishVolume",
        "ControllerExpandVolume",
        "ControllerModifyVolume",
        "CreateSnapshot",
        "DeleteSnapshot",
    )
)
"""Calls on behalf of the whole cluster, made only by the leader; node calls are the node's own business."""
POOL_IDS_METADATA = "tonnage-pool-ids"
"""Trailing metadata of GetCapacity: an id for each of the `available_capacities`, with commas between them."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.1, 2.0
_MESSAGE_BYTES, _METADATA_BYTES = 16 << 20, 256 << 10
_NOT_THE_DRIVERS = re.compile(
    r"Stream removed \(|Received (RST_STREAM|http2 header)|CLIENT: |received [a-z ]*metadata size exceeds"
)
"""How gRPC words its own failures, also those whose code looks like a driver's answer."""

_log = logs.logger(__name__)


def _rpc(service: str, request: type[Q], response: type[R]) -> Callable[[CsiClient, Q], Coroutine[Any, Any, R]]:
    """Make a method of `CsiClient` for one call of CSI, named after its request."""
    method = request.__name__.removesuffix("Request")

    async def call(self: CsiClient, request: Q) -> R:
        return await self._call(service, method, request, response)

    call.__annotations__ |= {"request": request, "return": response}
    return call


def _question(service: str, request: type[Q], response: type[R]) -> Callable[[CsiClient], Coroutine[Any, Any, R]]:
    """The same for a call with an empty request."""
    call = _rpc(service, request, response)

    async def ask(self: CsiClient) -> R:
        return await call(self, request())

    return ask


@dataclass(eq=False)
class CsiClient(Closing):
    """A client of one driver. It connects on first use, and again when the driver is back.

    `before_change` is called before every try of one of `CHANGING_CALLS`; what it raises is passed on.
    """

    address: str
    _: KW_ONLY
    clock: Clock
    rng: random.Random
    timeout_s: float = DEFAULT_TIMEOUT_S
    on_call: OnCall | None = None
    before_change: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        self._target = target_of(self.address)
        self._driver_name = ""
        self._socket_seen: tuple[int, ...] | None = None
        """The socket on which the driver told its name."""
        self._channel: grpc.aio.Channel | None = None

    async def close(self) -> None:
        """Disconnect; calls under way raise CsiError with Cancelled. A later call connects again."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    # -- Identity -----------------------------------------------------------------------------------------------------

    async def plugin_info(self) -> csi.GetPluginInfoResponse:
        socket, request = socket_identity(self.address), csi.GetPluginInfoRequest()
        answer = await self._call("Identity", "GetPluginInfo", request, csi.GetPluginInfoResponse)
        self._driver_name, self._socket_seen = answer.name, socket
        return answer

    plugin_capabilities = _question("Identity", csi.GetPluginCapabilitiesRequest, csi.GetPluginCapabilitiesResponse)
    probe = _question("Identity", csi.ProbeRequest, csi.ProbeResponse)

    # -- Controller ---------------------------------------------------------------------------------------------------

    controller_capabilities = _question(
        "Controller", csi.ControllerGetCapabilitiesRequest, csi.ControllerGetCapabilitiesResponse
    )
    create_volume = _rpc("Controller", csi.CreateVolumeRequest, csi.CreateVolumeResponse)
    delete_volume = _rpc("Controller", csi.DeleteVolumeRequest, csi.DeleteVolumeResponse)
    controller_publish = _rpc("Controller", csi.ControllerPublishVolumeRequest, csi.ControllerPublishVolumeResponse)
    controller_unpublish = _rpc(
        "Controller", csi.ControllerUnpublishVolumeRequest, csi.ControllerUnpublishVolumeResponse
    )
    controller_expand = _rpc("Controller", csi.ControllerExpandVolumeRequest, csi.ControllerExpandVolumeResponse)
    controller_modify = _rpc("Controller", csi.ControllerModifyVolumeRequest, csi.ControllerModifyVolumeResponse)
    controller_volume = _rpc("Controller", csi.ControllerGetVolumeRequest, csi.ControllerGetVolumeResponse)
    create_snapshot = _rpc("Controller", csi.CreateSnapshotRequest, csi.CreateSnapshotResponse)
    delete_snapshot = _rpc("Controller", csi.DeleteSnapshotRequest, csi.DeleteSnapshotResponse)
    list_volumes = _rpc("Controller", csi.ListVolumesRequest, csi.ListVolumesResponse)
    get_capacity = _rpc("Controller", csi.GetCapacityRequest, csi.GetCapacityResponse)

    async def capacity_with_ids(self, request: csi.GetCapacityRequest) -> tuple[csi.GetCapacityResponse, list[str]]:
        """GetCapacity, and the ids of its pools; without ids if the driver tells none (`POOL_IDS_METADATA`)."""
        beside = dict[str, str | bytes]()
        answer = await self._call("Controller", "GetCapacity", request, csi.GetCapacityResponse, beside)
        told = beside.get(POOL_IDS_METADATA, "")
        return answer, told.split(",") if isinstance(told, str) and told else []

    # -- Node ---------------------------------------------------------------------------------------------------------

    node_info = _question("Node", csi.NodeGetInfoRequest, csi.NodeGetInfoResponse)
    node_capabilities = _question("Node", csi.NodeGetCapabilitiesRequest, csi.NodeGetCapabilitiesResponse)
    stage = _rpc("Node", csi.NodeStageVolumeRequest, csi.NodeStageVolumeResponse)
    unstage = _rpc("Node", csi.NodeUnstageVolumeRequest, csi.NodeUnstageVolumeResponse)
    publish = _rpc("Node", csi.NodePublishVolumeRequest, csi.NodePublishVolumeResponse)
    unpublish = _rpc("Node", csi.NodeUnpublishVolumeRequest, csi.NodeUnpublishVolumeResponse)
    node_expand = _rpc("Node", csi.NodeExpandVolumeRequest, csi.NodeExpandVolumeResponse)

    async def _call(
        self,
        service: str,
        method: str,
        request: Message,
        response: type[R],
        beside: dict[str, str | bytes] | None = None,
    ) -> R:
        """Call within the time limit, and retry while the driver is away or busy. Raises CsiError.

        `beside` gets the trailing metadata of the answer.
        """
        path = f"/csi.v1.{service}/{method}"
        give_up_at = self.clock.monotonic() + self.timeout_s
        backoff = Backoff(
            clock=self.clock, rng=self.rng, first_s=_FIRST_PAUSE_S, max_s=_MAX_PAUSE_S, reset_after_s=math.inf
        )
        while True:
            left_s = max(give_up_at - self.clock.monotonic(), 0.001)
            try:
                if service != "Identity":
                    await self._require_same_driver(path, left_s)
                return await self._ask(path, request, response, left_s, beside)
            except CsiError as exc:
                wait_s = backoff.next_s()
                if exc.code not in RETRIED_CODES or self.clock.monotonic() + wait_s >= give_up_at:
                    raise
                _log.debug("A CSI call is tried again", method=path, code=exc.code.name, pause_s=round(wait_s, 2))
                await self.clock.sleep(wait_s)

    async def _ask(
        self,
        path: str,
        request: Message,
        response: type[R],
        limit_s: float,
        beside: dict[str, str | bytes] | None = None,
    ) -> R:
        if self.before_change is not None and path.rpartition("/")[2] in CHANGING_CALLS:
            self.before_change(path)
        started_at, code = self.clock.monotonic(), Code.UNKNOWN
        try:
            call = self._method(path, request, response)(request, timeout=limit_s)
            answered = cast(R | None, await call)
            if answered is None:
                code = Code.DATA_LOSS
                raise CsiError(path, code, "the driver's answer cannot be read", address=self.address)
            if beside is not None:
                beside.update(await call.trailing_metadata())
            code = Code.OK
            return answered
        except grpc.aio.AioRpcError as exc:
            code, told = exc.code(), exc.details() or ""
            if not is_in_doubt(code) and _NOT_THE_DRIVERS.match(told):
                code = Code.DATA_LOSS
            hint = f"does a CSI driver listen on {self.address}?" if code is Code.UNAVAILABLE else None
            raise CsiError(path, code, told, address=self.address, hint=hint) from exc
        except asyncio.CancelledError as exc:
            code = Code.CANCELLED
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # gRPC raises CancelledError for a closed connection, as if this task were cancelled.
            raise CsiError(path, code, "the connection was closed", address=self.address) from exc
        finally:
            if self.on_call is not None:
                self.on_call(self._driver_name, path, code_name(code), self.clock.monotonic() - started_at)

    async def _require_same_driver(self, path: str, limit_s: float) -> None:
        """Raises CsiError if the socket was recreated and another driver listens on it."""
        socket = socket_identity(self.address)
        if not self._driver_name or socket == self._socket_seen:
            return
        asked, response = "/csi.v1.Identity/GetPluginInfo", csi.GetPluginInfoResponse
        name = (await self._ask(asked, csi.GetPluginInfoRequest(), response, limit_s)).name
        if name != self._driver_name:
            told = f'this was driver "{self._driver_name}", and is "{name}" now'
            hint = "restart this program to use the other driver"
            raise CsiError(path, Code.UNAVAILABLE, told, address=self.address, hint=hint)
        self._socket_seen = socket

    def _method(self, path: str, request: Message, response: type[R]) -> Callable[..., Any]:
        if self._channel is None:
            options = [
                ("grpc.max_receive_message_length", _MESSAGE_BYTES),
                ("grpc.max_metadata_size", _METADATA_BYTES),
                ("grpc.absolute_max_metadata_size", _METADATA_BYTES),
                # A driver that restarts must be found within a second, not after gRPC's two minutes.
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.min_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1000),
                ("grpc.enable_http_proxy", 0),
                # A connection per client: no client waits out a pause caused by another's failures.
                ("grpc.use_local_subchannel_pool", 1),
            ]
            self._channel = grpc.aio.insecure_channel(self._target, options=options)
        return self._channel.unary_unary(
            path, request_serializer=type(request).SerializeToString, response_deserializer=response.FromString
        )
