"""`tonnage node-scaler`: create nodes from a template for unschedulable pods, until stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import logging_options, say_all
from tonnage.cli.running import connected, connection_of, kubeconfig_option, run_until_signalled, say_ready
from tonnage.gates import Gates
from tonnage.nodescaler.node_pool import MAX_NODES

if TYPE_CHECKING:
    from tonnage.nodescaler.node_pool import NodePool
    from tonnage.objects.document import Doc


@click.command("node-scaler")
@kubeconfig_option
@flag_table(f"""
    --template FILE!  Manifest of a Node; new nodes are named NAME-1, NAME-2 and so on. CSINode and CSIStorageCapacity
        objects in the file say what a node's driver will publish.
    --max as max_nodes INT[0..{MAX_NODES}]!  Most nodes to have.
    --min as min_nodes INT[0..{MAX_NODES}]=0  Fewest nodes to have.
    --unneeded-seconds as unneeded_s FLOAT[0.0..]=600.0  How long a node is idle before it is removed.
    --provision-seconds as provision_s FLOAT[0.0..]=5.0  How long a node takes to appear.
    --ready-seconds as ready_s FLOAT[0.0..]=5.0  How long a new node is not ready.
""")
@logging_options
def node_scaler(kubeconfig_file: Path | None, template: Path, **sizes: Any) -> None:
    """No cloud is involved: a node is a Node object, created from the template and deleted again. Pods are nominated to
    their node before it exists. Prints "ready" once it follows the cluster; SIGTERM and Ctrl-C stop it, and the nodes
    that it created stay.
    """
    from tonnage.nodescaler.node_pool import NodePool

    node, storage = template_of(template)
    asyncio.run(_run(NodePool(template=node, storage=storage, **sizes), kubeconfig_file))


def template_of(path: Path) -> tuple[Doc, tuple[Doc, ...]]:
    """A file's one Node and storage objects, validated as by an API server. Raises BrokenManifest, InvalidPool."""
    from tonnage.nodescaler.node_pool import KINDS, InvalidPool
    from tonnage.objects.document import copy
    from tonnage.whatif.creation import Creation
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
    Creation(Gates()).of_all(manifests)
    say_all("warning", manifests.warnings)
    return nodes[0], storage


async def _run(pool: NodePool, kubeconfig_file: Path | None) -> None:
    from tonnage.nodescaler.program import PROGRAM, NodeScaler

    async with connected(PROGRAM, connection_of(kubeconfig_file)) as running:
        scaler = await running.enter(NodeScaler(running.runtime, pool))

        async def scale() -> None:
            await scaler.wait_synced()
            say_ready()
            await scaler.run()

        await run_until_signalled(scale())
