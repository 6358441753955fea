"""`tonnage completion`: the script that makes a shell complete."""

from __future__ import annotations

import click

from tonnage.cli.completion.shells import SHELLS, script


@click.command()
@click.argument("shell", type=click.Choice(sorted(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, flags and their values.

    Pods, nodes, namespaces and workloads are asked from the cluster that the line names, or read from its -f files;
    what cannot be told within a second is left out. `kubectl tonnage` completes by itself where kubectl does.
    """
    click.echo(script(shell, ctx.find_root().command, "tonnage"), nl=False)  # our own words
