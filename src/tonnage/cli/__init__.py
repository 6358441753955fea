"""The command line. One file a command; this one gathers them and turns errors into `error:` and `hint:`.

Data goes to stdout, talk to stderr. Exit 0 when the job was done, 1 when it failed, 2 when it was asked wrongly.
"""

from __future__ import annotations

import sys

import click

from tonnage.cli.apiserver import apiserver
from tonnage.cli.demo import demo
from tonnage.cli.explain import explain
from tonnage.cli.node_scaler import node_scaler
from tonnage.cli.replay import replay
from tonnage.cli.scheduler import scheduler
from tonnage.errors import TonnageError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name=None, version="0.1.0", prog_name="tonnage")
def cli() -> None:
    """Storage-aware scheduling for Kubernetes: no pod is sent to a node that cannot hold its volumes."""


cli.add_command(apiserver)
cli.add_command(demo)
cli.add_command(explain)
cli.add_command(node_scaler)
cli.add_command(replay)
cli.add_command(scheduler)


def _complain(message: str, hint: str | None) -> None:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)


def main() -> None:
    """Run the command line and exit; every failure is told in our two lines."""
    try:
        code = cli.main(standalone_mode=False)
    except TonnageError as exc:
        _complain(exc.message, exc.hint)
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
    sys.exit(code if isinstance(code, int) else 0)
