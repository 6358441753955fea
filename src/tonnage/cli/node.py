"""`tonnage node`: run the kubelets of one or several nodes, as far as storage needs them, until stopped."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tonnage.cli import running as programs
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import Parsed, feature_gates, from_flags, logging_options
from tonnage.cli.running import connected, connection_of, kubeconfig_option, listen_address, run_until_signalled
from tonnage.csi.address import InvalidAddress, socket_path
from tonnage.faults import FaultFile
from tonnage.node.settings import ATTACH_ERROR_GRACE_S
from tonnage.quantity import Quantity

if TYPE_CHECKING:
    from tonnage.node.settings import NodeSettings


def _capacity(text: str) -> dict[str, str]:
    """`cpu=8,memory=32Gi,pods=110`; other resources keep their default. Raises ValueError, InvalidQuantity."""
    from tonnage.node.settings import DEFAULT_CAPACITY

    found = dict(DEFAULT_CAPACITY)
    for part in filter(str.strip, text.split(",")):
        resource, equals, amount = (word.strip() for word in part.partition("="))
        if not equals or not resource:
            raise ValueError(f'"{part}" has no amount; write it like cpu=8,memory=32Gi,pods=110')
        Quantity.parse(amount, field=resource)
        found[resource] = amount
    return found


CAPACITY: Final = Parsed("capacity", _capacity)
LISTEN: Final = Parsed("address", partial(listen_address, default_host="127.0.0.1"))


@click.command("node")
@kubeconfig_option
@flag_table(
    f"""
    --node-name as names TEXT...!  Name of a node to run; may be repeated.
    --root-dir FOLDER!  Folder for mounts; each node has a folder of its name there, laid out like a kubelet's.
    --csi-address as csi_addresses TEXT...  Socket of a CSI driver, with {{node}} for the node's name; may be repeated.
        A driver counts as installed while its socket exists.
    --capacity CAPACITY= <cpu=8,memory=32Gi,pods=110>  Capacity of each node; resources that are not named keep their
        default.
    --node-ip TEXT=127.0.0.1  IP address of every node.
    --node-lease-duration-seconds as lease_duration_s INT[1..]=40  Duration of a node's lease; it is renewed four times
        in that time.
    --attach-error-grace-seconds as attach_error_grace_s FLOAT[0.0..]={ATTACH_ERROR_GRACE_S}  How long attaching must
        have failed because the node's attach limit is reached, before the pod fails (KEP-4876). The limit in CSINode
        is corrected at once.
    --csi-timeout-seconds as csi_timeout_s FLOAT[0.1..]=30.0  How long one call to a driver may take.
    --faults as faults_file FILE  File of faults to play, written by `tonnage fault`: node-stopped, node-slow,
        node-removed.
    --metrics-address LISTEN=0  Address to serve /metrics, /healthz and /readyz on; 0 serves none.
    """,
    CAPACITY=CAPACITY,
    LISTEN=LISTEN,
)
@feature_gates
@logging_options
def node(
    kubeconfig_file: Path | None, faults_file: Path | None, metrics_address: tuple[str, int], **flags: Any
) -> None:
    """Containers are not run: a pod whose volumes are mounted is Running until it is deleted. A Job's pod ends as its
    annotations (tonnage.dev/run-seconds, tonnage.dev/exit-code) or a plain command such as `sleep 5` say, else after a
    second. Prints "ready" once every node is registered; SIGTERM and Ctrl-C stop it, and mounts stay for the next
    start.
    """
    from tonnage.node.settings import NodeSettings

    names = flags["names"]
    if len(set(names)) != len(names):
        raise click.UsageError("--node-name: a node is named more than once")
    settings = from_flags(
        NodeSettings,
        flags,
        root_dir=flags["root_dir"].absolute(),
        renew_interval_s=flags["lease_duration_s"] / 4,
    )
    for template in settings.csi_addresses:
        for name in names:
            try:
                socket_path(template.replace("{node}", name))
            except InvalidAddress as exc:
                raise click.UsageError(f"--csi-address: {exc.message}") from exc
    asyncio.run(_run(settings, kubeconfig_file, faults_file, metrics_address))


async def _run(
    settings: NodeSettings, kubeconfig_file: Path | None, faults_file: Path | None, listen: tuple[str, int]
) -> None:
    from tonnage.node.program import NodeProgram
    from tonnage.node.settings import PROGRAM

    async with connected(PROGRAM, connection_of(kubeconfig_file)) as running:
        faults = None if faults_file is None else FaultFile(faults_file)
        program = NodeProgram(running.runtime, settings, faults=faults)
        await running.serve(listen if listen[1] else None, is_ready=lambda: program.is_ready, is_told=False)
        await running.enter(program)

        async def work() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(program.run())
                await program.wait_ready()
                programs.say_ready()

        await run_until_signalled(work())
