"""`tonnage forkserver`: the process that forks the programs of a cluster, for `tonnage up` and for tests.

Hidden from help: `plane/forkserver.py` starts it and sends requests as lines of JSON on stdin.
"""

from __future__ import annotations

from typing import Final

import click

from tonnage.cli import COMMANDS, main
from tonnage.plane.forkserver import ROOM_FLAG, Forkserver

PROGRAMS: Final = {
    "apiserver": ("apiserver.server", "apiserver.stored_documents", "store.check"),
    "csi-driver": (
        *("driver.serving", "driver.lvm_nodes", "driver.rebuilding", "csi.client"),
        *("client.http", "client.metrics", "client.config.kubeconfig", "client.delegated_access.access", "health"),
        *("serving.server_tls", "serving.profiling"),
    ),
    "node": ("node.program",),
    "provisioner": ("provisioner.program",),
    "controllers": ("controllers.program", "csi.metrics"),
    "scheduler": ("scheduler.program", "scheduler.configuration_file", "scheduling.configuration.configuration"),
}
"""Modules to import for each command before forking. Commands are in the order in which they are needed: nodes need the
most round trips, the scheduler takes longest to load."""


def modules_of(program: str) -> list[str]:
    return [COMMANDS[program], *(f"tonnage.{each}" for each in PROGRAMS[program])]


@click.command(hidden=True)
@click.option(ROOM_FLAG, "room", default="", help="Room for what ps shows of a child.")
def forkserver(room: str) -> None:
    """Fork the programs that stdin asks for, until it ends."""
    Forkserver(main, {name: modules_of(name) for name in PROGRAMS}).run()
