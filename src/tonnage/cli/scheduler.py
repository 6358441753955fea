"""`tonnage scheduler`: run the live scheduler against any Kubernetes API server until it is stopped."""

from __future__ import annotations

import asyncio
import random
import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage import __version__
from tonnage.cli.flags.endpoint_flags import check_endpoint, endpoint_options
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.flags.go_flags import Election, GoCommand, lease_place_options, lease_time_options, version_flag
from tonnage.cli.flags.scheduler_flags import configured, kube_scheduler_options, lease_times, removed_options
from tonnage.cli.output import Flags, feature_gates, logging_options, say, say_all
from tonnage.cli.running import connected, connection_of, run_until_signalled, say_ready
from tonnage.errors import TonnageError
from tonnage.serving.process_memory import settle

if TYPE_CHECKING:
    from tonnage.scheduler.pod_traces import Tracer
    from tonnage.scheduling.configuration.configuration import Configuration

_USER_AGENT = "tonnage-scheduler"


@click.command(cls=GoCommand)
@flag_table("""
    --config as config_file FILE?  KubeSchedulerConfiguration file of the scheduler.
    --kubeconfig as kubeconfig_file FILE?  How to reach the API server.
    --master TEXT= <URL>  URL of the API server, instead of the one in the kubeconfig.
    --write-config-to FILE?  Write the configuration in force to this file, and exit.
    --leader-elect SWITCH  Place pods only while holding the lease, so that several schedulers can run. [default: true]
""")
@lease_time_options
@lease_place_options("kube-scheduler")
@endpoint_options(port=10259)
@kube_scheduler_options
@removed_options
@flag_table("""
    --record as record_file FILE?  Record the cluster's changes and every decision to this file, for `tonnage simulate
        --recording`.
    --record-limit BYTES=1Gi  Stop recording at this size; the scheduler goes on.
    --tracing-config-file as tracing_file FILE?  TracingConfiguration that says where to send traces of pods. Needs
        `pip install tonnage[tracing]`.
""")
@feature_gates
@logging_options
@version_flag("following kube-scheduler 1.36")
def scheduler(**flags: Any) -> None:
    """Without --config one profile named default-scheduler runs with kube-scheduler's default plugins. Without
    --kubeconfig the configuration's, $KUBECONFIG, or the pod's own service account is used. Flags have kube-scheduler's
    names and forms; docs/guides/beside-kube-scheduler.md lists the few that differ.
    """
    from tonnage.scheduler.configuration_file import check_lease, load_configuration
    from tonnage.scheduling.configuration.configuration import text_of

    gates, config_file = flags["gates"], flags["config_file"]
    say_all("warning", gates.warnings)
    check_endpoint(flags)
    configuration = load_configuration(config_file, gates)
    say_all("note", configuration.notes)
    configuration, warnings = configured(configuration, flags)
    say_all("warning", filter(None, (*warnings, check_lease(configuration))))
    if flags["write_config_to"] is not None:
        _write(flags["write_config_to"], text_of(configuration))
        return
    text = config_file.read_text(encoding="utf-8") if config_file is not None else ""
    import uvloop  # reading and writing TLS connections costs a fifth of the scheduler's time less than with asyncio

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(configuration, flags, text))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise TonnageError(f"{path} cannot be written: {exc.strerror}") from exc
    say("note", f"the configuration was written to {path}")


async def run(configuration: Configuration, flags: Flags, configuration_text: str) -> None:
    """Run until SIGTERM or Ctrl-C, or until the lease is lost."""
    from tonnage.scheduler.program import SchedulerProgram
    from tonnage.scheduling.configuration.configuration import document_of
    from tonnage.scheduling.engine.engine import Engine

    seed = secrets.randbits(63)
    limits, election = configuration.request_limits, configuration.leader_election
    named = configuration.client_connection.kubeconfig
    connection = connection_of(flags["kubeconfig_file"] or (Path(named) if named else None), flags["master"])
    async with connected(
        _USER_AGENT,
        connection,
        Election(election.leader_elect, lease_times(election)),
        rng=random.Random(seed),
        qps=max(limits.qps, 0.0),
        burst=limits.burst,
    ) as running:
        engine_of: Any = Engine
        if flags["record_file"] is not None:
            from tonnage.scheduler.recording_file import RecordingFile
            from tonnage.scheduling.recording.recording_engine import RecordingEngine

            file = running.enter_nowait(
                RecordingFile(flags["record_file"], limit_bytes=flags["record_limit"], clock=running.runtime.clock)
            )
            engine_of = partial(
                RecordingEngine,
                sink=file.take,
                seed=seed,
                version=__version__,
                configuration=configuration_text,
                feature_gates=str(flags["gates"]),
            )
        program = await running.enter(
            SchedulerProgram(
                running.runtime,
                configuration,
                on_synced=_in_step,
                engine_of=engine_of,
                tracer=_tracer_of(flags["tracing_file"]),
            )
        )
        await running.serve_securely(
            flags,
            is_ready=lambda: program.is_synced,
            debug={
                "/configz": lambda: {"componentconfig": document_of(configuration)},
                "/debug/reservations": program.pages.reservations,
                "/debug/nominations": program.pages.nominations,
                "/debug/assumed": program.pages.assumed,
            },
            shows_profiles=configuration.enable_profiling,
        )
        await run_until_signalled(running.led(program.run, f"{election.resource_namespace}/{election.resource_name}"))
        if flags["record_file"] is not None:
            recording: Any = program.engine
            recording.ended()


def _tracer_of(file: Path | None) -> Tracer | None:
    """A tracer configured by the file; None without a file. Raises TonnageError, which says what is missing."""
    if file is None:
        return None
    from tonnage.scheduler.open_telemetry import load, open_tracer

    return open_tracer(load(file), service=_USER_AGENT, version=__version__)


def _in_step() -> None:
    """The cluster's objects are loaded."""
    settle()
    say_ready()
