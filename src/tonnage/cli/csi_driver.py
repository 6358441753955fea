"""`tonnage csi-driver`: run the reference CSI driver for one or several nodes until it is stopped.

`tonnage csi-driver-quarantine`: show or move contents of its state folder that have no record.
"""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tonnage.cli import output as printing
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.flags.go_flags import GoCommand
from tonnage.cli.output import Flags, Parsed, echo, feature_gates, from_flags, logging_options, output_option, say_all
from tonnage.cli.running import connected, connection_of, kubeconfig_option, run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.csi.address import InvalidAddress, socket_path
from tonnage.driver import DRIVER_NAME, node_pools
from tonnage.driver.state.folder import QUARANTINE, StateFolder, UnknownContents, quarantine, unknown_contents
from tonnage.driver.state.records import read_records
from tonnage.errors import TonnageError
from tonnage.faults import FaultFile
from tonnage.printable import printable
from tonnage.quantity import Quantity

if TYPE_CHECKING:
    from tonnage.client.config.connection import ServerConnection
    from tonnage.driver.driver import CsiDriverSettings, Driver
    from tonnage.driver.rebuilding import RebuildController

PLACEHOLDER = "{node}"
_DRIVER_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")


def _endpoint(text: str) -> str:
    try:
        socket_path(text)
    except InvalidAddress as exc:
        raise ValueError(f"{exc.message}; {exc.hint}") from exc
    return text


def _driver_name(text: str) -> str:
    """Check a name by the rules of CSI's GetPluginInfo; kubelets use it in paths and labels. Raises ValueError."""
    if not _DRIVER_NAME.fullmatch(text):
        raise ValueError(
            f'"{text}" is not a name for a CSI driver: at most 63 letters, digits, dots and dashes, with a letter or '
            f'digit at both ends; write it like "{DRIVER_NAME}"'
        )
    return text


ENDPOINT: Final = Parsed("address", _endpoint)


@click.command("csi-driver", cls=GoCommand)
@flag_table(
    f"""
    --endpoint ENDPOINT!  Address to listen on, such as unix:///run/csi.sock; with one node and no --node-endpoint,
        also for that node's calls.
    --node-id as nodes TEXT...!  Node of this driver; may be repeated.
    --node-endpoint ENDPOINT  Address to listen on for the calls of each node, such as
        unix:///run/{PLACEHOLDER}/csi.sock.
    --pools POOLS... <[NODE=]SIZES>  Pools of every node, or of one: 3x100Gi, or 100Gi,50Gi, or node-2=2x50Gi; may be
        repeated.
    --max-volumes COUNT... <[NODE=]N>  Attach limit of every node, or of one; 0 is no limit; may be repeated.
    --state-dir FOLDER!  Folder for volumes and their records.
    --driver-name NAME={DRIVER_NAME}  Name of the driver.
    --pool-policy POLICY=best-fit  How to pick the pool of a new volume.
    --report-pools SWITCH=true  Report the free bytes of each pool (KEP-5925), or only their sum, as drivers did
        before.
    --one-number sum|largest  Report only this one number, as drivers do that have several pools but cannot report
        them.
    --lvm-nodes as lvm_namespace TEXT= <NAMESPACE>  Keep LVMNode objects in this namespace, as OpenEBS LVM LocalPV
        does, with every pool as a volume group. Needs the API server and the CustomResourceDefinition.
    --rebuild SWITCH=false  Let volumes leave a node that is cordoned, gone or out of service, and rebuild them where
        they are wanted (KEP-5925). Needs the API server.
    """,
    ENDPOINT=ENDPOINT,
    NAME=Parsed("name", _driver_name),
    POLICY=click.Choice(node_pools.POLICIES),
)
@kubeconfig_option
@flag_table("--faults as faults_file FILE  File of faults to play, written by `tonnage fault`.")
@feature_gates
@logging_options
def csi_driver(endpoint: str, nodes: tuple[str, ...], node_endpoint: str | None, **flags: Any) -> None:
    """Volumes are folders and files below --state-dir, and need no privilege. Nothing is lost when it is killed. Prints
    "ready" once it listens and, with --rebuild, follows the cluster; SIGTERM and Ctrl-C stop it.

    It has no feature gates of its own; it accepts --feature-gates so that all programs of a cluster can be given the
    same list.
    """
    from tonnage.driver.driver import CsiDriverSettings

    twice = next((node for number, node in enumerate(nodes) if node in nodes[:number]), None)
    if twice is not None:
        raise click.UsageError(f'--node-id names "{twice}" twice')
    if node_endpoint is not None and PLACEHOLDER not in node_endpoint:
        raise click.UsageError(
            f"--node-endpoint gives all nodes one address; write {PLACEHOLDER} where the node's id goes"
        )
    with printing.wrong_usage():
        pools = node_pools.pools_by_node(flags["pools"], nodes)
        max_volumes = node_pools.by_node("--max-volumes", flags["max_volumes"], nodes)
    named = {"name": flags["driver_name"], "policy": flags["pool_policy"], "one_number": flags["one_number"] or ""}
    settings = from_flags(CsiDriverSettings, flags, pools=pools, max_volumes=max_volumes, **named)
    say_all("warning", flags["gates"].warnings)
    asyncio.run(_run(settings, endpoint, node_endpoint or "", flags))


async def _run(settings: CsiDriverSettings, endpoint: str, node_endpoint: str, flags: Flags) -> None:
    from tonnage.driver.driver import Driver

    needs_server = flags["rebuild"] or flags["lvm_namespace"]
    connection = connection_of(flags["kubeconfig_file"]) if needs_server else None
    faults = FaultFile(flags["faults_file"]) if flags["faults_file"] is not None else None
    clock, rng = SystemClock(), random.Random(secrets.randbits(64))
    driver = Driver(settings, flags["state_dir"], clock=clock, rng=rng, faults=faults)
    try:
        await run_until_signalled(_serve(driver, endpoint, node_endpoint, connection, flags["lvm_namespace"]))
    finally:
        driver.close()


async def _serve(
    driver: Driver, endpoint: str, node_endpoint: str, connection: ServerConnection | None, lvm_namespace: str
) -> None:
    from tonnage.driver.lvm_nodes import LvmNodes
    from tonnage.driver.rebuilding import PROGRAM, RebuildController
    from tonnage.driver.serving import serve

    async with AsyncExitStack() as stack:
        rebuilding: RebuildController | None = None
        if connection is not None:
            running = await stack.enter_async_context(connected(PROGRAM, connection))
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            if lvm_namespace:
                tasks.create_task(
                    LvmNodes(driver, running.runtime.client, namespace=lvm_namespace, clock=running.runtime.clock).run()
                )
            if driver.settings.rebuild:
                runtime = replace(running.runtime, identity=socket.gethostname())
                rebuilding = await stack.enter_async_context(RebuildController(runtime, driver))
        await stack.enter_async_context(serve(driver, endpoint=endpoint, node_endpoint_template=node_endpoint))
        looking = asyncio.create_task(driver.watch_unknown())
        stack.callback(looking.cancel)
        if rebuilding is None:
            say_ready()
            await asyncio.Event().wait()
        else:
            await rebuilding.wait_synced()
            say_ready()
            await rebuilding.run()


@click.command("csi-driver-quarantine")
@flag_table("""
    --state-dir FOLDER!  State folder of a `tonnage csi-driver` that is not running; of a `tonnage up` cluster it is
        DIR/driver.
""")
@click.argument("names", nargs=-1, metavar="[NODE/pool-N/NAME]...")
@click.option("--all", "everything", is_flag=True, help="Move everything that has no record.")
@output_option("table", "json")
def csi_driver_quarantine(state_dir: Path, names: tuple[str, ...], everything: bool, output: str) -> None:
    """The driver keeps contents without a record and counts them as used, since they may be data. Contents named here,
    or all with --all, are moved to STATE/.quarantine under the same path: nothing is deleted, and their space in the
    pool is free again. To use such contents again, stop the driver, move them back and restore their record from a
    backup.
    """
    if names and everything:
        raise click.UsageError("give names, or --all, not both")
    if not state_dir.is_dir():
        raise TonnageError(f"there is no state folder {state_dir}", hint="name the --state-dir of the driver")
    folder = StateFolder(state_dir)
    try:
        folder.recover(read_records(folder.path))  # first finish interrupted calls: what they left has an owner
        found = unknown_contents(folder.path, in_use=False)
        chosen = found if everything else [_named(folder.path, found, name) for name in dict.fromkeys(names)]
        moved = dict(_moved(folder, chosen))
    finally:
        folder.close()
    if output == "json":
        printing.written_json([_document(each, moved.get(each.path)) for each in found])
    else:
        printing.written(lambda: echo("\n".join(_lines(found, moved))))


def _named(state_dir: Path, found: Sequence[UnknownContents], name: str) -> UnknownContents:
    for each in found:
        if name in (str(each.path), str(each.path.relative_to(state_dir))):
            return each
    raise TonnageError(
        f"{name} is not in a pool of {state_dir}, or has a record",
        hint="without a name the command lists the contents that have no record",
    )


def _moved(folder: StateFolder, chosen: Sequence[UnknownContents]) -> list[tuple[Path, Path]]:
    try:
        return list(quarantine(folder, chosen))
    except OSError as exc:
        raise TonnageError(
            f"{exc.filename} cannot be moved to {folder.path / QUARANTINE}: {exc.strerror}",
            hint="nothing is lost: the rest is where it was",
        ) from exc


def _document(each: UnknownContents, to: Path | None) -> dict[str, object]:
    return {
        "node": each.place.node,
        "pool": each.place.pool,
        "path": str(each.path),
        "bytes": each.size_bytes,
        "movedTo": None if to is None else str(to),
    }


def _lines(found: Sequence[UnknownContents], moved: dict[Path, Path]) -> list[str]:
    if not found:
        return ["everything in the pools has a record"]
    lines = []
    for each in found:
        to = moved.get(each.path)
        said = f"moved to {to}" if to is not None else "no record; kept, and counted as used"
        lines.append(f"{printable(str(each.path))}  {Quantity.from_bytes(each.size_bytes)}  {said}")
    return lines
