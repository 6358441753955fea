"""`tonnage version`: which Tonnage this is, what it runs on, and which Kubernetes it behaves like."""

from __future__ import annotations

import json
import platform

import click

from tonnage import KUBERNETES_VERSION, __version__
from tonnage.cli.output import echo


@click.command()
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def version(output: str) -> None:
    """Print the version, the Python it runs on, and the Kubernetes release whose behaviour it follows."""
    if output == "json":
        found = {"tonnage": __version__, "kubernetes": KUBERNETES_VERSION, "python": platform.python_version()}
        echo(json.dumps(found, indent=2))
        return
    echo(f"Tonnage {__version__}")
    echo(f"Kubernetes {KUBERNETES_VERSION} (the release whose behaviour it follows)")
    echo(f"Python {platform.python_version()}")
