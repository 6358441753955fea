"""Every metric of every program, known without running one: each program's parts are made on a registry and described.

Nothing is sent anywhere and nothing listens; a temporary folder has the API server's store while it is asked. A test
scrapes the programs of a running cluster and holds what they show against this.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from tonnage.apiserver.audit.audit_metrics import AuditMetrics
from tonnage.apiserver.authentication.access_metrics import AccessMetrics
from tonnage.apiserver.health.store_metrics import StoreMetrics
from tonnage.apiserver.metrics import RequestMetrics
from tonnage.client.config.connection import KubeconfigCluster, ServerConnection
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.metrics.leader_election import show_leadership
from tonnage.client.metrics.rest_client import RestClientMetrics
from tonnage.clock import VirtualClock
from tonnage.controllers.program import ControllerManager
from tonnage.controllers.registry import ControllerManagerConfiguration
from tonnage.csi.client import CsiClient
from tonnage.csi.metrics import sidecar_calls
from tonnage.gates import Gates
from tonnage.metrics import new_registry
from tonnage.node.metrics import NodeMetrics
from tonnage.node.program import NodeProgram
from tonnage.node.settings import NodeSettings
from tonnage.plane.metric_names import MetricDescription, described
from tonnage.pools.program import PoolsProgram
from tonnage.pools.settings import PoolsSettings
from tonnage.pools.sources import OF_DRIVERS
from tonnage.provisioner.capacity.controller import CapacityController, CapacitySettings
from tonnage.provisioner.metrics import ProvisionerMetrics
from tonnage.provisioner.options import ProvisionerOptions
from tonnage.provisioner.program import Provisioner
from tonnage.scheduler.program import SchedulerProgram
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.store import Store

PROGRAMS: Final = ("scheduler", "provisioner", "pools", "node", "controllers", "apiserver")
"""The programs that show metrics, as their commands are called; those of a real cluster first."""
_NOWHERE: Final = "https://127.0.0.1:1"


def catalogue() -> Mapping[str, list[MetricDescription]]:
    """By program, what it shows; by name."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_catalogue(Path(folder)))


async def _catalogue(folder: Path) -> Mapping[str, list[MetricDescription]]:
    registries = {program: new_registry() for program in PROGRAMS}
    clock, rng = VirtualClock(), random.Random(1)
    client = Client.connect(ServerConnection(KubeconfigCluster(_NOWHERE)), clock=clock, rng=rng)
    for program in PROGRAMS[:-1]:
        RestClientMetrics(registries[program])
    for program in ("scheduler", "provisioner", "pools", "controllers"):
        show_leadership(registries[program], tuple)
    SchedulerProgram(
        client, default_configuration(), clock=clock, rng=rng, registry=registries["scheduler"]
    ).engine.open()
    _provisioner(client, clock, rng, registries["provisioner"])
    source, settings = OF_DRIVERS[0], PoolsSettings(drivers=())
    PoolsProgram(client, source, settings, clock=clock, rng=rng, registry=registries["pools"])
    node, nodes = NodeMetrics(registries["node"]), NodeSettings(names=(), root_dir=folder / "nodes")
    NodeProgram(client, nodes, clock=clock, rng=rng, metrics=node)
    sidecar_calls(registries["controllers"])
    manager = ControllerManagerConfiguration()
    ControllerManager(client, manager, clock=clock, rng=rng, registry=registries["controllers"])
    RequestMetrics(registries["apiserver"], lambda resource: 0, Gates())
    AccessMetrics(registries["apiserver"], lambda: 0.0)
    registries["apiserver"].register(AuditMetrics(lambda: None))
    store = await Store.open(folder / "store")
    try:
        registries["apiserver"].register(StoreMetrics(store, now=lambda: 0.0, ticks=lambda: 0.0))
        return {program: described(registries[program]) for program in PROGRAMS}
    finally:
        await store.close()
        await client.close()


def _provisioner(client: Client, clock: VirtualClock, rng: random.Random, registry: CollectorRegistry) -> None:
    metrics = ProvisionerMetrics(registry)
    driver = CsiClient("unix:///nowhere", clock=clock, rng=rng, on_call=metrics.calls)
    Provisioner(client, driver, ProvisionerOptions(), clock=clock, rng=rng, registry=registry, metrics=metrics)
    # What a provisioner shows of capacity it shows once it knows its driver.
    settings = CapacitySettings(namespace="default")
    CapacityController(
        client, driver, Informers(client), driver_name="", settings=settings, clock=clock, registry=registry
    )
