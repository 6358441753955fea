"""`tonnage csi-driver`: the reference driver, for one node or for all nodes of a small cluster, until told to stop."""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.driver.pool_options import by_node, max_volumes_option, pools_by_node, pools_option
from tonnage.cli.flags.go_flags import GoCommand, switch
from tonnage.cli.options import feature_gates, logging_options, start_logging
from tonnage.cli.output import say
from tonnage.cli.running import connection_of, kubeconfig_option, run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.csi.address import InvalidAddress, socket_path
from tonnage.driver import DRIVER_NAME
from tonnage.driver.node_pools import POLICIES, PerNode, Policy
from tonnage.faults import FaultFile
from tonnage.gates import Gates

if TYPE_CHECKING:
    from tonnage.client.config.connection import ServerConnection
    from tonnage.driver.driver import CsiDriverSettings, Driver
    from tonnage.driver.rebuilding import RebuildController

PLACEHOLDER = "{node}"
_DRIVER_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")


class _Endpoint(click.ParamType[str]):
    """Where a driver can listen; anything else is wrong usage."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            socket_path(str(value))
        except InvalidAddress as exc:
            self.fail(f"{exc.message}; {exc.hint}", param, ctx)
        return str(value)


class _DriverName(click.ParamType[str]):
    """A name as CSI's GetPluginInfo may give it; kubelets make a folder and labels of it."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _DRIVER_NAME.fullmatch(str(value)):
            self.fail(
                f'"{value}" is no name of a CSI driver: at most 63 letters, digits, dots and dashes, with a letter or '
                f'digit at both ends; write it like "{DRIVER_NAME}"',
                param,
                ctx,
            )
        return str(value)


ENDPOINT = _Endpoint()


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the driver listens: for the whole cluster, and for each node where there is a socket a node."""

    cluster: str
    node_template: str


@click.command("csi-driver", cls=GoCommand)
@click.option(
    "--endpoint",
    type=ENDPOINT,
    required=True,
    help="Where to listen: unix:///run/csi.sock. With one node and no --node-endpoint, for that node's calls too.",
)
@click.option("--node-id", "nodes", multiple=True, required=True, help="A node of this driver. May be repeated.")
@click.option(
    "--node-endpoint",
    type=ENDPOINT,
    help=f"Where to listen for the calls of each node: unix:///run/{PLACEHOLDER}/csi.sock.",
)
@pools_option
@max_volumes_option
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where volumes and what is known of them are kept.",
)
@click.option("--driver-name", type=_DriverName(), default=DRIVER_NAME, show_default=True, help="The driver's name.")
@click.option(
    "--pool-policy",
    type=click.Choice(POLICIES),
    default="best-fit",
    show_default=True,
    help="Which pool a new volume goes to.",
)
@switch(
    "--report-pools",
    default=True,
    help="Tell the free bytes of each pool (KEP-5925), or only their sum, as drivers did before.",
)
@click.option(
    "--one-number",
    type=click.Choice(["sum", "largest"]),
    help="Tell this one number and nothing beside it, as drivers do that have several pools and no word for them.",
)
@click.option(
    "--lvm-nodes",
    "lvm_namespace",
    default="",
    metavar="NAMESPACE",
    help="Keep LVMNode objects there, as OpenEBS LVM LocalPV does, with every pool as a volume group. Needs the API "
    "server, and the kind's definition on it.",
)
@switch(
    "--rebuild",
    help="Let volumes leave a node that is cordoned, gone or out of service, and rebuild them where they are wanted "
    "(KEP-5925). Needs the API server.",
)
@kubeconfig_option
@click.option(
    "--faults", "faults_file", type=click.Path(path_type=Path, dir_okay=False), help="Faults to play: `tonnage fault`."
)
@feature_gates
@logging_options
def csi_driver(
    endpoint: str,
    nodes: tuple[str, ...],
    node_endpoint: str | None,
    pools: tuple[PerNode[tuple[int, ...]], ...],
    max_volumes: tuple[PerNode[int], ...],
    state_dir: Path,
    driver_name: str,
    pool_policy: Policy,
    report_pools: bool,
    one_number: str | None,
    lvm_namespace: str,
    rebuild: bool,
    kubeconfig_file: Path | None,
    faults_file: Path | None,
    gates: Gates,
    logging_format: str,
    verbosity: int,
) -> None:
    """Serve volumes from the pools of one or more nodes, over CSI.

    Volumes are folders and files below --state-dir, and need no privilege. Everything is kept through a kill. Prints
    "ready" once it listens and, with --rebuild, follows the cluster; SIGTERM and Ctrl-C stop it.

    It has no feature gate of its own, and takes the list so that one serves a whole cluster: what an API server cannot
    do, that says itself.
    """
    from tonnage.driver.driver import CsiDriverSettings

    twice = next((node for number, node in enumerate(nodes) if node in nodes[:number]), None)
    if twice is not None:
        raise click.UsageError(f'--node-id names "{twice}" twice')
    if node_endpoint is not None and PLACEHOLDER not in node_endpoint:
        raise click.UsageError(f"--node-endpoint is one for all nodes; write {PLACEHOLDER} where the node's id goes")
    settings = CsiDriverSettings(
        pools=pools_by_node(pools, nodes),
        name=driver_name,
        max_volumes=by_node("--max-volumes", max_volumes, nodes),
        policy=pool_policy,
        report_pools=report_pools,
        one_number=one_number or "",
        rebuild=rebuild,
    )
    start_logging(logging_format, verbosity)
    for warning in gates.warnings:
        say("warning", warning)
    connection = connection_of(kubeconfig_file) if rebuild or lvm_namespace else None
    faults = FaultFile(faults_file) if faults_file is not None else None
    endpoints = Endpoints(endpoint, node_endpoint or "")
    asyncio.run(_run(settings, state_dir, endpoints, connection, faults, lvm_namespace))


async def _run(
    settings: CsiDriverSettings,
    state_dir: Path,
    endpoints: Endpoints,
    connection: ServerConnection | None,
    faults: FaultFile | None,
    lvm_namespace: str,
) -> None:
    from tonnage.driver.driver import Driver

    clock, rng = SystemClock(), random.Random(secrets.randbits(64))
    driver = Driver(settings, state_dir, clock=clock, rng=rng, faults=faults)
    try:
        await run_until_signalled(_serve(driver, endpoints, connection, clock, lvm_namespace))
    finally:
        driver.close()


async def _serve(
    driver: Driver, endpoints: Endpoints, connection: ServerConnection | None, clock: SystemClock, lvm_namespace: str
) -> None:
    from tonnage.client.clients import Clients
    from tonnage.driver.lvm_nodes import LvmNodes
    from tonnage.driver.rebuilding import PROGRAM, RebuildController
    from tonnage.driver.serving import serve

    async with AsyncExitStack() as stack:
        rebuilding: RebuildController | None = None
        tasks = asyncio.TaskGroup()
        if connection is not None:
            clients = await stack.enter_async_context(Clients.connect(connection, clock=clock, user_agent=PROGRAM))
            await stack.enter_async_context(tasks)
            if lvm_namespace:
                tasks.create_task(LvmNodes(driver, clients.work, namespace=lvm_namespace, clock=clock).run())
            if driver.settings.rebuild:
                rebuilding = await stack.enter_async_context(
                    RebuildController(
                        driver, clients.work, clock=clock, identity=socket.gethostname(), telling=clients.telling
                    )
                )
        await stack.enter_async_context(
            serve(driver, endpoint=endpoints.cluster, node_endpoint_template=endpoints.node_template)
        )
        looking = asyncio.create_task(driver.unknown_watch.run())
        stack.callback(looking.cancel)
        if rebuilding is None:
            say_ready()
            await asyncio.Event().wait()
        else:
            await rebuilding.wait_synced()
            say_ready()
            await rebuilding.run()
