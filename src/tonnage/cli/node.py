"""`tonnage node`: the kubelets of one or many nodes, as far as storage needs them, until told to stop."""

from __future__ import annotations

import asyncio
import random
import secrets
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.options import feature_gates, logging_options, start_logging
from tonnage.cli.running import connection_of, kubeconfig_option, run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.csi.address import InvalidAddress, socket_path
from tonnage.faults import FaultFile
from tonnage.gates import Gates
from tonnage.node.settings import ATTACH_ERROR_GRACE_S
from tonnage.quantity import InvalidQuantity, Quantity

if TYPE_CHECKING:
    from tonnage.node.program import NodeProgram
    from tonnage.node.settings import NodeSettings


class CapacityType(click.ParamType[dict[str, str]]):
    """`cpu=8,memory=32Gi,pods=110`; what is not named keeps its default."""

    name = "capacity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        from tonnage.node.settings import DEFAULT_CAPACITY

        if isinstance(value, dict):
            return value
        found = dict(DEFAULT_CAPACITY)
        for part in filter(str.strip, str(value).split(",")):
            resource, equals, amount = (text.strip() for text in part.partition("="))
            if not equals or not resource:
                self.fail(f'"{part}" names no amount; write it like cpu=8,memory=32Gi,pods=110', param, ctx)
            try:
                Quantity.parse(amount, field=resource)
            except InvalidQuantity as exc:
                self.fail(exc.message, param, ctx)
            found[resource] = amount
        return found


class ListenType(click.ParamType[tuple[str, int]]):
    """`127.0.0.1:10250`, `:10250` or a port alone; 0 is none."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            self.fail(f'"{value}" is no address; write it like 127.0.0.1:10250', param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


@click.command("node")
@kubeconfig_option
@click.option("--node-name", "names", multiple=True, required=True, help="A node to be; may be given many times.")
@click.option(
    "--root-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where mounts are; each node has a folder of its name there, laid out as a kubelet's.",
)
@click.option(
    "--csi-address",
    "csi_addresses",
    multiple=True,
    help="A driver's socket, with {node} for the node's name; may be given for several drivers. A driver is installed "
    "while its socket is there.",
)
@click.option(
    "--capacity",
    type=CapacityType(),
    default="",
    metavar="cpu=8,memory=32Gi,pods=110",
    help="What each node offers; what is not named keeps its default.",
)
@click.option("--node-ip", default="127.0.0.1", show_default=True, help="The address of every node.")
@click.option(
    "--node-lease-duration-seconds",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    help="How long a node is believed to live without renewing its lease; it renews every quarter of that.",
)
@click.option(
    "--attach-error-grace-seconds",
    type=click.FloatRange(min=0.0),
    default=ATTACH_ERROR_GRACE_S,
    show_default=True,
    help="How long an attach must have failed for want of slots before its pod fails (KEP-4876). The limit in CSINode "
    "is corrected at once.",
)
@click.option(
    "--csi-timeout-seconds",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    help="How long one call to a driver may take.",
)
@click.option(
    "--faults",
    "faults_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Faults to play, written by `tonnage fault`: node-stopped, node-slow, node-removed.",
)
@click.option(
    "--metrics-address",
    type=ListenType(),
    default="0",
    show_default=True,
    help="Where /metrics, /healthz and /readyz are served; 0 is nowhere.",
)
@feature_gates
@logging_options
def node(
    kubeconfig_file: Path | None,
    names: tuple[str, ...],
    root_dir: Path,
    csi_addresses: tuple[str, ...],
    capacity: dict[str, str],
    node_ip: str,
    node_lease_duration_seconds: int,
    attach_error_grace_seconds: float,
    csi_timeout_seconds: float,
    faults_file: Path | None,
    metrics_address: tuple[str, int],
    gates: Gates,
    logging_format: str,
    verbosity: int,
) -> None:
    """Be nodes: register them, keep their attach limits true, mount the volumes of their pods over CSI.

    Containers are not run: a pod whose volumes are mounted is Running until it is deleted, and one of a Job until its
    annotations (tonnage.dev/run-seconds, tonnage.dev/exit-code) or plain commands say; else for a second. Prints
    "ready" once every node is registered; SIGTERM and Ctrl-C stop it, and mounts stay for the next start.
    """
    from tonnage.node.settings import NodeSettings

    start_logging(logging_format, verbosity)
    if len(set(names)) != len(names):
        raise click.UsageError("--node-name: a node is named more than once")
    settings = NodeSettings(
        names=names,
        root_dir=root_dir.absolute(),
        csi_addresses=csi_addresses,
        capacity=capacity,
        node_ip=node_ip,
        lease_duration_s=node_lease_duration_seconds,
        renew_interval_s=node_lease_duration_seconds / 4,
        attach_error_grace_s=attach_error_grace_seconds,
        csi_timeout_s=csi_timeout_seconds,
        gates=gates,
    )
    for template in csi_addresses:
        for name in names:
            try:
                socket_path(settings.address(template, name))
            except InvalidAddress as exc:
                raise click.UsageError(f"--csi-address: {exc.message}") from exc
    asyncio.run(_run(settings, kubeconfig_file, faults_file, metrics_address))


async def _run(
    settings: NodeSettings, kubeconfig_file: Path | None, faults_file: Path | None, listen: tuple[str, int]
) -> None:
    from tonnage import metrics
    from tonnage.client.clients import Clients
    from tonnage.client.metrics import RestClientMetrics
    from tonnage.node.metrics import NodeMetrics
    from tonnage.node.program import NodeProgram
    from tonnage.node.settings import PROGRAM

    clock, registry = SystemClock(), metrics.new_registry()
    connection = connection_of(kubeconfig_file)
    counted = RestClientMetrics(registry).of(connection.cluster.server)
    clients = Clients.connect(connection, clock=clock, user_agent=PROGRAM, on_request=counted)
    program = NodeProgram(
        clients.work,
        settings,
        clock=clock,
        rng=random.Random(secrets.randbits(64)),
        metrics=NodeMetrics(registry),
        faults=None if faults_file is None else FaultFile(faults_file),
        telling=clients.telling,
        leases=clients.leases,
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(clients)
        host, port = listen
        if port:
            # Loading a web server takes longer than all the rest; whoever serves no metrics need not wait for it.
            from tonnage import health

            endpoints = health.served(
                host=host,
                port=port,
                tls=None,
                registry=registry,
                is_healthy=lambda: True,
                is_ready=lambda: program.is_ready,
            )
            await stack.enter_async_context(endpoints)
        await stack.enter_async_context(program)
        await run_until_signalled(_be(program))


async def _be(program: NodeProgram) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(program.run())
        await program.wait_ready()
        say_ready()
