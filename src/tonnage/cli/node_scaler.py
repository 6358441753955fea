"""`tonnage node-scaler`: nodes from a template for pods that find none, until it is told to stop."""

from __future__ import annotations

import asyncio
import random
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.options import logging_options, start_logging
from tonnage.cli.output import say
from tonnage.cli.running import connection_of, kubeconfig_option, run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.gates import Gates
from tonnage.nodescaler.node_pool import MAX_NODES

if TYPE_CHECKING:
    from tonnage.nodescaler.node_pool import NodePool
    from tonnage.nodescaler.program import NodeScaler
    from tonnage.objects.document import Doc

_SECONDS = click.FloatRange(min=0.0)


@click.command("node-scaler")
@kubeconfig_option
@click.option(
    "--template",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="A Node manifest; its name is the pool's, and nodes are named NAME-1, NAME-2 and so on. CSINode and "
    "CSIStorageCapacity beside it say what a node's driver will publish.",
)
@click.option("--max", "max_nodes", type=click.IntRange(0, MAX_NODES), required=True, help="Never more nodes.")
@click.option(
    "--min", "min_nodes", type=click.IntRange(0, MAX_NODES), default=0, show_default=True, help="Never fewer nodes."
)
@click.option(
    "--unneeded-seconds",
    type=_SECONDS,
    default=600.0,
    show_default=True,
    help="How long a node is idle before it goes.",
)
@click.option(
    "--provision-seconds", type=_SECONDS, default=5.0, show_default=True, help="How long a node takes to appear."
)
@click.option(
    "--ready-seconds", type=_SECONDS, default=5.0, show_default=True, help="How long it is not ready after that."
)
@logging_options
def node_scaler(
    kubeconfig_file: Path | None,
    template: Path,
    max_nodes: int,
    min_nodes: int,
    unneeded_seconds: float,
    provision_seconds: float,
    ready_seconds: float,
    logging_format: str,
    verbosity: int,
) -> None:
    """Add nodes for pods that cannot be placed, and remove them when nobody needs them: for demo clusters.

    There is no cloud behind it: a node is a Node object, made from the template and deleted again. Pods are nominated
    to their node before it exists. Prints "ready" once it follows the cluster; SIGTERM and Ctrl-C stop it, and the
    nodes it made stay.
    """
    from tonnage.nodescaler.node_pool import NodePool

    start_logging(logging_format, verbosity)
    node, storage = template_of(template)
    pool = NodePool.of(
        node,
        max_nodes=max_nodes,
        min_nodes=min_nodes,
        unneeded_s=unneeded_seconds,
        provision_s=provision_seconds,
        ready_s=ready_seconds,
        storage=storage,
    )
    asyncio.run(_run(pool, kubeconfig_file))


def template_of(path: Path) -> tuple[Doc, tuple[Doc, ...]]:
    """The one Node of a file, and the storage objects beside it, checked as a server would.

    Raises BrokenManifest, InvalidPool.
    """
    from tonnage.nodescaler.node_pool import KINDS, InvalidPool
    from tonnage.objects.document import copy
    from tonnage.whatif.creation import created
    from tonnage.whatif.manifests import read

    manifests = read([str(path)])
    docs = [copy(manifest.doc) for manifest in manifests.by_key.values()]
    nodes = [doc for doc in docs if doc["kind"] == "Node"]
    storage = tuple(doc for doc in docs if doc["kind"] in KINDS)
    if len(nodes) != 1 or len(storage) + 1 != len(docs) + len(manifests.passed_over):
        held = ", ".join(sorted([doc["kind"] for doc in docs] + [kind for kind, _ in manifests.passed_over]))
        raise InvalidPool(
            f"{path}: a template is one Node, and this file holds {held}",
            hint=f"beside the Node there may be {' and '.join(KINDS)}, for what its driver will publish",
        )
    created(manifests, Gates())
    for warning in manifests.warnings:
        say("warning", warning)
    return nodes[0], storage


async def _run(pool: NodePool, kubeconfig_file: Path | None) -> None:
    from tonnage.client.clients import Clients
    from tonnage.nodescaler.program import PROGRAM, NodeScaler

    clock = SystemClock()
    clients = Clients.connect(connection_of(kubeconfig_file), clock=clock, user_agent=PROGRAM)
    rng = random.Random(secrets.randbits(64))
    async with clients, NodeScaler(clients.work, pool, clock=clock, rng=rng, telling=clients.telling) as scaler:
        await run_until_signalled(_scale(scaler))


async def _scale(scaler: NodeScaler) -> None:
    await scaler.wait_synced()
    say_ready()
    await scaler.run()
