"""`tonnage version`, `tonnage help`, and `tonnage completion`, which prints a shell's completion script."""

from __future__ import annotations

import json
import platform

import click

from tonnage import KUBERNETES_VERSION, __version__
from tonnage.cli.completion import SHELLS, script
from tonnage.cli.output import echo, output_option


@click.command()
@output_option("text", "json")
def version(output: str) -> None:
    if output == "json":
        found = {"tonnage": __version__, "kubernetes": KUBERNETES_VERSION, "python": platform.python_version()}
        echo(json.dumps(found, indent=2))
        return
    echo(f"Tonnage {__version__}")
    echo(f"Kubernetes {KUBERNETES_VERSION} (the release whose behaviour it follows)")
    echo(f"Python {platform.python_version()}")


@click.command()
@click.argument("shell", type=click.Choice(sorted(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Names of pods, nodes, namespaces and workloads come from the cluster or the -f files on the command line; what
    takes longer than a second is left out. `kubectl tonnage` completes wherever kubectl does, without this script.
    """
    click.echo(script(shell, ctx.find_root().command, "tonnage"), nl=False)  # our own words


@click.command()
@click.argument("command", nargs=-1)
@click.pass_context
def help(ctx: click.Context, command: tuple[str, ...]) -> None:
    """The same as `tonnage COMMAND --help`."""
    shown = ctx.find_root()
    for name in command:
        if not isinstance(shown.command, click.Group):
            raise click.UsageError(f"'{shown.command_path}' has no command '{name}'", shown)
        _, found, _ = shown.command.resolve_command(shown, [name])
        assert found is not None, "an unknown name raises"
        shown = click.Context(found, info_name=name, parent=shown)
    click.echo(shown.get_help())  # our own words
