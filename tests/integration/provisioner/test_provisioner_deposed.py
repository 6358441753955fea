"""A provisioner that no longer leads, against a real server and a driver on a real socket: it does nothing more."""

from __future__ import annotations

import asyncio
import random

from provisioner_stage import ProvisionerStage, short_folder, staged

from support.eventually import eventually_async
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.http import Clients
from tonnage.client.leader import LeaderElector, LeaseLost
from tonnage.client.leadership import Leadership
from tonnage.client.program import Runtime
from tonnage.clock import SystemClock
from tonnage.csi.client import CsiClient
from tonnage.metrics import new_registry
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.provisioner.context import ProvisionerOptions
from tonnage.provisioner.metrics import ProvisionerMetrics
from tonnage.provisioner.program import Provisioner

CHANGES = ("CreateVolume", "DeleteVolume", "ControllerExpandVolume")


class Stoppable(SystemClock):
    """The process sleeps when the test says so: its clock is that much ahead, and nothing has had a turn."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


def changes(on: ProvisionerStage) -> int:
    return sum(len(on.driver.asked(call)) for call in CHANGES)


async def test_a_provisioner_that_slept_through_its_lease_calls_the_driver_no_more() -> None:
    clock, rng, registry = Stoppable(), random.Random(7), new_registry()
    leadership = Leadership("a", clock=clock)
    with short_folder() as folder:
        async with serve(ServerSettings(data_dir=folder / "data", port=0)) as server:
            connection = kubeconfig.load(server.kubeconfig)
            async with (
                staged(connection) as on,
                Clients.connect(connection, clock=clock, guard=leadership) as clients,
                CsiClient(on.address, clock=clock, rng=rng, timeout_s=5.0, before_change=leadership.check) as driver,
                Provisioner(
                    Runtime(clients.work, clock=clock, rng=rng, registry=registry, leadership=leadership),
                    driver,
                    ProvisionerOptions(retry_start_s=0.05, retry_max_s=0.1),
                    metrics=ProvisionerMetrics(registry),
                ) as program,
            ):
                elector = LeaderElector(clients.leases, "kube-system/pools", leadership)
                working = asyncio.create_task(elector.run(program.run))
                first = await on.provisioned(await on.claim("first", "1Gi", "node-1"))
                clock.ahead_s += 24.0
                since = changes(on)
                waiting = await on.claim("second", "1Gi", "node-1")
                await on.phase(first, "Released")
                await eventually_async(working.done)
                assert isinstance(working.exception(), LeaseLost) and changes(on) == since
                assert await on.volume_of(waiting) is None
                assert [each.name for each in (await on.client.list(PersistentVolume)).items] == [first.name]
