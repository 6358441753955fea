"""What the forkserver loads ahead is there, wherever the commands' modules lie."""

from __future__ import annotations

from importlib.util import find_spec

from tonnage.cli import COMMANDS
from tonnage.cli.forkserver import PROGRAMS


def test_every_program_that_is_loaded_ahead_is_a_command_that_is_there():
    for name in PROGRAMS:
        assert find_spec(COMMANDS[name].partition(":")[0]) is not None, name
