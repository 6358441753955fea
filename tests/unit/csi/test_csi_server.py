"""A driver's socket: there when it answers, for its owner alone, taken over from the dead, left to a successor."""

from __future__ import annotations

import random
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from csi_peers import Peer, short_folder

from support.http import free_port
from tonnage.clock import SystemClock
from tonnage.csi.address import InvalidAddress
from tonnage.csi.client import CsiClient
from tonnage.csi.server import served
from tonnage.errors import TonnageError


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as made:
        yield made


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


async def name_at(address: str) -> str:
    async with CsiClient(address, clock=SystemClock(), rng=random.Random(1)) as driver:
        return (await driver.plugin_info()).name


async def test_the_socket_is_for_its_owner_alone_and_gone_afterwards(folder: Path) -> None:
    path = folder / "run" / "node-1" / "csi.sock"
    async with served(f"unix://{path}", [Peer().register]) as address:
        assert address == f"unix://{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert names_in(path.parent) == ["csi.sock"]
        assert await name_at(address) == "peer"
    assert names_in(path.parent) == []


async def test_a_socket_that_a_killed_process_left_is_replaced(folder: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(folder / "csi.sock"))
    left.close()
    async with served(str(folder / "csi.sock"), [Peer().register]) as address:
        assert await name_at(address) == "peer"


async def test_whoever_ends_after_its_successor_began_leaves_the_successors_socket(folder: Path) -> None:
    address = f"unix://{folder}/csi.sock"
    old, new = served(address, [Peer(name="old").register]), served(address, [Peer(name="new").register])
    await old.__aenter__()
    await new.__aenter__()
    assert await name_at(address) == "new"
    await old.__aexit__(None, None, None)
    assert await name_at(address) == "new"
    await new.__aexit__(None, None, None)
    assert names_in(folder) == []


async def test_two_sockets_live_in_one_folder(folder: Path) -> None:
    async with (
        served(f"unix://{folder}/a.sock", [Peer(name="a").register]) as a,
        served(f"unix://{folder}/b.sock", [Peer(name="b").register]) as b,
    ):
        assert (await name_at(a), await name_at(b)) == ("a", "b")


async def test_a_host_and_port_will_do(folder: Path) -> None:
    port = free_port()
    async with served(f"tcp://127.0.0.1:{port}", [Peer().register]) as address:
        assert await name_at(address) == "peer"


async def test_a_folder_that_cannot_be_made_is_told_with_the_address(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(TonnageError) as raised:
        async with served(f"unix://{folder}/file/csi.sock", [Peer().register]):
            pass
    assert raised.value.message.startswith(f"cannot listen on unix://{folder}/file/csi.sock: ")
    assert raised.value.hint == "is another driver there, or the folder not writable?"


async def test_a_folder_in_the_sockets_place_is_told(folder: Path) -> None:
    (folder / "csi.sock").mkdir()
    with pytest.raises(TonnageError, match="cannot listen on"):
        async with served(f"unix://{folder}/csi.sock", [Peer().register]):
            pass
    assert names_in(folder) == ["csi.sock"]


async def test_a_path_that_is_too_long_is_refused_before_anything_is_made(folder: Path) -> None:
    with pytest.raises(InvalidAddress):
        async with served(f"unix://{folder}/{'x' * 100}/csi.sock", [Peer().register]):
            pass
    assert names_in(folder) == []
