"""`tonnage provisioner`: volumes and capacity for one CSI driver, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Unpack

import click

from tonnage.cli.flags.go_flags import GoCommand, switch
from tonnage.cli.options import DURATION, gates_option, logging_options, start_logging
from tonnage.cli.output import echo, say
from tonnage.cli.provisioning.provisioner_flags import (
    ProvisionerFlags,
    capacity_of,
    endpoint_of,
    lease_of,
    options_of,
    parse_gates,
)
from tonnage.cli.running import connection_of, kubeconfig_option, run_until_signalled, say_ready
from tonnage.clock import Clock, SystemClock

if TYPE_CHECKING:
    from tonnage.client.http import Client
    from tonnage.client.leader import LeaderElector
    from tonnage.client.leadership import Leadership
    from tonnage.provisioner.program import Provisioner

_THREADS: Final = click.IntRange(min=1)


@click.command(cls=GoCommand)
@kubeconfig_option
@click.option("--csi-address", default="/run/csi/socket", show_default=True, help="Address of the CSI driver socket.")
@click.option(
    "--timeout",
    type=DURATION,
    default="10s",
    show_default=True,
    help="Timeout for waiting for volume operation (creation, deletion, capacity queries).",
)
@click.option("--volume-name-prefix", default="pvc", show_default=True, help="What names of volumes begin with.")
@click.option(
    "--volume-name-uuid-length",
    type=click.IntRange(min=-1),
    default=-1,
    show_default=True,
    help="How much of the claim's uid goes into a volume's name; -1 is all of it.",
)
@click.option(
    "--worker-threads", type=_THREADS, default=100, show_default=True, help="How many volumes are worked on at a time."
)
@click.option(
    "--cloning-protection-threads", type=_THREADS, default=1, show_default=True, help="The same for cloned claims."
)
@click.option(
    "--retry-interval-start",
    type=DURATION,
    default="1s",
    show_default=True,
    help="The pause after a failure; it doubles with each, up to --retry-interval-max.",
)
@click.option("--retry-interval-max", type=DURATION, default="5m", show_default=True, help="The longest such pause.")
@switch("--strict-topology", default=False, help="Tell CreateVolume of the selected node's place only.")
@switch("--immediate-topology", default=True, help="Tell CreateVolume of all places when no node was selected.")
@switch("--extra-create-metadata", default=False, help="Tell CreateVolume the names of claim and volume.")
@click.option("--default-fstype", default="", help="The file system when the class names none.")
@switch(
    "--controller-publish-readonly", default=False, help="Volumes of claims that are ReadOnlyMany alone are read-only."
)
@switch(
    "--prevent-volume-mode-conversion", default=True, help="A restored snapshot keeps its volume mode, unless allowed."
)
@switch("--enable-expansion", default=True, help="Expand volumes too, as external-resizer does. Ours.")
@switch("--enable-capacity", default=True, help="Publish CSIStorageCapacity objects; upstream's default is false.")
@click.option("--capacity-poll-interval", type=DURATION, default="1m", show_default=True, help="How often it is asked.")
@switch("--capacity-for-immediate-binding", default=False, help="Also for classes that do not wait for a consumer.")
@click.option(
    "--capacity-ownerref-level",
    type=click.IntRange(min=-1),
    default=1,
    show_default=True,
    help="How far above the pod in $POD_NAME the owner of these objects is; -1, or no $POD_NAME: no owner.",
)
@click.option(
    "--capacity-namespace",
    envvar="NAMESPACE",
    default="kube-system",
    show_default=True,
    show_envvar=True,
    help="Where they are. Ours; upstream has the variable only.",
)
@click.option("--capacity-threads", type=_THREADS, default=1, show_default=True, help="How many at a time.")
@click.option(
    "--kube-api-capacity-qps",
    type=click.FloatRange(min=0.0),
    default=1.0,
    show_default=True,
    help="How many of them are written a second; 0 is no limit.",
)
@click.option(
    "--kube-api-capacity-burst", type=click.IntRange(min=1), default=5, show_default=True, help="How many at once."
)
@switch("--node-deployment", default=False, help="One provisioner on each node, for the volumes of that node.")
@click.option("--node-name", envvar="NODE_NAME", default="", show_envvar=True, help="The node, with --node-deployment.")
@switch("--node-deployment-immediate-binding", default=True, help="Compete for claims that were sent to no node.")
@click.option(
    "--node-deployment-base-delay", type=DURATION, default="20s", show_default=True, help="The first wait before that."
)
@click.option("--node-deployment-max-delay", type=DURATION, default="60s", show_default=True, help="The longest.")
@switch("--leader-election", default=False, help="Work only while holding the lease.")
@click.option("--leader-election-namespace", default="", help="Where the lease is; else the pod's own namespace.")
@click.option(
    "--leader-election-lease-duration", type=DURATION, default="15s", show_default=True, help="How long it lasts."
)
@click.option(
    "--leader-election-renew-deadline", type=DURATION, default="10s", show_default=True, help="When a leader gives up."
)
@click.option(
    "--leader-election-retry-period", type=DURATION, default="5s", show_default=True, help="How often it is tried."
)
@click.option(
    "--kube-api-qps",
    type=click.FloatRange(min=0.0),
    default=0.0,
    show_default=True,
    help="Requests a second; 0 leaves it to the server's fairness. Upstream's default is 5.",
)
@click.option("--kube-api-burst", type=click.IntRange(min=1), default=10, show_default=True, help="The same at once.")
@click.option(
    "--http-endpoint", default="", metavar="HOST:PORT", help="Where health and metrics are served, if at all."
)
@click.option("--metrics-address", default="", metavar="HOST:PORT", help="The older name of --http-endpoint.")
@gates_option(parse_gates, help="Features to turn on or off.")
@logging_options
def provisioner(**flags: Unpack[ProvisionerFlags]) -> None:
    """Make, delete and expand the volumes of one CSI driver, and publish how much room it has.

    Runs beside any CSI driver and against any Kubernetes API server, with external-provisioner's flags. Prints "ready"
    once the driver has answered and the cluster is known; SIGTERM and Ctrl-C stop it.
    """
    start_logging(flags["logging_format"], flags["verbosity"])
    for warning in flags["gates"].ours.warnings:
        say("warning", warning)
    asyncio.run(_run(flags))


async def _run(flags: ProvisionerFlags) -> None:
    from tonnage.client.clients import Clients, lease_timeout_s
    from tonnage.client.metrics import RestClientMetrics, show_leadership
    from tonnage.csi.client import CsiClient
    from tonnage.health import served
    from tonnage.metrics import new_registry
    from tonnage.provisioner.metrics import ProvisionerMetrics
    from tonnage.provisioner.program import PROGRAM, Provisioner

    endpoint = endpoint_of(flags["http_endpoint"], flags["metrics_address"])
    options, capacity = options_of(flags), capacity_of(flags)
    clock, rng, registry = SystemClock(), random.Random(secrets.randbits(64)), new_registry()
    metrics = ProvisionerMetrics(registry)
    leadership = _leadership_of(flags, clock)
    connection = connection_of(flags["kubeconfig_file"])
    clients = Clients.connect(
        connection,
        clock=clock,
        user_agent=PROGRAM,
        on_request=RestClientMetrics(registry).of(connection.cluster.server),
        qps=flags["kube_api_qps"],
        burst=flags["kube_api_burst"],
        guard=leadership,
        lease_timeout_s=lease_timeout_s(flags["leader_election_renew_deadline"]),
    )
    driver = CsiClient(
        flags["csi_address"],
        clock=clock,
        rng=rng,
        timeout_s=flags["timeout"],
        on_call=metrics.calls,
        before_change=leadership.check if leadership is not None else None,
    )
    program = Provisioner(
        clients.work,
        driver,
        options,
        clock=clock,
        rng=rng,
        registry=registry,
        metrics=metrics,
        capacity=capacity,
        pod_name=os.environ.get("POD_NAME", ""),
        owner_level=flags["capacity_ownerref_level"],
        leadership=leadership,
        telling=clients.telling,
    )
    electors: list[LeaderElector] = []
    show_leadership(registry, lambda: electors)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(clients)
        await stack.enter_async_context(driver)
        if endpoint is not None:
            address = await stack.enter_async_context(
                served(
                    host=endpoint[0],
                    port=endpoint[1],
                    tls=None,
                    registry=registry,
                    is_healthy=lambda: all(elector.is_healthy() for elector in electors),
                    is_ready=lambda: program.is_synced,
                )
            )
            echo(f"serving health and metrics at {address}", err=True)
        if leadership is None:
            await run_until_signalled(_work(program))
            return
        await run_until_signalled(_lead(program, clients.leases, leadership, flags, electors))


def _leadership_of(flags: ProvisionerFlags, clock: Clock) -> Leadership | None:
    """What every write asks first; None without leader election. Raises InvalidLeaseTimes."""
    from tonnage.client.leader import check_retry_period, new_identity
    from tonnage.client.leadership import Leadership

    if not flags["leader_election"]:
        return None
    renew_deadline_s = flags["leader_election_renew_deadline"]
    check_retry_period(renew_deadline_s=renew_deadline_s, retry_period_s=flags["leader_election_retry_period"])
    return Leadership(
        new_identity(),
        clock=clock,
        lease_duration_s=flags["leader_election_lease_duration"],
        renew_deadline_s=renew_deadline_s,
    )


async def _work(program: Provisioner) -> None:
    async with program:
        await program.wait_synced()
        say_ready()
        await program.run()


async def _lead(
    program: Provisioner, leases: Client, leadership: Leadership, flags: ProvisionerFlags, electors: list[LeaderElector]
) -> None:
    from tonnage.client.leader import LeaderElector

    async with program:
        await program.wait_synced()
        say_ready()
        elector = LeaderElector(
            leases,
            lease_of(program.driver_info.name, flags["leader_election_namespace"]),
            leadership.identity,
            leadership=leadership,
            retry_period_s=flags["leader_election_retry_period"],
            release_on_cancel=flags["gates"].own["ReleaseLeaderElectionOnExit"],
        )
        electors.append(elector)
        await elector.run(program.run)
