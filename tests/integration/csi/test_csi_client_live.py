"""A driver that is killed in the middle of a call: the call goes on with its successor."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tonnage.clock import SystemClock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.client import CsiClient
from tonnage.csi.server import served

MUTE = """
import asyncio, sys
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.server import served

class Mute(rpc.IdentityServicer):
    async def GetPluginInfo(self, request, context):
        print("asked", flush=True)
        await asyncio.Event().wait()

async def main():
    async with served(sys.argv[1], [lambda server: rpc.add_IdentityServicer_to_server(Mute(), server)]):
        await asyncio.Event().wait()

asyncio.run(main())
"""


class Successor(rpc.IdentityServicer):
    async def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return csi.GetPluginInfoResponse(name="successor")


async def test_a_call_survives_the_death_of_the_driver_it_was_made_to() -> None:
    codes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        address = f"unix://{folder}/csi.sock"
        mute = await asyncio.create_subprocess_exec(sys.executable, "-c", MUTE, address, stdout=subprocess.PIPE)
        client = CsiClient(
            address,
            clock=SystemClock(),
            rng=random.Random(1),
            on_call=lambda _driver, _method, code, _s: codes.append(code),
        )
        async with client as driver:
            assert mute.stdout is not None
            call = asyncio.create_task(driver.plugin_info())
            assert await mute.stdout.readline() == b"asked\n"
            mute.kill()
            await mute.wait()
            assert names_in(Path(folder)) == ["csi.sock"]  # as a killed process leaves it
            async with served(address, [lambda server: rpc.add_IdentityServicer_to_server(Successor(), server)]):
                assert (await call).name == "successor"
    assert set(codes[:-1]) == {"Unavailable"} and codes[-1] == "OK"


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]
