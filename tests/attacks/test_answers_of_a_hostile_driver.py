"""What a CSI driver may answer over its socket, and what is made of it: no answer is taken for another.

The worst mistake is to read "no room" or "refused" where the driver may have made a volume: another is then made
elsewhere, and the first is known to nobody.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import struct
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from support.scripted_driver import ScriptedDriver
from tonnage.clock import SystemClock
from tonnage.controllers.volumes.attacher import published_nodes
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.csi.errors import Code, CsiError, is_in_doubt
from tonnage.provisioner.capacity.objects import InvalidCapacity, Segment, WorkItem, read_response

Answer = Callable[[bytes, Any], Awaitable[bytes]]


@pytest.fixture
def socket() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="t")
    yield f"{folder}/csi.sock"
    shutil.rmtree(folder, ignore_errors=True)


def client_at(socket: str, timeout_s: float = 0.5) -> CsiClient:
    return CsiClient(f"unix://{socket}", clock=SystemClock(), rng=random.Random(1), timeout_s=timeout_s)


async def refusal(socket: str) -> CsiError:
    async with client_at(socket) as driver:
        with pytest.raises(CsiError) as caught:
            await driver.create_volume(csi.CreateVolumeRequest(name="pvc-1"))
    return caught.value


@asynccontextmanager
async def answering(socket: str, method: str, answer: Answer) -> AsyncIterator[None]:
    """A driver with one method, whose answers are bytes."""
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    handlers: dict[str, Any] = {method: grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("csi.v1.Controller", handlers),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


# -- answers that cannot be read ---------------------------------------------------------------------------------------

UNREADABLE = {
    "no protobuf": b"\xff\xff\xff\xff",
    "cut short": b"\x0a\x80\x01x",
    "an id that is no text": b"\x0a\x06\x12\x04\xff\xfe\xfd\xfc",
    "17 MB": b"\x0a\x80\x80\x80\x08" + bytes(17 << 20),
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
async def test_an_answer_that_cannot_be_read_leaves_open_what_was_done(socket: str, body: bytes) -> None:
    async def answer(request: bytes, context: Any) -> bytes:
        return body

    async with answering(socket, "CreateVolume", answer):
        failure = await refusal(socket)
    assert failure.code is Code.DATA_LOSS and is_in_doubt(failure.code)


@pytest.mark.parametrize("length", [20_000, 100_000, 1_000_000])
async def test_long_words_of_a_driver_are_never_taken_for_no_room(socket: str, length: int) -> None:
    async def answer(request: bytes, context: Any) -> bytes:
        await context.abort(Code.INTERNAL, "x" * length)
        raise AssertionError

    async with answering(socket, "CreateVolume", answer):
        failure = await refusal(socket)
    assert failure.code is (Code.INTERNAL if length <= 100_000 else Code.DATA_LOSS)
    assert len(failure.message) < 5_000


async def test_no_room_stays_no_room_whatever_its_words(socket: str) -> None:
    async def answer(request: bytes, context: Any) -> bytes:
        await context.abort(Code.RESOURCE_EXHAUSTED, "the volume is larger than max (20 vs. 10); metadata size exceeds")
        raise AssertionError

    async with answering(socket, "CreateVolume", answer):
        assert (await refusal(socket)).code is Code.RESOURCE_EXHAUSTED


# -- what is no gRPC ---------------------------------------------------------------------------------------------------


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


@asynccontextmanager
async def listening(
    socket: str, speak: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> AsyncIterator[None]:
    """Speak with whoever connects, and hang up then; nobody is left at the end."""
    conversations: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversations.add(asyncio.current_task())  # type: ignore[arg-type]  # it runs as a task
        with suppress(asyncio.CancelledError, ConnectionError):  # also one that is cancelled while it hangs up
            try:
                await speak(reader, writer)
            finally:
                writer.close()
                await writer.wait_closed()

    async with await asyncio.start_unix_server(converse, socket):
        yield
        for each in conversations:
            each.cancel()
        await asyncio.gather(*conversations)


GRPC = b"\x88" + header(b"content-type", b"application/grpc")
HEADERS, DATA, RESET, GOAWAY = 1, 0, 3, 7
BROKEN: dict[str, Callable[[int], bytes]] = {
    "reset": lambda stream: frame(RESET, 0, stream, struct.pack(">I", 2)),
    "go away": lambda stream: frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)),
    "an error page": lambda stream: frame(HEADERS, 5, stream, header(b":status", b"500")),
    "a page": lambda stream: frame(HEADERS, 4, stream, b"\x88") + frame(DATA, 1, stream, b"<html>"),
    "no status": lambda stream: frame(HEADERS, 4, stream, GRPC) + frame(DATA, 1, stream, bytes(5)),
    "two answers": lambda stream: (
        frame(HEADERS, 4, stream, GRPC)
        + frame(DATA, 0, stream, bytes(10))
        + frame(HEADERS, 5, stream, header(b"grpc-status", b"0"))
    ),
    "fine, and no answer": lambda stream: frame(HEADERS, 5, stream, GRPC + header(b"grpc-status", b"0")),
    "a status that is none": lambda stream: frame(HEADERS, 5, stream, GRPC + header(b"grpc-status", b"-1")),
    "nothing": lambda stream: b"",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
async def test_what_is_no_answer_leaves_open_what_was_done(socket: str, broken: Callable[[int], bytes]) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(4, 0, 0))
        with suppress(asyncio.IncompleteReadError):
            await reader.readexactly(24)
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == 4 and not head[4] & 1:
                    writer.write(frame(4, 1, 0))
                if head[3] == HEADERS:
                    writer.write(broken(int.from_bytes(head[5:9], "big")))

    async with listening(socket, speak):
        failure = await refusal(socket)
    assert is_in_doubt(failure.code), failure.message


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 200 OK\r\n\r\n", bytes(range(256)) * 16, b""])
async def test_a_socket_with_something_else_behind_it_is_a_driver_that_is_away(socket: str, garbage: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(garbage)

    async with listening(socket, speak):
        assert is_in_doubt((await refusal(socket)).code)


# -- another driver ----------------------------------------------------------------------------------------------------


async def test_a_driver_that_comes_back_under_another_name_is_asked_for_nothing(socket: str) -> None:
    first, other = (ScriptedDriver(f"unix://{socket}", name=name) for name in ("a.example", "b.example"))
    asked = csi.DeleteVolumeRequest(volume_id="v")
    async with client_at(socket, timeout_s=1.0) as client:
        async with first.served():
            await client.plugin_info()
            await client.delete_volume(asked)
        async with other.served():
            with pytest.raises(CsiError) as caught:
                await client.delete_volume(asked)
            with pytest.raises(CsiError):
                await client.get_capacity(csi.GetCapacityRequest())
        async with first.served():
            await client.delete_volume(asked)  # it is back
    assert is_in_doubt(caught.value.code)
    assert caught.value.told == 'this was driver "a.example", and is "b.example" now'
    assert not other.asked("DeleteVolume") and not other.asked("GetCapacity")
    assert len(first.asked("DeleteVolume")) == 2


async def test_a_socket_that_was_removed_and_made_anew_is_found_again(socket: str) -> None:
    driver = ScriptedDriver(f"unix://{socket}")
    async with client_at(socket, timeout_s=5.0) as client:
        async with driver.served():
            await client.plugin_info()
            await asyncio.to_thread(Path(socket).unlink)
            await client.delete_volume(csi.DeleteVolumeRequest(volume_id="v"))  # the connection is still there
        async with driver.served():
            await client.delete_volume(csi.DeleteVolumeRequest(volume_id="v"))


# -- lists and numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_same_token", [True, False])
async def test_a_list_of_volumes_that_does_not_end_is_given_up(
    socket: str, is_same_token: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonnage.controllers.volumes.attacher._MOST_PAGES", 20)
    pages = 0

    async def answer(request: bytes, context: Any) -> bytes:
        nonlocal pages
        pages += 1
        page = csi.ListVolumesResponse(next_token="again" if is_same_token else f"page {pages}")
        return page.SerializeToString()

    async with answering(socket, "ListVolumes", answer), client_at(socket, timeout_s=5.0) as driver:
        with pytest.raises(CsiError, match="the list does not end"):
            await published_nodes(driver)
    assert pages == (2 if is_same_token else 20)


def test_figures_that_make_no_sense_are_refused_and_very_many_are_bounded() -> None:
    item, largest = WorkItem("pools", Segment()), (1 << 63) - 1
    for told in (
        csi.GetCapacityResponse(available_capacity=-1),
        csi.GetCapacityResponse(available_capacities=[1, -(1 << 63)]),
        csi.GetCapacityResponse(available_capacities=[*range(20_000), -1]),
    ):
        with pytest.raises(InvalidCapacity):
            read_response(item, told, with_pools=True)
    all_huge = read_response(item, csi.GetCapacityResponse(available_capacities=[largest] * 9), with_pools=True)
    assert all_huge.capacity_bytes == largest and len(all_huge.pools) == 9
    many = read_response(item, csi.GetCapacityResponse(available_capacities=range(100_000)), with_pools=True)
    # The 10,000 largest of 0 … 99,999.
    assert (len(many.pools), min(many.pools)) == (10_000, 90_000)
