"""The command line. One file a command; this one gathers them and turns errors into `error:` and `hint:`.

Data goes to stdout, talk to stderr. Exit 0 when the job was done, 1 when it failed, 2 when it was asked wrongly.
"""

from __future__ import annotations

import sys

import click

from tonnage.cli.apiserver import apiserver
from tonnage.cli.demo import demo
from tonnage.errors import TonnageError


class _Commands(click.Group):
    """Click's group, with our two lines for what went wrong and upstream's spelling of flags left alone."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except TonnageError as exc:
            _complain(exc.message, exc.hint)
            ctx.exit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name=None, version="0.1.0", prog_name="tonnage")
def cli() -> None:
    """Storage-aware scheduling for Kubernetes: no pod is sent to a node that cannot hold its volumes."""


cli.add_command(apiserver)
cli.add_command(demo)


def _complain(message: str, hint: str | None) -> None:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)


def main() -> None:
    try:
        cli.main(standalone_mode=False)
    except click.UsageError as exc:
        command = exc.ctx.command_path if exc.ctx is not None else "tonnage"
        _complain(exc.format_message(), f"'{command} --help' lists what there is")
        sys.exit(2)
    except click.ClickException as exc:
        _complain(exc.format_message(), None)
        sys.exit(exc.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.exceptions.Exit as exc:
        sys.exit(exc.exit_code)
