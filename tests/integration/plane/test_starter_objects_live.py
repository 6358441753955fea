"""What `tonnage up` writes at every start, on a real API server: what a person changed stays."""

from __future__ import annotations

import random
from pathlib import Path

from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.driver import DRIVER_NAME
from tonnage.objects.storage_v1 import POOL_POLICY, CSIDriver
from tonnage.plane.bootstrap import ensure_starter_objects


async def test_the_driver_says_how_it_picks_pools_and_follows_unless_a_person_says_that_nobody_knows(
    tmp_path: Path,
) -> None:
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        Client.connect(kubeconfig.load(server.kubeconfig), rng=random.Random(1), user_agent="tests/1") as client,
    ):

        async def said() -> str:
            return (await client.get(CSIDriver, DRIVER_NAME)).pool_policy

        await ensure_starter_objects(client, 1, "best-fit")
        assert await said() == "best-fit"
        await ensure_starter_objects(client, 1, "most-free")
        assert await said() == "most-free"
        await client.patch(CSIDriver, DRIVER_NAME, {"metadata": {"annotations": {POOL_POLICY: "unknown"}}})
        await ensure_starter_objects(client, 1, "most-free")
        assert await said() == "unknown"
