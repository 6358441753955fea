"""Version skew, as KEP-5925 tells it: each program older than the rest, in one cluster whose programs are exchanged.

An old driver does not tell its pools, an old provisioner does not write them, an old scheduler does not read them, and
an old API server does not keep them. None of it is an error: with the first two a node counts as one pool, the third
works as it did before, and for the last the figures go in an annotation and everything works as if it were new. One
pool is what the KEP says (`legacyPools: Strict`), so that this is what the scheduler is told here.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from rich.console import Console

from support.configurations import storage_configuration
from tonnage.clock import SystemClock
from tonnage.driver import DRIVER_NAME
from tonnage.errors import NotFound
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, CSIStorageCapacity
from tonnage.plane.cluster import Plane
from tonnage.plane.settings import PlaneSettings
from tonnage.stories import suites
from tonnage.stories.story_runner import StoryRunner, claim, pod

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD: Final = ("--feature-gates", "CSIStorageCapacityV2=false")
READY_WITHIN_S: Final = 30.0
SUMS: Final = {"node-1": "100Gi", "node-2": "300Gi", "node-3": "120Gi"}
NO_LISTS: Final[dict[str, list[str]]] = {"node-1": [], "node-2": [], "node-3": []}
LISTS: Final = {"node-1": ["100Gi"], "node-2": ["100Gi"] * 3, "node-3": ["60Gi"] * 2}
CSI_DRIVER: Final[Doc] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    # A server that does not know spec.volumeRebuilding drops it; the annotation says the same.
    "metadata": {"name": DRIVER_NAME, "annotations": {"tonnage.dev/volume-rebuilding": "true"}},
    "spec": {"attachRequired": True, "storageCapacity": True, "volumeRebuilding": True},
}


class Skewed:
    """A cluster of which some programs are of an older release."""

    def __init__(self, plane: Plane) -> None:
        self.runner = StoryRunner(plane, Console(record=True, width=160, highlight=False), clock=SystemClock())
        self._supervisor = plane.supervisor
        # The server is in place from the start: a CSIDriver has to be made by the one that drops its fields.
        self._flags: dict[str, tuple[str, ...]] = {"apiserver": OLD}
        # In the order in which they are exchanged: the provisioner finds out what server and driver can when it starts.
        self._args = {"apiserver": plane.supervisor["apiserver"].args[: -len(OLD)]}
        self._args |= {name: list(plane.supervisor[name].args) for name in ("csi-driver", "provisioner", "scheduler")}

    async def become(self, **flags: tuple[str, ...]) -> StoryRunner:
        """Give these programs (`csi_driver` for csi-driver) these flags and all others none; give the runner."""
        wanted = {name.replace("_", "-"): said for name, said in flags.items()}
        for name, args in self._args.items():
            # The provisioner asks its driver again when it starts: figures are never those of the one before.
            if name == "provisioner" or wanted.get(name, ()) != self._flags.get(name, ()):
                await self._supervisor.stop(name)
                self._supervisor.start(name, [*args, *wanted.get(name, ())])
                await self._supervisor.wait_ready(name, timeout_s=READY_WITHIN_S)
        self._flags = wanted
        return self.runner

    async def publishes(self, lists: dict[str, list[str]], *, annotated: dict[str, list[str]] = NO_LISTS) -> None:
        """Wait until the pools are published like this; the sum of them always is."""

        async def found() -> bool:
            known = await self.runner.capacity()
            told = {node: [str(pool) for pool in each.available_capacities] for node, each in known.items()}
            noted = {node: each.metadata.annotations.get(AVAILABLE_CAPACITIES, "") for node, each in known.items()}
            sums = {node: str(each.capacity) for node, each in known.items()}
            wanted = {node: ",".join(enhancements) for node, enhancements in annotated.items()}
            return told == lists and noted == wanted and sums == SUMS

        await self.runner.until(f"the published room to be {lists}", found)

    async def forget_pools(self) -> None:
        """Have the capacity objects made anew. A provisioner without the gate lists no pools, but keeps lists that it
        finds true; the cluster has an old server at first, and then some in annotations, unless its provisioner was
        exchanged before it came to that.
        """
        for each in (await self.runner.capacity()).values():
            with suppress(NotFound):
                await self.runner.client.delete(CSIStorageCapacity, each.key)

    def held(self) -> None:
        assert self.runner.failures == [], self.runner.console.export_text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def skewed() -> AsyncIterator[Skewed]:
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        config = Path(folder) / "scheduler.yaml"
        config.write_text(storage_configuration(legacyPools="Strict"))
        settings = PlaneSettings(
            scheduler_config=config,
            data_dir=Path(folder) / "c",
            pools=("node-1=100Gi", "node-2=3x100Gi", "node-3=2x60Gi"),
            secure_port=0,
            extra={"apiserver": OLD},
        )
        async with Plane(settings, clock=SystemClock(), rng=random.Random(), manifests=[CSI_DRIVER]) as plane:
            yield Skewed(plane)


async def test_with_an_old_server_pools_go_in_an_annotation_and_everything_works(skewed: Skewed):
    runner = await skewed.become(apiserver=OLD)
    await skewed.publishes(NO_LISTS, annotated=LISTS)
    async with runner.story("packed jointly, on an old server"):
        await runner.create(claim("left", "100Gi"), claim("right", "100Gi"), pod("db", ["left", "right"]))
        assert await runner.bound("db") == "node-2"
        await runner.running("db")
        await runner.create(claim("one", "50Gi"), claim("two", "50Gi"), claim("three", "50Gi"))
        await runner.create(pod("too-many", ["one", "two", "three"]))
        # Two of them fit on node-1, on node-3, and on the disk that node-2 has left; all three nowhere.
        assert f"3 {suites.NO_ROOM}" in await runner.refused("too-many")
    async with runner.story("rebuilt, on an old server"):
        await suites.a_drained_node_gives_its_volumes_away(runner)
    skewed.held()


async def one_pool_is_all_that_is_known(runner: StoryRunner) -> None:
    """Without a list a node is one pool, as large as its largest volume (KEP-5925); what fits that runs as ever."""
    await runner.create(claim("small", "20Gi"), claim("large", "80Gi"), pod("web", ["small", "large"], node="node-2"))
    await runner.running("web")

    async def shows_web() -> bool:
        return str((await runner.capacity())["node-2"].capacity) == "200Gi"

    await runner.until("what web took to be published", shows_web)
    await runner.create(claim("left", "60Gi"), claim("right", "60Gi"), pod("db", ["left", "right"], node="node-2"))
    # 60 + 60Gi would fit the two disks of 100Gi that are left, and nobody says that they are two.
    assert f"1 {suites.NO_ROOM}" in await runner.refused("db")
    assert await runner.events("ProvisioningFailed") == []


async def test_with_an_old_driver_a_node_is_one_pool(skewed: Skewed):
    runner = await skewed.become(csi_driver=("--no-report-pools",))
    await skewed.publishes(NO_LISTS)
    async with runner.story("an old driver"):
        await one_pool_is_all_that_is_known(runner)
    skewed.held()


async def test_with_an_old_provisioner_a_node_is_one_pool(skewed: Skewed):
    runner = await skewed.become(provisioner=OLD)
    await skewed.forget_pools()
    await skewed.publishes(NO_LISTS)
    async with runner.story("an old provisioner"):
        await one_pool_is_all_that_is_known(runner)
    skewed.held()


async def test_an_old_scheduler_looks_at_one_claim_at_a_time(skewed: Skewed):
    runner = await skewed.become(scheduler=OLD)
    await skewed.publishes(LISTS)
    async with runner.story("an old scheduler"):
        await suites.claims_are_looked_at_one_by_one(runner)
    skewed.held()


async def test_when_all_are_new_all_of_it_works(skewed: Skewed):
    runner = await skewed.become()
    await skewed.publishes(LISTS)
    async with runner.story("packed jointly, all new"):
        await suites.claims_are_packed_jointly(runner)
    skewed.held()
