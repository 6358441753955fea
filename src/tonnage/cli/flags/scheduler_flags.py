"""The flags of `tonnage scheduler`, and how they change its configuration.

Every flag of kube-scheduler 1.36 is here: with its meaning, or with the reason why it has none. Beside --config the
flags of leader election count and deprecated flags do not, with a warning: upstream's rule (Options.ApplyTo). Only
--kubeconfig differs and always counts, because a configuration seldom names its cluster. Flags that older releases of
kube-scheduler had are refused with a remedy: manifests of older clusters still carry them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from tonnage.cli.flags.flag_table import flag_table, switch
from tonnage.cli.flags.go_flags import check_times, ignored, refused
from tonnage.cli.output import Flags, options
from tonnage.client.leadership import LeaseTimes

if TYPE_CHECKING:
    from tonnage.scheduling.configuration.configuration import Configuration, LeaderElection

KUBERNETES: Final = "1.36"
DEPRECATED: Final = ("profiling", "contention_profiling", "kube_api_qps", "kube_api_burst", "kube_api_content_type")
"""Deprecated flags: they have no effect beside --config."""


def _version(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Check `1.36`, `v1.36` or `kube=1.36`: the only version there is."""
    for each in (value or "").split(","):
        told = each.strip().removeprefix("kube=").removeprefix("v")
        if told and told != KUBERNETES:
            name = param.opts[0]
            raise click.UsageError(
                f"{name}={value} is not supported: Tonnage decides as Kubernetes {KUBERNETES} does; leave {name} out",
                ctx,
            )


kube_scheduler_options: Final = options(
    flag_table("""
        --profiling SWITCH  Serve stacks and profiles at /debug/pprof/ to users who may read that path. [default: true]
    """),
    switch("--contention-profiling", default=None, help="No effect: there is one thread.", hidden=True),
    flag_table("""
        --kube-api-qps FLOAT  Most requests a second to the API server; below 0 is no limit. [default: 1000;
            kube-scheduler: 50]
        --kube-api-burst INT[0..]  Most requests to the API server at once. [default: 2000; kube-scheduler: 100]
    """),
    click.option(
        "--kube-api-content-type",
        type=click.Choice(["application/vnd.kubernetes.protobuf", "application/json"]),
        default=None,
        hidden=True,
        help="No effect: requests are JSON.",
    ),
    flag_table("""
        --pod-max-in-unschedulable-pods-duration as pod_max_in_unschedulable_pods_duration DURATION=5m0s  How long an
            unschedulable pod waits before it is tried again although nothing has changed.
    """),
    # Upstream's flags that are ignored or refused here.
    click.option("--emulated-version", default=None, callback=_version, expose_value=False, hidden=True),
    click.option("--min-compatibility-version", default=None, callback=_version, expose_value=False, hidden=True),
    ignored("--log-flush-frequency", because="log lines are not held back"),
    ignored("--log-text-split-stream", only=("false",), because="stdout is for data, log lines go to stderr"),
    ignored("--log-json-split-stream", only=("false",), because="stdout is for data, log lines go to stderr"),
    ignored("--log-text-info-buffer-size", only=("0",), because="log lines are not held back"),
    ignored("--log-json-info-buffer-size", only=("0",), because="log lines are not held back"),
    refused(
        "--vmodule",
        because="log lines are not chosen by file",
        instead="raise --v, and pick the loggers you want: every line names its own",
    ),
)
"""kube-scheduler's flags except serving, access, leader election and metrics."""


def configured(configuration: Configuration, flags: Flags) -> tuple[Configuration, list[str]]:
    """The configuration changed by the flags, and warnings to print. Raises UsageError."""
    warnings: list[str] = []
    given = [name for name in DEPRECATED if flags[name] is not None]
    if flags["config_file"] is None:
        configuration = _with_deprecated(configuration, flags)
    else:
        warnings += [
            f"--{name.replace('_', '-')} is ignored with --config: write it in {flags['config_file']}" for name in given
        ]
        named = configuration.client_connection.kubeconfig
        if named and flags["kubeconfig_file"] is not None and str(flags["kubeconfig_file"]) != named:
            warnings.append(
                f"--kubeconfig {flags['kubeconfig_file']} counts, and {named} of the configuration does not"
            )
    election = _elected(configuration.leader_election, flags)
    if election.leader_elect:
        check_times(lease_times(election))
        for name in ("resource_name", "resource_namespace"):
            if not getattr(election, name):
                raise click.UsageError(f"--leader-elect-{name.replace('_', '-')} is empty: name the lease")
    return (
        msgspec.structs.replace(
            configuration,
            leader_election=election,
            pod_max_in_unschedulable_s=flags["pod_max_in_unschedulable_pods_duration"],
        ),
        warnings,
    )


def _with_deprecated(configuration: Configuration, flags: Flags) -> Configuration:
    from tonnage.scheduling.configuration.configuration import RequestLimits

    connection, limits = configuration.client_connection, configuration.request_limits
    qps, burst = flags["kube_api_qps"], flags["kube_api_burst"]
    if qps:
        limits = RequestLimits(qps=qps, burst=burst or connection.burst)
    elif burst:
        limits = RequestLimits(burst=burst)
    profiling, contention = flags["profiling"], flags["contention_profiling"]
    return msgspec.structs.replace(
        configuration,
        request_limits=limits,
        enable_profiling=configuration.enable_profiling if profiling is None else profiling,
        enable_contention_profiling=configuration.enable_contention_profiling if contention is None else contention,
    )


def lease_times(election: LeaderElection) -> LeaseTimes:
    return LeaseTimes(election.lease_duration_s, election.renew_deadline_s, election.retry_period_s)


def _elected(election: LeaderElection, flags: Flags) -> LeaderElection:
    told = {"leader_elect": flags["leader_elect"]}
    for name in ("lease_duration", "renew_deadline", "retry_period"):
        told[f"{name}_s"] = flags[f"leader_elect_{name}"]
    for name in ("resource_lock", "resource_name", "resource_namespace"):
        told[name] = flags[f"leader_elect_{name}"]
    return msgspec.structs.replace(election, **{name: value for name, value in told.items() if value is not None})


_POLICY: Final = ("1.23", "write plugins and their weights into the profiles of --config (KubeSchedulerConfiguration)")
_LOGS: Final = ("1.26", "leave it out: log lines go to stderr, --v says how many and --logging-format in which form")
_LEASE: Final = "name the lease with --leader-elect-resource-{} or leaderElection in --config"

REMOVED: Final[dict[str, tuple[str, str]]] = {
    "--port": ("1.24", "leave it out: nothing is served without TLS, and --secure-port=0 serves nothing at all"),
    "--address": ("1.24", "use --bind-address"),
    "--policy-config-file": _POLICY,
    "--policy-configmap": _POLICY,
    "--policy-configmap-namespace": _POLICY,
    "--use-legacy-policy-config": _POLICY,
    "--algorithm-provider": _POLICY,
    "--hard-pod-affinity-symmetric-weight": ("1.23", "write hardPodAffinityWeight into InterPodAffinityArgs"),
    "--scheduler-name": ("1.23", "write schedulerName into a profile of --config"),
    "--lock-object-name": ("1.23", _LEASE.format("name")),
    "--lock-object-namespace": ("1.23", _LEASE.format("namespace")),
    **dict.fromkeys(
        (
            *("--logtostderr", "--alsologtostderr", "--stderrthreshold", "--log-dir", "--log-file"),
            *("--log-file-max-size", "--log-backtrace-at", "--add-dir-header", "--skip-headers"),
            *("--skip-log-headers", "--one-output"),
        ),
        _LOGS,
    ),
}
"""Flag: the release that removed it, and what to do instead."""


removed_options: Final = options(
    *(
        refused(name, because=f"kube-scheduler {release} and later do not have it either", instead=instead)
        for name, (release, instead) in REMOVED.items()
    )
)
