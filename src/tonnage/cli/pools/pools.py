"""`tonnage pools`: pools of drivers that do not report them, kept true as annotations, until it is told to stop."""

from __future__ import annotations

import asyncio
import random
import secrets
import shlex
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from tonnage.cli.completion.values import driver_names
from tonnage.cli.flags.go_flags import GoCommand, switch
from tonnage.cli.options import DURATION, logging_options, start_logging
from tonnage.cli.output import echo
from tonnage.cli.provisioning.provisioner_flags import endpoint_of
from tonnage.cli.running import connection_of, kubeconfig_option, run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.objects.storage_v1 import POOL_POLICIES
from tonnage.pools.sources import OF_DRIVERS

if TYPE_CHECKING:
    from tonnage.client.leader import LeaderElector
    from tonnage.pools.class_pools import PoolSource
    from tonnage.pools.program import Command, PoolsProgram
    from tonnage.pools.settings import PoolsSettings

_SOURCES = (*(each.name for each in OF_DRIVERS), "nodes", "command")


class PoolsFlags(TypedDict):
    """Every flag by its name, as click hands them over; durations are in seconds."""

    kubeconfig_file: Path | None
    source: str | None
    drivers: tuple[str, ...]
    source_namespace: str
    annotation: str
    label: str
    command: str
    interval: float
    command_timeout: float
    node_name: str
    keep_free: str
    pool_policy: str
    set_pool_policy: bool
    set_capacity_groups: bool
    drop_after: float
    remove: bool
    leader_elect: bool
    leader_elect_namespace: str
    leader_elect_lease_duration: float
    leader_elect_renew_deadline: float
    leader_elect_retry_period: float
    kube_api_qps: float
    kube_api_burst: int
    http_endpoint: str
    logging_format: str
    verbosity: int


@click.command("pools", cls=GoCommand)
@kubeconfig_option
@click.option(
    "--source",
    type=click.Choice(_SOURCES),
    help="Where the pools are told; may be left out where --driver says it.",
)
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    metavar="NAME",
    shell_complete=driver_names,
    help="Whose classes: the provisioner of StorageClasses; may be repeated.  [default: the source's own]",
)
@click.option("--source-namespace", default="", help="Where the driver's objects are.  [default: any namespace]")
@click.option("--annotation", default="", metavar="KEY", help="With --source nodes; {class} stands for a class's name.")
@click.option("--label", default="", metavar="KEY", help="The same for a label, with _ between amounts.")
@click.option("--command", default="", metavar="'PROGRAM ARGS'", help="With --source command: prints pools as JSON.")
@click.option("--interval", type=DURATION, default="30s", show_default=True, help="How often it is run.")
@click.option("--command-timeout", type=DURATION, default="10s", show_default=True, help="How long one run may take.")
@click.option(
    "--node-name", envvar="NODE_NAME", default="", show_envvar=True, help="The node that --command tells about."
)
@click.option(
    "--keep-free", default="0", show_default=True, metavar="1Gi|2%", help="What of each pool is not told, for overhead."
)
@click.option(
    "--pool-policy", type=click.Choice(POOL_POLICIES), help="How the driver chooses a pool.  [default: what is known]"
)
@switch(
    "--set-pool-policy",
    default=True,
    help="Say so on the StorageClasses (tonnage.dev/pool-policy).",
)
@switch(
    "--set-capacity-groups",
    default=False,
    help="Say on StorageClasses which of them draw from the same disks (tonnage.dev/capacity-group).",
)
@click.option(
    "--drop-after",
    type=DURATION,
    default="5m",
    show_default=True,
    help="How long the pools of a source that has fallen silent are kept, marked.",
)
@click.option("--remove", is_flag=True, help="Take away all that was written, and end.")
@switch("--leader-elect", help="Act only while holding the lease.")
@click.option(
    "--leader-elect-namespace", envvar="NAMESPACE", default="kube-system", show_default=True, help="Where the lease is."
)
@click.option(
    "--leader-elect-lease-duration", type=DURATION, default="15s", show_default=True, help="How long it lasts."
)
@click.option(
    "--leader-elect-renew-deadline", type=DURATION, default="10s", show_default=True, help="When a leader gives up."
)
@click.option(
    "--leader-elect-retry-period", type=DURATION, default="2s", show_default=True, help="How often it is tried."
)
@click.option(
    "--kube-api-qps",
    type=click.FloatRange(min=0.0),
    default=20.0,
    show_default=True,
    help="Requests a second; 0 leaves it to the server's fairness.",
)
@click.option("--kube-api-burst", type=click.IntRange(min=1), default=40, show_default=True, help="The same at once.")
@click.option(
    "--http-endpoint", default="", metavar="HOST:PORT", help="Where health and metrics are served, if at all."
)
@logging_options
def pools(**flags: Unpack[PoolsFlags]) -> None:
    """Tell the pools of drivers that report one number, for as long as it runs.

    Reads what a driver with several pools on a node publishes elsewhere, and keeps it true as the annotation
    tonnage.dev/available-capacities on the CSIStorageCapacity objects of its classes, beside what the driver's
    provisioner writes. Prints "ready" once the cluster is known; SIGTERM and Ctrl-C stop it, and what it wrote stays:
    --remove takes it away.
    """
    start_logging(flags["logging_format"], flags["verbosity"])
    source, settings, command = told_by(flags)
    asyncio.run(_run(flags, source, settings, command))


def told_by(flags: PoolsFlags) -> tuple[PoolSource, PoolsSettings, Command | None]:
    """What the flags say. Raises UsageError."""
    from tonnage.pools.program import Command
    from tonnage.pools.settings import InvalidKeepFree, KeepFree, PoolsSettings

    source = _source_of(flags)
    drivers = flags["drivers"] or source.drivers
    if not drivers:
        raise click.UsageError(f"--source {source.name} is for any driver: say which by --driver")
    try:
        keep_free = KeepFree.parse(flags["keep_free"])
    except InvalidKeepFree as exc:
        raise click.BadParameter(exc.message, param_hint="--keep-free") from exc
    settings = PoolsSettings(
        drivers=drivers,
        source_namespace=flags["source_namespace"],
        keep_free=keep_free,
        sets_policy=flags["set_pool_policy"],
        sets_groups=flags["set_capacity_groups"],
        policy=flags["pool_policy"] or "",
        drop_after_s=max(flags["drop_after"], 1.0),
    )
    command = None
    if source.name == "command":
        words = _words(flags["command"])
        command = Command(words, max(flags["interval"], 1.0), flags["command_timeout"])
    return source, settings, command


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as exc:
        raise click.BadParameter(f'"{text}" cannot be split into words: {exc}', param_hint="--command") from exc


def _source_of(flags: PoolsFlags) -> PoolSource:
    from tonnage.pools.sources import source_of
    from tonnage.pools.sources.command import CommandPools
    from tonnage.pools.sources.nodes import NodeTexts

    name, drivers = flags["source"], flags["drivers"]
    if name is None:
        found = {each.name: each for driver in drivers if (each := source_of(driver)) is not None}
        if len(found) != 1:
            known = ", ".join(driver for each in OF_DRIVERS for driver in each.drivers)
            raise click.UsageError(f"say where the pools are told by --source, or name a --driver of these: {known}")
        (name,) = found
    own = {
        "nodes": bool(flags["annotation"] or flags["label"]),
        "command": bool(flags["command"]),
    }
    for other, is_told in own.items():
        if is_told and name != other:
            raise click.UsageError(f"--{_flag_of(other, flags)} belongs to --source {other}, not to {name}")
    if name == "nodes":
        if bool(flags["annotation"]) == bool(flags["label"]):
            raise click.UsageError("--source nodes needs one of --annotation and --label")
        key = flags["annotation"] or flags["label"]
        return NodeTexts(key, is_label=bool(flags["label"]), drivers=drivers)
    if name == "command":
        if not _words(flags["command"]):
            raise click.UsageError("--source command needs --command")
        if not flags["node_name"]:
            raise click.UsageError("--source command needs the node's name: set NODE_NAME or --node-name")
        return CommandPools(flags["node_name"], drivers)
    return next(each for each in OF_DRIVERS if each.name == name)


def _flag_of(source: str, flags: PoolsFlags) -> str:
    return "command" if source == "command" else "annotation" if flags["annotation"] else "label"


async def _run(flags: PoolsFlags, source: PoolSource, settings: PoolsSettings, command: Command | None) -> None:
    from tonnage.client.clients import Clients, lease_timeout_s
    from tonnage.client.leader import LeaderElector, new_identity
    from tonnage.client.leadership import Leadership
    from tonnage.client.metrics import RestClientMetrics, show_leadership
    from tonnage.health import served
    from tonnage.metrics import new_registry
    from tonnage.pools.program import PoolsProgram
    from tonnage.pools.settings import PROGRAM

    clock, rng, registry = SystemClock(), random.Random(secrets.randbits(64)), new_registry()
    identity = new_identity()
    endpoint = endpoint_of(flags["http_endpoint"], "")
    leadership = Leadership(
        identity,
        clock=clock,
        lease_duration_s=flags["leader_elect_lease_duration"],
        renew_deadline_s=flags["leader_elect_renew_deadline"],
    )
    guard = leadership if flags["leader_elect"] and not flags["remove"] else None
    connection = connection_of(flags["kubeconfig_file"])
    async with AsyncExitStack() as stack:
        clients = await stack.enter_async_context(
            Clients.connect(
                connection,
                clock=clock,
                user_agent=PROGRAM,
                on_request=RestClientMetrics(registry).of(connection.cluster.server),
                qps=flags["kube_api_qps"],
                burst=flags["kube_api_burst"],
                guard=guard,
                lease_timeout_s=lease_timeout_s(leadership.renew_deadline_s),
            )
        )
        program = await stack.enter_async_context(
            PoolsProgram(
                clients.work,
                source,
                settings,
                clock=clock,
                rng=rng,
                registry=registry,
                command=command,
                leadership=guard,
            )
        )
        if flags["remove"]:
            removed = await program.remove()
            echo(f"{removed} capacity objects had pools from here, and have none now", err=True)
            return
        elector = LeaderElector(
            clients.leases,
            f"{flags['leader_elect_namespace']}/{PROGRAM}-{source.name}",
            identity,
            leadership=leadership,
            retry_period_s=flags["leader_elect_retry_period"],
        )
        show_leadership(registry, lambda: () if guard is None else (elector,))
        if endpoint is not None:
            address = await stack.enter_async_context(
                served(
                    host=endpoint[0],
                    port=endpoint[1],
                    tls=None,
                    registry=registry,
                    is_healthy=elector.is_healthy,
                    is_ready=lambda: program.is_synced,
                )
            )
            echo(f"serving health and metrics at {address}", err=True)
        await run_until_signalled(_work(program, elector if guard is not None else None))


async def _work(program: PoolsProgram, elector: LeaderElector | None) -> None:
    await program.wait_synced()
    say_ready()
    await (elector.run(program.run) if elector is not None else program.run())
