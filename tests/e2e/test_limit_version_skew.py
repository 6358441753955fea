"""Version skew, as KEP-4876 tells it: an API server, a node or an attacher without MutableCSINodeAllocatableCount.

An old server keeps neither the period nor an error's code, and refuses a count that changes; an old node does not look
at either; an old attacher writes no code. In each case limits stay what they were and a pod without a slot waits, as
before the enhancement. Nothing is failed, nothing hangs for good, and a node goes on with all else that it does.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from rich.console import Console

from tonnage.clock import SystemClock
from tonnage.driver import DRIVER_NAME
from tonnage.faults import Fault
from tonnage.objects.core_v1 import Pod
from tonnage.objects.storage_v1 import CSIDriver, VolumeAttachment, VolumeError
from tonnage.plane.cluster import Plane
from tonnage.plane.settings import PlaneSettings
from tonnage.stories import suites
from tonnage.stories.story_runner import StoryRunner, claim, pod
from tonnage.stories.suites import LIMIT, counted, period

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD: Final = ("--feature-gates", "MutableCSINodeAllocatableCount=false")
READY_WITHIN_S: Final = 30.0
WAITS_S: Final = 3.0
"""For so long a pod is left alone; where the enhancement works it is failed after one."""


class Skewed:
    """A cluster whose API server, controllers and nodes are exchanged for older ones and back."""

    def __init__(self, plane: Plane, folder: Path) -> None:
        self.runner = StoryRunner(plane, Console(record=True, width=160, highlight=False), clock=SystemClock())
        self.folder = folder
        self._supervisor = plane.supervisor
        self._flags: dict[str, tuple[str, ...]] = {"apiserver": OLD}
        self._args = {"apiserver": plane.supervisor["apiserver"].args[: -len(OLD)]}
        self._args |= {name: list(plane.supervisor[name].args) for name in ("controllers", "node")}

    async def become(self, **flags: tuple[str, ...]) -> StoryRunner:
        """Give these programs these flags and the others none; give the runner."""
        for name in self._args:
            if flags.get(name, ()) != self._flags.get(name, ()):
                await self.restart(name, *flags.get(name, ()))
        self._flags = flags
        return self.runner

    async def restart(self, name: str, *flags: str) -> None:
        await self._supervisor.stop(name)
        self._supervisor.start(name, [*self._args[name], *flags])
        await self._supervisor.wait_ready(name, timeout_s=READY_WITHIN_S)

    async def waits_without_a_slot(self) -> VolumeError:
        """A pod that finds no slot on node-2 waits there, is not failed, and runs when slots are given back."""
        runner = self.runner
        runner.faults(Fault("slots-taken", "node-2", 3))
        await runner.create(claim("a", "1Gi"), claim("b", "1Gi"), pod("db", ["a", "b"], node="node-2"))

        async def refused() -> VolumeError | None:
            found = (await runner.client.list(VolumeAttachment)).items
            return next((each.status.attach_error for each in found if each.status.attach_error is not None), None)

        failure = await runner.until("an attachment to be refused", refused)
        await runner.clock.sleep(WAITS_S)
        waiting: Pod = await runner.pod("db")
        assert (waiting.spec.node_name, waiting.status.phase) == ("node-2", "Pending")
        assert await counted(runner, "node-2") == LIMIT
        runner.faults()
        assert (await runner.running("db")).uid == waiting.uid
        return failure

    def held(self) -> None:
        assert self.runner.failures == [], self.runner.console.export_text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def skewed() -> AsyncIterator[Skewed]:
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        settings = PlaneSettings(
            data_dir=Path(folder) / "c",
            nodes=2,
            max_volumes=(str(LIMIT),),
            secure_port=0,
            attach_error_grace_s=1.0,
            extra={"apiserver": OLD},
        )
        async with Plane(settings, clock=SystemClock(), rng=random.Random()) as plane:
            yield Skewed(plane, settings.data_dir)


async def test_with_an_old_server_limits_stay_and_a_node_that_knows_better_goes_on(skewed: Skewed):
    runner = await skewed.become(apiserver=OLD)
    driver = await runner.client.get(CSIDriver, DRIVER_NAME)
    assert driver.spec.node_allocatable_update_period_seconds is None  # the server dropped it
    async with runner.story("no slot, on an old server"):
        failure = await skewed.waits_without_a_slot()
        assert failure.error_code is None and "code = ResourceExhausted" in failure.message
    # A node that starts asks its driver, which says 1 now, and the server does not let the count change.
    runner.faults(Fault("slots-taken", "node-2", 3))
    await skewed.restart("node")
    log = skewed.folder / "logs" / "node.log"

    async def complaints() -> list[str]:
        return [line for line in log.read_text().splitlines() if "could not be registered" in line]

    await runner.until("the refusal to be told", complaints)
    runner.faults()
    assert await counted(runner, "node-2") == LIMIT
    async with runner.story("pods go on, on an old server"):
        await runner.create(claim("data", "1Gi"), pod("web", ["data"], node="node-2"))
        await runner.running("web")
    assert len(await complaints()) == 1, "it is told once, however often it is tried"
    skewed.held()
    await skewed.restart("node")  # its next try to register would meet the next test's fault


async def test_with_an_old_node_the_code_is_there_and_nobody_looks_at_it(skewed: Skewed):
    runner = await skewed.become(node=OLD)
    async with runner.story("no slot, on an old node"):
        await period(runner, 10)
        assert (await skewed.waits_without_a_slot()).error_code == 8
    skewed.held()


async def test_with_an_old_attacher_there_is_no_code_and_the_pod_waits(skewed: Skewed):
    runner = await skewed.become(controllers=OLD)
    async with runner.story("no slot, with an old attacher"):
        await period(runner, 3600)  # a tick would correct the limit: that half needs no attacher
        assert (await skewed.waits_without_a_slot()).error_code is None
    skewed.held()


async def test_when_all_are_new_a_refused_attachment_corrects_the_limit(skewed: Skewed):
    runner = await skewed.become()
    async with runner.story("no slot, all new"):
        await suites.a_refused_attachment_corrects_the_limit(runner)
    skewed.held()
