"""`tonnage scheduler`: the live scheduler, against any Kubernetes API server, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import random
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from tonnage import __version__
from tonnage.cli.options import BYTES, feature_gates, logging_options, start_logging
from tonnage.cli.output import echo, say
from tonnage.cli.running import connection_of, run_until_signalled, say_ready
from tonnage.cli.serving import cert_dir_option, own_tls
from tonnage.client.clients import Clients, lease_timeout_s
from tonnage.client.leader import LeaderElector, new_identity
from tonnage.client.leadership import Leadership
from tonnage.clock import SystemClock
from tonnage.gates import Gates
from tonnage.health import served
from tonnage.metrics import new_registry
from tonnage.scheduler.configuration_file import load_configuration
from tonnage.scheduler.installed_plugins import foreign_plugins
from tonnage.scheduler.program import Program
from tonnage.scheduler.recording_file import RecordingFile
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.scheduling.recording.recording_engine import RecordingEngine


@dataclass(frozen=True, slots=True)
class Options:
    """Flags that override the configuration file, as kube-scheduler's do."""

    kubeconfig: Path | None
    leader_elect: bool | None
    host: str
    port: int
    cert_dir: Path | None
    record_file: Path | None = None
    record_limit_bytes: int = 0


_USER_AGENT = "tonnage-scheduler"
_YOUNG_OBJECTS = 20_000
"""New objects that are looked through for circles at a time; Python's own 700 are made within a pod or two."""


@click.command()
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="KubeSchedulerConfiguration."
)
@click.option(
    "--kubeconfig",
    "kubeconfig_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="How to reach the API server.",
)
@click.option("--leader-elect/--no-leader-elect", default=None, help="Place pods only while holding the lease.")
@click.option("--bind-address", default="127.0.0.1", show_default=True, help="Where health and metrics are served.")
@cert_dir_option
@click.option("--secure-port", type=click.IntRange(0, 65535), default=10259, show_default=True, help="0 serves none.")
@click.option(
    "--record",
    "record_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write down what is seen and decided, for `tonnage simulate --recording`.",
)
@click.option(
    "--record-limit",
    "record_limit",
    type=BYTES,
    default="1Gi",
    show_default=True,
    help="The recording ends at this size; the scheduler goes on.",
)
@feature_gates
@logging_options
def scheduler(
    config_file: Path | None,
    kubeconfig_file: Path | None,
    leader_elect: bool | None,
    bind_address: str,
    cert_dir: Path | None,
    secure_port: int,
    record_file: Path | None,
    record_limit: int,
    gates: Gates,
    logging_format: str,
    verbosity: int,
) -> None:
    """Place pods on any Kubernetes cluster, beside its scheduler or instead of it.

    Without --config one profile named default-scheduler runs with kube-scheduler's default plugins. Without
    --kubeconfig the configuration's, $KUBECONFIG, or the pod's own service account is used.
    """
    start_logging(logging_format, verbosity)
    for warning in gates.warnings:
        say("warning", warning)
    foreign = foreign_plugins()
    configuration = load_configuration(config_file, gates, foreign)
    for note in configuration.notes:
        say("note", note)
    options = Options(kubeconfig_file, leader_elect, bind_address, secure_port, cert_dir, record_file, record_limit)
    text = config_file.read_text(encoding="utf-8") if config_file is not None else ""
    asyncio.run(run(configuration, options, foreign, text, gates))


def kubeconfig_of(configuration: Configuration, wanted: Path | None) -> Path | None:
    """The flag, else what the configuration file names."""
    named = configuration.client_connection.kubeconfig
    return wanted or (Path(named) if named else None)


async def run(
    configuration: Configuration, options: Options, foreign: ForeignPlugins, configuration_text: str, gates: Gates
) -> None:
    """Run until SIGTERM or Ctrl-C, or until the lease is lost."""
    seed = secrets.randbits(63)
    clock, rng, registry = SystemClock(), random.Random(seed), new_registry()
    limits, election = configuration.request_limits, configuration.leader_election
    elects = election.leader_elect if options.leader_elect is None else options.leader_elect
    identity = new_identity()
    guard: Leadership | None = None
    if elects:
        guard = Leadership(
            identity,
            clock=clock,
            lease_duration_s=election.lease_duration_s,
            renew_deadline_s=election.renew_deadline_s,
        )
    async with AsyncExitStack() as stack:
        clients = await stack.enter_async_context(
            Clients.connect(
                connection_of(kubeconfig_of(configuration, options.kubeconfig)),
                clock=clock,
                user_agent=_USER_AGENT,
                qps=max(limits.qps, 0.0),
                burst=limits.burst,
                guard=guard,
                lease_timeout_s=lease_timeout_s(election.renew_deadline_s),
            )
        )
        engine_of: Callable[..., Engine] = Engine
        if options.record_file is not None:
            limit_bytes = options.record_limit_bytes
            file = stack.enter_context(RecordingFile(options.record_file, limit_bytes=limit_bytes, clock=clock))
            engine_of = partial(
                RecordingEngine,
                sink=file.take,
                seed=seed,
                version=__version__,
                configuration=configuration_text,
                feature_gates=gates.spelled(),
            )
        program = await stack.enter_async_context(
            Program(
                clients.work,
                configuration,
                clock=clock,
                rng=rng,
                registry=registry,
                identity=identity,
                foreign=foreign,
                leadership=guard,
                on_synced=_in_step,
                telling=clients.telling,
                engine_of=engine_of,
            )
        )
        elector: LeaderElector | None = None
        if guard is not None:
            elector = LeaderElector(
                clients.leases,
                f"{election.resource_namespace}/{election.resource_name}",
                identity,
                leadership=guard,
                retry_period_s=election.retry_period_s,
            )
        if options.port:
            tls = stack.enter_context(own_tls(options.cert_dir, options.host))
            address = await stack.enter_async_context(
                served(
                    host=options.host,
                    port=options.port,
                    tls=tls,
                    registry=registry,
                    is_healthy=lambda: elector is None or elector.is_healthy(),
                    is_ready=lambda: program.is_synced,
                    debug={
                        "/debug/reservations": program.reservations.listed,
                        "/debug/nominations": program.nominations.listed,
                        "/debug/assumed": program.assumed.listed,
                    },
                )
            )
            echo(f"serving health and metrics at {address}", err=True)
        await run_until_signalled(elector.run(program.run) if elector is not None else program.run())
        if isinstance(program.engine, RecordingEngine):
            program.engine.ended()


def _in_step() -> None:
    _spare_what_stays()
    say_ready()


def _spare_what_stays() -> None:
    """Keep the garbage collector from walking through the whole cluster over and over.

    What is known once the informers are in step mostly stays; what comes and goes with pods is freed by its counts, and
    the rare circle can wait. At 5,000 nodes decisions took about a sixth less in one comparison.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
