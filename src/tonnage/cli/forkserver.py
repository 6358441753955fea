"""`tonnage forkserver`: the process that forks the programs of a cluster, for `tonnage up` and for tests.

Nobody types it: it is asked by lines of JSON on stdin (`plane/forkserver.py`), and no help lists it.
"""

from __future__ import annotations

from typing import Final

import click

from tonnage.cli import COMMANDS, main
from tonnage.plane.forkserver import Forkserver
from tonnage.plane.process_title import ROOM_FLAG
from tonnage.serving.lean_aiohttp import import_aiohttp

PROGRAMS: Final = ("apiserver", "csi-driver", "node", "provisioner", "controllers", "scheduler")
"""Commands, in the order in which they are wanted: nodes need most round trips, the scheduler loads longest."""


@click.command(hidden=True)
@click.option(ROOM_FLAG, "room", default="", help="Room for what ps shows of a child.")
def forkserver(room: str) -> None:
    """Fork the programs that stdin asks for, until it ends."""
    import_aiohttp()
    Forkserver(main, {name: [COMMANDS[name].partition(":")[0]] for name in PROGRAMS}).run()
