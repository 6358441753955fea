"""`tonnage up`: a whole Kubernetes cluster with storage on one machine, until it is told to stop."""

from __future__ import annotations

import asyncio
import random
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.driver.pool_options import COUNT, POOLS, by_node, pools_by_node
from tonnage.cli.options import BYTES, DURATION, feature_gates, logging_options, start_logging
from tonnage.cli.output import echo, say, status
from tonnage.cli.running import run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.driver.node_pools import PerNode
from tonnage.gates import Gates
from tonnage.node.settings import ATTACH_ERROR_GRACE_S
from tonnage.plane.settings import MAX_CLASSES, MAX_NODES, PlaneSettings

if TYPE_CHECKING:
    from tonnage.objects.document import Doc


@click.command()
@click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where everything is kept."
)
@click.option("--nodes", type=click.IntRange(1, MAX_NODES), help="How many nodes.  [default: as before, else 3]")
@click.option(
    "--pools",
    type=POOLS,
    multiple=True,
    metavar="[NODE=]LIST",
    help="Pools of each node, as 3x100Gi or 100Gi,50Gi.  [default: as before, else 3x100Gi]",
)
@click.option(
    "--max-volumes",
    type=COUNT,
    multiple=True,
    metavar="[NODE=]N",
    help="Volumes that may be attached to a node.  [default: as before, else 16]",
)
@click.option(
    "--pool-policy",
    type=click.Choice(["best-fit", "most-free", "first-fit", "random"]),
    help="How the driver picks a pool; its CSIDriver says so (tonnage.dev/pool-policy).  "
    "[default: as before, else best-fit]",
)
@click.option(
    "--one-number",
    type=click.Choice(["pools", "sum", "largest"]),
    help="Play a driver of today: it reports the sum of a node's pools, or the largest, and keeps the pools themselves "
    "in LVMNode objects of namespace openebs (bring the definition by -f); `pools` reports them all.  "
    "[default: as before, else pools]",
)
@click.option(
    "--classes",
    type=click.IntRange(1, MAX_CLASSES),
    help="StorageClasses pools, pools-2, … that draw from the same pools and say so (tonnage.dev/capacity-group).  "
    "[default: as before, else 1]",
)
@click.option("-f", "--filename", "files", multiple=True, help="Manifests to apply before the nodes come.")
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address that the API server listens on.")
@click.option(
    "--secure-port", type=click.IntRange(0, 65535), default=6443, show_default=True, help="0 takes a free one."
)
@click.option(
    "--scheduler-config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A KubeSchedulerConfiguration, for modes of reservation, profiles and weights.",
)
@click.option(
    "--event-ttl", "event_ttl_s", type=DURATION, default="1h", show_default=True, help="How long events are kept."
)
@click.option(
    "--attach-error-grace-seconds",
    "attach_error_grace_s",
    type=click.FloatRange(min=0.0),
    default=ATTACH_ERROR_GRACE_S,
    show_default=True,
    help="How long an attach must have failed for want of slots before its pod fails (KEP-4876).",
)
@click.option(
    "--audit-log-path",
    metavar="FILE",
    default="",
    help="Write a line for every request to the API server there: who, what, and the answer's code. Off by default.",
)
@click.option(
    "--max-log-size",
    "max_log_bytes",
    type=BYTES,
    default="10Mi",
    show_default=True,
    help="A program's log is begun anew at this size; the one before it is kept.",
)
@click.option("--dashboard", is_flag=True, help="Serve the dashboard as well, on loopback, and print its address.")
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    help="Where; 0 takes a free one.  [default: 8080, or a free one when that is taken]",
)
@feature_gates
@logging_options
def up(
    data_dir: Path,
    nodes: int | None,
    pools: tuple[PerNode[tuple[int, ...]], ...],
    max_volumes: tuple[PerNode[int], ...],
    pool_policy: str | None,
    one_number: str | None,
    classes: int | None,
    files: tuple[str, ...],
    bind: str,
    secure_port: int,
    scheduler_config: Path | None,
    event_ttl_s: float,
    attach_error_grace_s: float,
    audit_log_path: str,
    max_log_bytes: int,
    dashboard: bool,
    dashboard_port: int | None,
    gates: Gates,
    logging_format: str,
    verbosity: int,
) -> None:
    """Run a cluster: API server, controllers, scheduler, provisioner, nodes, and a CSI driver with pools on each.

    Prints "ready https://…" once all nodes are Ready and their capacity is known. kubectl works with DIR/kubeconfig.
    Its programs serve health, metrics and debug pages on free ports of loopback; DIR/endpoints.json and `tonnage
    status --data-dir DIR` say where. With --dashboard a second line, "dashboard http://…/#token=…", is the address of
    a web page of the cluster; it stays the same from start to start while its port is free. Ctrl-C or SIGTERM stops it
    cleanly; the next start on the same folder goes on where it was.
    """
    if dashboard_port is not None and not dashboard:
        raise click.UsageError("--dashboard-port goes with --dashboard")
    start_logging(logging_format, verbosity)
    for warning in gates.warnings:
        say("warning", warning)
    settings = PlaneSettings(
        data_dir=data_dir,
        nodes=nodes,
        pools=tuple(each.text for each in pools) or None,
        max_volumes=tuple(each.text for each in max_volumes) or None,
        pool_policy=pool_policy,
        one_number=one_number,
        classes=classes,
        bind=bind,
        secure_port=secure_port,
        gates=gates,
        scheduler_config=scheduler_config,
        verbosity=verbosity,
        event_ttl_s=event_ttl_s,
        attach_error_grace_s=attach_error_grace_s,
        audit_log_path=audit_log_path,
        max_log_bytes=max_log_bytes,
        dashboard=dashboard,
        dashboard_port=dashboard_port,
    )
    _check(settings)
    asyncio.run(run_until_signalled(_run(settings, _manifests(files))))


def _manifests(files: tuple[str, ...]) -> list[Doc]:
    if not files:
        return []
    from tonnage.whatif.manifests import documents_in

    return [doc for _, _, doc in documents_in(files)]


def _check(settings: PlaneSettings) -> None:
    """Raise UsageError for pools and limits of nodes that are not there; what was kept is read with what is new."""
    asked = settings.resolved()
    nodes = settings.node_names(asked)
    pools_by_node([POOLS.convert(text, None, None) for text in asked["pools"]], nodes)
    by_node("--max-volumes", [COUNT.convert(text, None, None) for text in asked["max_volumes"]], nodes)


async def _run(settings: PlaneSettings, manifests: list[Doc]) -> None:
    from tonnage.plane.cluster import Plane

    with status("loading") as show:
        plane = Plane(
            settings,
            clock=SystemClock(),
            rng=random.Random(secrets.randbits(64)),
            manifests=manifests,
            progress=show,
        )
        await plane.__aenter__()
    try:
        echo(f"kubeconfig {settings.kubeconfig}", err=True)
        say_ready(plane.url)
        if plane.dashboard_url:
            echo(f"dashboard {plane.dashboard_url}")
        await plane.run()
    finally:
        await plane.__aexit__(None, None, None)
