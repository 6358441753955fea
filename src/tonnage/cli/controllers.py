"""`tonnage controllers`: run kube-controller-manager's part for storage and workloads until it is stopped."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.flags.declared import declared
from tonnage.cli.flags.endpoint_flags import ENDPOINT, check_endpoint
from tonnage.cli.flags.go_flags import GoCommand
from tonnage.cli.flags.leader_election import Election, check_times
from tonnage.cli.options import (
    Flags,
    feature_gates,
    from_flags,
    logging_options,
)
from tonnage.cli.output import say_all
from tonnage.cli.running import (
    connected,
    connection_of,
    run_until_signalled,
    say_ready,
)
from tonnage.controllers import PROGRAM

if TYPE_CHECKING:
    from tonnage.controllers.registry import ControllerManagerConfiguration


@click.command(cls=GoCommand)
@declared("controllers", **ENDPOINT)
@feature_gates
@logging_options
def controllers(wanted: str, **flags: Any) -> None:
    """Bind claims, attach volumes, run workloads, watch over nodes, and clear away what is left over.

    Flags have kube-controller-manager's names and defaults, but for --leader-elect: one copy runs here, and after a
    crash it need not wait for its own lease. Prints "ready" once it follows the cluster; SIGTERM and Ctrl-C stop it.
    """
    from tonnage.behaviour.nodes.node_lifecycle_plan import EvictionRates
    from tonnage.controllers.nodes.node_lifecycle import NodeLifecycleConfiguration
    from tonnage.controllers.registry import ControllerManagerConfiguration, UnknownController, enabled_controllers

    check_endpoint(flags)
    say_all("warning", flags["gates"].warnings)
    names = tuple(word.strip() for word in wanted.split(",") if word.strip())
    try:
        enabled_controllers(names)
    except UnknownController as exc:
        raise click.BadParameter(f"{exc.message}; {exc.hint}", param_hint="--controllers") from exc
    if flags["disable_attach_detach_reconcile_sync"]:
        flags["attach_detach_reconcile_sync_period_s"] = 0.0
    configuration = from_flags(
        ControllerManagerConfiguration,
        flags,
        node_lifecycle=from_flags(NodeLifecycleConfiguration, flags, rates=from_flags(EvictionRates, flags)),
        force_detach_on_timeout=not flags["disable_force_detach_on_timeout"],
    )
    asyncio.run(run(configuration, names, _election_of(flags), flags))


def _election_of(flags: Flags) -> Election:
    if not flags["leader_elect"]:
        return Election(is_on=False)
    default = Election(is_on=True)
    found = Election(
        is_on=True,
        lease_duration_s=flags["leader_elect_lease_duration"] or default.lease_duration_s,
        renew_deadline_s=flags["leader_elect_renew_deadline"] or default.renew_deadline_s,
        retry_period_s=flags["leader_elect_retry_period"] or default.retry_period_s,
    )
    check_times(found)
    return found


async def run(
    configuration: ControllerManagerConfiguration, names: tuple[str, ...], election: Election, flags: Flags
) -> None:
    """Run until SIGTERM or Ctrl-C, or until the lease is lost."""
    from tonnage.controllers.program import ControllerManager
    from tonnage.csi.client import CsiClient
    from tonnage.csi.metrics import sidecar_calls
    from tonnage.serving import profiling

    namespace, name = flags["leader_elect_resource_namespace"], flags["leader_elect_resource_name"]
    connection = connection_of(flags["kubeconfig_file"])
    async with connected(PROGRAM, connection, election) as running:
        calls = sidecar_calls(running.registry)
        drivers = [
            await running.enter(
                CsiClient(
                    address,
                    clock=running.clock,
                    rng=running.rng,
                    timeout_s=flags["timeout_s"],
                    on_call=calls,
                    before_change=running.leadership.check if running.leadership is not None else None,
                )
            )
            for address in flags["csi_addresses"]
        ]
        manager = await running.enter(
            ControllerManager(
                running.clients.work,
                replace(configuration, drivers=tuple(drivers), root_ca_pem=connection.cluster.ca_pem),
                clock=running.clock,
                rng=running.rng,
                registry=running.registry,
                controllers=names,
                identity=running.identity,
                leadership=running.leadership,
                on_synced=say_ready,
                telling=running.clients.telling,
            )
        )
        await running.serve_securely(
            flags,
            rng=running.rng,
            is_healthy=lambda: manager.is_healthy,
            is_ready=lambda: manager.is_synced,
            pages=profiling.pages(running.clock) if flags["profiling"] else None,
        )
        await run_until_signalled(running.led(manager.run, f"{namespace or 'kube-system'}/{name or PROGRAM}"))
