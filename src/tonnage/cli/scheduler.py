"""`tonnage scheduler`: the live scheduler, against any Kubernetes API server, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import random
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from tonnage import __version__
from tonnage.cli.flags.access_flags import access_options
from tonnage.cli.flags.election_flags import leader_elect_option, lease_place_options, lease_time_options
from tonnage.cli.flags.go_flags import FILE, GoCommand, version_flag
from tonnage.cli.flags.metric_flags import metric_options
from tonnage.cli.flags.scheduler_flags import SchedulerFlags, configured, kube_scheduler_options, removed_options
from tonnage.cli.flags.secure_endpoint import checked, secure_endpoint
from tonnage.cli.flags.serving_flags import serving_options
from tonnage.cli.options import BYTES, feature_gates, logging_options, start_logging
from tonnage.cli.output import say
from tonnage.cli.running import connection_of, run_until_signalled, say_ready
from tonnage.clock import SystemClock
from tonnage.errors import TonnageError

if TYPE_CHECKING:
    from tonnage.client.leader import LeaderElector
    from tonnage.client.leadership import Leadership
    from tonnage.scheduler.pod_traces import Tracer
    from tonnage.scheduling.configuration.configuration import Configuration
    from tonnage.scheduling.engine.engine import Engine
    from tonnage.scheduling.plugins.registry import ForeignPlugins

_USER_AGENT = "tonnage-scheduler"
_YOUNG_OBJECTS = 20_000
"""New objects that are looked through for circles at a time; Python's own 700 are made within a pod or two."""


@click.command(cls=GoCommand)
@click.option("--config", "config_file", type=FILE, help="KubeSchedulerConfiguration.")
@click.option("--kubeconfig", "kubeconfig_file", type=FILE, help="How to reach the API server.")
@click.option("--master", default="", metavar="URL", help="The API server's address, instead of the kubeconfig's.")
@click.option("--write-config-to", type=FILE, help="Write the configuration that is in force to this file, and end.")
@leader_elect_option(default=None, help="Place pods only while holding the lease.  [default: true]")
@lease_time_options
@lease_place_options("kube-scheduler")
@serving_options(port=10259)
@access_options
@metric_options
@kube_scheduler_options
@removed_options
@click.option(
    "--record",
    "record_file",
    type=FILE,
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
@click.option(
    "--tracing-config-file",
    "tracing_file",
    type=FILE,
    help="TracingConfiguration: send traces of pods there. Needs `pip install tonnage[tracing]`.",
)
@feature_gates
@logging_options
@version_flag("following kube-scheduler 1.36")
def scheduler(**flags: Unpack[SchedulerFlags]) -> None:
    """Place pods on any Kubernetes cluster, beside its scheduler or instead of it.

    Without --config one profile named default-scheduler runs with kube-scheduler's default plugins. Without
    --kubeconfig the configuration's, $KUBECONFIG, or the pod's own service account is used. Flags have kube-scheduler's
    names and forms; docs/guides/beside-kube-scheduler.md tells the few that differ.
    """
    from tonnage.scheduler.configuration_file import check_lease, foreign_plugins, load_configuration
    from tonnage.scheduling.configuration.written import text_of

    start_logging(flags["logging_format"], flags["verbosity"])
    gates, config_file = flags["gates"], flags["config_file"]
    for warning in gates.warnings:
        say("warning", warning)
    checked(flags)
    foreign = foreign_plugins()
    configuration = load_configuration(config_file, gates, foreign)
    for note in configuration.notes:
        say("note", note)
    configuration, warnings = configured(configuration, flags)
    for warning in filter(None, (*warnings, check_lease(configuration))):
        say("warning", warning)
    if flags["write_config_to"] is not None:
        _write(flags["write_config_to"], text_of(configuration))
        return
    text = config_file.read_text(encoding="utf-8") if config_file is not None else ""
    asyncio.run(run(configuration, flags, foreign, text))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise TonnageError(f"{path} cannot be written: {exc.strerror}") from exc
    say("note", f"the configuration was written to {path}")


def kubeconfig_of(configuration: Configuration, wanted: Path | None) -> Path | None:
    """The flag, else what the configuration file names."""
    named = configuration.client_connection.kubeconfig
    return wanted or (Path(named) if named else None)


async def run(
    configuration: Configuration, flags: SchedulerFlags, foreign: ForeignPlugins, configuration_text: str
) -> None:
    """Run until SIGTERM or Ctrl-C, or until the lease is lost."""
    from tonnage.client.clients import Clients, lease_timeout_s
    from tonnage.client.leader import LeaderElector, new_identity
    from tonnage.client.leadership import Leadership
    from tonnage.client.metrics import RestClientMetrics, show_leadership
    from tonnage.metrics import new_registry
    from tonnage.scheduler.program import SchedulerProgram
    from tonnage.scheduler.recording_file import RecordingFile
    from tonnage.scheduling.configuration.written import document_of
    from tonnage.scheduling.engine.engine import Engine
    from tonnage.scheduling.recording.recording_engine import RecordingEngine
    from tonnage.serving import profiling

    seed = secrets.randbits(63)
    clock, rng, registry = SystemClock(), random.Random(seed), new_registry()
    limits, election = configuration.request_limits, configuration.leader_election
    connection = connection_of(kubeconfig_of(configuration, flags["kubeconfig_file"]), flags["master"])
    identity = new_identity()
    guard: Leadership | None = None
    if election.leader_elect:
        guard = Leadership(
            identity,
            clock=clock,
            lease_duration_s=election.lease_duration_s,
            renew_deadline_s=election.renew_deadline_s,
        )
    async with AsyncExitStack() as stack:
        clients = await stack.enter_async_context(
            Clients.connect(
                connection,
                clock=clock,
                user_agent=_USER_AGENT,
                on_request=RestClientMetrics(registry).of(connection.cluster.server),
                qps=max(limits.qps, 0.0),
                burst=limits.burst,
                guard=guard,
                lease_timeout_s=lease_timeout_s(election.renew_deadline_s),
            )
        )
        engine_of: Callable[..., Engine] = Engine
        if flags["record_file"] is not None:
            limit_bytes = flags["record_limit"]
            file = stack.enter_context(RecordingFile(flags["record_file"], limit_bytes=limit_bytes, clock=clock))
            engine_of = partial(
                RecordingEngine,
                sink=file.take,
                seed=seed,
                version=__version__,
                configuration=configuration_text,
                feature_gates=flags["gates"].spelled(),
            )
        program = await stack.enter_async_context(
            SchedulerProgram(
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
                tracer=_tracer_of(flags["tracing_file"]),
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
        show_leadership(registry, lambda: () if elector is None else (elector,))
        await stack.enter_async_context(
            secure_endpoint(
                flags,
                connection,
                registry=registry,
                is_healthy=lambda: elector is None or elector.is_healthy(),
                is_ready=lambda: program.is_synced,
                debug={
                    "/configz": lambda: {"componentconfig": document_of(configuration)},
                    "/debug/reservations": program.reservations.listed,
                    "/debug/nominations": program.nominations.listed,
                    "/debug/assumed": program.assumed.listed,
                },
                pages=profiling.pages(clock) if configuration.enable_profiling else None,
                clock=clock,
                rng=random.Random(secrets.randbits(63)),  # not the decisions' own, which repeat by their seed
                user_agent=_USER_AGENT,
            )
        )
        await run_until_signalled(elector.run(program.run) if elector is not None else program.run())
        if isinstance(program.engine, RecordingEngine):
            program.engine.ended()


def _tracer_of(file: Path | None) -> Tracer | None:
    """What sends traces, where they are asked for. Raises TonnageError, which says what is missing."""
    from tonnage import __version__

    if file is None:
        return None
    from tonnage.scheduler.open_telemetry import load, open_tracer

    return open_tracer(load(file), service=_USER_AGENT, version=__version__)


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
