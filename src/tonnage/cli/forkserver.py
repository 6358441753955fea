"""`tonnage forkserver`: the process that forks the programs of a cluster, for `tonnage up` and for tests.

Nobody types it: it is asked by lines of JSON on stdin (`plane/forkserver.py`), and no help lists it.
"""

from __future__ import annotations

from typing import Final

import click

from tonnage.cli import COMMANDS, main
from tonnage.plane.forkserver import ROOM_FLAG, Forkserver
from tonnage.serving.process_memory import import_aiohttp

PROGRAMS: Final = {
    "apiserver": ("apiserver.server", "apiserver.stored_documents"),
    "csi-driver": (
        *("driver.serving", "driver.lvm_nodes", "driver.rebuilding"),
        *("client.clients", "client.metrics", "client.config.kubeconfig", "client.delegated_access.access", "health"),
        *("serving.server_tls",),
    ),
    "node": ("node.program",),
    "provisioner": ("provisioner.program",),
    "controllers": ("controllers.program", "serving.profiling", "csi.metrics"),
    "scheduler": ("scheduler.program", "scheduler.configuration_file", "scheduling.configuration.written"),
}
"""Commands, in the order in which they are wanted: nodes need most round trips, the scheduler loads longest. Of each,
the modules that it imports when it runs; with them comes whatever those import."""


def modules_of(program: str) -> list[str]:
    return [COMMANDS[program], *(f"tonnage.{each}" for each in PROGRAMS[program])]


@click.command(hidden=True)
@click.option(ROOM_FLAG, "room", default="", help="Room for what ps shows of a child.")
def forkserver(room: str) -> None:
    """Fork the programs that stdin asks for, until it ends."""
    import_aiohttp()
    Forkserver(main, {name: modules_of(name) for name in PROGRAMS}).run()
