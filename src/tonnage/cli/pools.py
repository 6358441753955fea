"""`tonnage pools`: keep annotations with the pools of drivers that do not report them, until stopped."""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.completion import driver_names
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.flags.go_flags import GoCommand
from tonnage.cli.output import Flags, Parsed, echo, from_flags, logging_options
from tonnage.cli.running import endpoint_of, kubeconfig_option, run_until_signalled, say_ready, sidecar, sidecar_options
from tonnage.objects.size_rules import SizeRules
from tonnage.objects.storage_v1 import POOL_POLICIES
from tonnage.pools.settings import PROGRAM, KeepFree, PoolsSettings
from tonnage.pools.sources import OF_DRIVERS

if TYPE_CHECKING:
    from tonnage.pools.class_pools import PoolSource
    from tonnage.pools.program import Command

_SOURCES = (*(pool_source.name for pool_source in OF_DRIVERS), "nodes", "command")


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as exc:
        raise ValueError(f'"{text}" cannot be split into words: {exc}') from exc


def _size_rules(text: str) -> str:
    SizeRules.parse(text)
    return text


@click.command("pools", cls=GoCommand)
@kubeconfig_option
@flag_table(
    f"""
    --source SOURCE <SOURCE>  Where to read the pools from: {", ".join(_SOURCES)}; not needed when --driver names a
        driver that has a source.
    --driver as drivers DRIVER... <NAME>  CSI driver whose StorageClasses get pools; may be repeated. [default: the
        source's own driver]
    --source-namespace TEXT=  Namespace of the objects in which the driver publishes pools. [default: any namespace]
    --annotation TEXT= <KEY>  With --source nodes: annotation of nodes that holds the pools; {{class}} stands for the
        class's name.
    --label TEXT= <KEY>  With --source nodes: label of nodes that holds the pools, with _ between amounts.
    --command WORDS= <'PROGRAM ARGS'>  With --source command: a program that prints the node's pools as JSON.
    --interval DURATION=30s  How often to run --command.
    --command-timeout DURATION=10s  How long one run of --command may take.
    --node-name TEXT= $NODE_NAME  Name of the node whose pools --command prints.
    --keep-free PART=0 <1Gi|2%>  Part of each pool to hold back for overhead: it is not published.
    --pool-policy as policy POLICY  How the driver picks a pool. [default: what is known of the driver]
    --set-pool-policy as sets_policy SWITCH=true  Write the policy to the StorageClasses (annotation
        tonnage.dev/pool-policy).
    --size-rules RULES= <RULES>  Which sizes the driver makes, as in tonnage.dev/size-rules. [default: what is known of
        the driver]
    --set-size-rules as sets_sizes SWITCH=true  Write these rules to the StorageClasses (tonnage.dev/size-rules); a
        value that somebody else wrote stays.
    --set-capacity-groups as sets_groups SWITCH=false  Mark StorageClasses that draw from the same disks (annotation
        tonnage.dev/capacity-group).
    --create-objects as creates_objects SWITCH=false  Create CSIStorageCapacity objects for classes that have none
        because their driver publishes no capacity, and have them checked (annotation tonnage.dev/check-capacity).
    --objects-namespace as namespace TEXT=kube-system ($NAMESPACE)  Namespace of the created objects.
    --drop-after DURATION=5m  How long to keep pools, marked as old, after their source has stopped reporting.
    --remove  Remove everything that this command wrote to the cluster, and exit.
    --leader-elect SWITCH=false  Work only while holding the lease, so that several copies can run.
    --leader-elect-namespace TEXT=kube-system ($NAMESPACE)  Namespace of the lease.
    """,
    SOURCE=click.Choice(_SOURCES),
    DRIVER=driver_names,
    WORDS=Parsed("words", _words),
    PART=Parsed("part", KeepFree.parse),
    POLICY=click.Choice(POOL_POLICIES),
    RULES=Parsed("rules", _size_rules),
)
@sidecar_options("leader-elect", retry_period="2s", qps=20.0, burst=40)
@logging_options
def pools(**flags: Any) -> None:
    """Reads the pools from where the driver publishes them, and keeps them in the annotation
    tonnage.dev/available-capacities of the CSIStorageCapacity objects of the driver's classes; what the driver's
    provisioner writes there stays as it is. Prints "ready" once it has read the cluster. SIGTERM and Ctrl-C stop it;
    the annotations stay until --remove removes them.
    """
    source, settings, command = told_by(flags)
    asyncio.run(_run(flags, source, settings, command))


def told_by(flags: Flags) -> tuple[PoolSource, PoolsSettings, Command | None]:
    from tonnage.pools.program import Command

    source = _source_of(flags)
    drivers = flags["drivers"] or source.drivers
    if not drivers:
        raise click.UsageError(f"--source {source.name} works with any driver: name yours with --driver")
    drop_after_s = max(flags["drop_after_s"], 1.0)
    settings = from_flags(
        PoolsSettings, flags, drivers=drivers, policy=flags["policy"] or "", drop_after_s=drop_after_s
    )
    if source.name != "command":
        return source, settings, None
    return source, settings, Command(flags["command"], max(flags["interval_s"], 1.0), flags["command_timeout_s"])


def _source_of(flags: Flags) -> PoolSource:
    from tonnage.pools.sources import source_of
    from tonnage.pools.sources.command import CommandPools
    from tonnage.pools.sources.nodes import NodeTexts

    name, drivers = flags["source"], flags["drivers"]
    if name is None:
        found = {each.name: each for driver in drivers if (each := source_of(driver)) is not None}
        if len(found) != 1:
            known = ", ".join(driver for pool_source in OF_DRIVERS for driver in pool_source.drivers)
            raise click.UsageError(
                f"name the place of the pools with --source, or one of these drivers with --driver: {known}"
            )
        (name,) = found
    for flag, owner in (("annotation", "nodes"), ("label", "nodes"), ("command", "command")):
        if flags[flag] and name != owner:
            raise click.UsageError(f"--{flag} belongs to --source {owner}, not to {name}")
    if name == "nodes":
        if bool(flags["annotation"]) == bool(flags["label"]):
            raise click.UsageError("--source nodes needs one of --annotation and --label")
        key = flags["annotation"] or flags["label"]
        return NodeTexts(key, is_label=bool(flags["label"]), drivers=drivers)
    if name == "command":
        if not flags["command"]:
            raise click.UsageError("--source command needs --command")
        if not flags["node_name"]:
            raise click.UsageError("--source command needs the node's name: set NODE_NAME or --node-name")
        return CommandPools(flags["node_name"], drivers)
    return next(pool_source for pool_source in OF_DRIVERS if pool_source.name == name)


async def _run(flags: Flags, source: PoolSource, settings: PoolsSettings, command: Command | None) -> None:
    from tonnage.pools.program import PoolsProgram

    endpoint, removes = endpoint_of(flags["http_endpoint"]), flags["remove"]
    is_elected = flags["leader_elect"] and not removes
    async with sidecar(PROGRAM, flags, "leader_elect", is_elected=is_elected) as running:
        runtime, pod_name = running.runtime, os.environ.get("POD_NAME", "")
        program = await running.enter(
            PoolsProgram(
                runtime.client,
                source,
                settings,
                clock=runtime.clock,
                rng=runtime.rng,
                registry=runtime.registry,
                command=command,
                leadership=runtime.leadership,
                pod_name=pod_name,
            )
        )
        if removes:
            removed = await program.remove()
            echo(
                f"{removed} capacity objects had pools from this command: the pools were removed, or the "
                "objects deleted",
                err=True,
            )
            return
        await running.serve(endpoint, is_ready=lambda: program.is_synced)

        async def work() -> None:
            await program.wait_synced()
            say_ready()
            await running.led(program.run, f"{flags['leader_elect_namespace']}/{PROGRAM}-{source.name}")

        await run_until_signalled(work())
