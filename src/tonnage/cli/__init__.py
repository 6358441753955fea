"""The command line. One file a command; this one gathers them and turns errors into `error:` and `hint:`.

Data goes to stdout, talk to stderr. Exit 0 when the job was done, 1 when it failed, 2 when it was asked wrongly.
"""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from typing import Final

import click

from tonnage import __version__
from tonnage.errors import TonnageError
from tonnage.printable import printable, printable_lines

COMMANDS: Final = {
    "apiserver": "tonnage.cli.apiserver:apiserver",
    "controllers": "tonnage.cli.controllers:controllers",
    "csi-driver": "tonnage.cli.driver.csi_driver:csi_driver",
    "csi-driver-quarantine": "tonnage.cli.driver.csi_driver_quarantine:csi_driver_quarantine",
    "demo": "tonnage.cli.demo:demo",
    "doctor": "tonnage.cli.doctor:doctor",
    "drain-preview": "tonnage.cli.drain_preview:drain_preview",
    "driver-check": "tonnage.cli.driver.driver_check:driver_check",
    "explain": "tonnage.cli.explain:explain",
    "fault": "tonnage.cli.fault:fault",
    "fit": "tonnage.cli.fit:fit",
    "node": "tonnage.cli.node:node",
    "node-scaler": "tonnage.cli.node_scaler:node_scaler",
    "pools": "tonnage.cli.pools.pools:pools",
    "provisioner": "tonnage.cli.provisioning.provisioner:provisioner",
    "replay": "tonnage.cli.replay:replay",
    "scheduler": "tonnage.cli.scheduler:scheduler",
    "shadow": "tonnage.cli.shadow:shadow",
    "simulate": "tonnage.cli.simulate:simulate",
    "status": "tonnage.cli.status:status",
    "up": "tonnage.cli.up:up",
    "version": "tonnage.cli.version:version",
}
"""Every command, and where it is. A command is loaded when it is asked for: the API server needs no scheduler in its
memory, and a cluster of seven processes starts in a fraction of the time."""

INTERNAL_COMMANDS: Final = {"forkserver": "tonnage.cli.forkserver:forkserver"}
"""Commands that our own programs start. No help lists them."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = COMMANDS.get(cmd_name) or INTERNAL_COMMANDS.get(cmd_name)
        if where is None:
            return None
        module, _, name = where.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name=None, version=__version__, prog_name="tonnage")
def cli() -> None:
    """Storage-aware scheduling for Kubernetes: no pod is sent to a node that cannot hold its volumes."""


def _complain(message: str, hint: str | None, *, has_lines: bool = False) -> None:
    click.echo(f"error: {printable_lines(message) if has_lines else printable(message)}", err=True)
    if hint:
        click.echo(f"hint: {printable(hint)}", err=True)


def main() -> None:
    """Run the command line and exit; every failure is told in our two lines."""
    try:
        code = cli.main(prog_name="tonnage", standalone_mode=False)
    except TonnageError as exc:
        _complain(exc.message, exc.hint, has_lines=exc.has_lines)
        code = 1
    except click.UsageError as exc:
        command = exc.ctx.command_path if exc.ctx is not None else "tonnage"
        _complain(exc.format_message(), f"'{command} --help' lists what there is")
        code = 2
    except click.ClickException as exc:
        _complain(exc.format_message(), None)
        code = exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130  # as a shell says of a program that Ctrl-C ended
    except Exception:  # a fault of ours: what Python tells of it may hold whatever has led to it
        click.echo(printable_lines(traceback.format_exc()), err=True, nl=False)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
