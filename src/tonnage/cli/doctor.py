"""`tonnage doctor`: what of a cluster Tonnage can use, what it would change there, and what to set."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from tonnage.cli.cluster_options import ClusterQuestion, cluster_options
from tonnage.cli.completion.values import files
from tonnage.cli.output import INTERRUPTED, progress, written, written_html, written_json

if TYPE_CHECKING:
    from tonnage.whatif.doctor.facts import GrantedAccess, ServerFacts

_USER_AGENT = "tonnage-doctor"


@click.command()
@cluster_options
@click.argument("more_files", nargs=-1, metavar="[FILE]...", shell_complete=files)
@click.option("-o", "--output", type=click.Choice(["table", "json", "html"]), default="table", show_default=True)
def doctor(cluster: ClusterQuestion, output: str) -> None:
    """Tell what of a cluster Tonnage can use, what it would change, and what to set.

    Looks at a live cluster (--kubeconfig), at a dump of one (-f, such as `kubectl get -o yaml` writes), or at a live
    one with files laid over it: drivers, capacity objects, attach limits, classes, leftovers, permissions, and pods
    that a switch would help or hurt. Every finding has a name, a severity and a remedy. Nothing is changed.

    Exit 0 when nothing is worse than good to know, 4 when there are warnings, 5 when there are errors; 1 when it could
    not look, 2 when it was asked wrongly.
    """
    from tonnage.whatif.doctor import examination
    from tonnage.whatif.doctor.examination import examine, work_of
    from tonnage.whatif.doctor.facts import Facts
    from tonnage.whatif.doctor.reading import read_server

    configuration = cluster.configuration
    state = cluster.state(user_agent=_USER_AGENT, with_workloads=True)
    server: ServerFacts | None = None
    access: list[GrantedAccess] = []
    if cluster.is_live:
        server, access = asyncio.run(read_server(cluster.connection, state.objects, user_agent=_USER_AGENT))
    facts = Facts.of_state(state, is_live=cluster.is_live, server=server, access=access)
    with progress("deciding on pods", total=work_of(facts)) as step:
        found = examine(facts, state, configuration, foreign=cluster.foreign, step=step)
    if output == "json":
        written_json(found.document())
    elif output == "html":
        from tonnage.whatif.html.doctor_page import doctor_page

        written_html(doctor_page(found.document()))
    else:
        written(partial(examination.show, found, sys.stdout))
    sys.exit(INTERRUPTED if found.is_partial else found.exit_code)
