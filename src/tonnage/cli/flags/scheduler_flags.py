"""How the flags of `tonnage scheduler` change its configuration.

`kube_scheduler.toml` has every flag of kube-scheduler 1.36: with its meaning, or with the reason why it has none.
Beside --config the flags of leader election count and deprecated flags do not, with a warning: upstream's rule
(Options.ApplyTo). Only --kubeconfig differs and always counts, because a configuration seldom names its cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from tonnage.cli.flags.leader_election import check_times
from tonnage.cli.options import Flags

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


VERSIONS: Final = {name: {"callback": _version} for name in ("emulated_version", "min_compatibility_version")}
"""What `kube_scheduler.toml` cannot say."""


def configured(configuration: Configuration, flags: Flags) -> tuple[Configuration, list[str]]:
    """The configuration changed by the flags, and warnings to print. Raises UsageError."""
    warnings: list[str] = []
    given = [name for name in DEPRECATED if flags[name] is not None]
    if flags["config_file"] is None:
        configuration = _with_deprecated(configuration, flags)
    else:
        warnings += [
            f"--{name.replace('_', '-')} does not count beside --config: write it in {flags['config_file']}"
            for name in given
        ]
        named = configuration.client_connection.kubeconfig
        if named and flags["kubeconfig_file"] is not None and str(flags["kubeconfig_file"]) != named:
            warnings.append(
                f"--kubeconfig {flags['kubeconfig_file']} counts, and {named} of the configuration does not"
            )
    election = _elected(configuration.leader_election, flags)
    if election.leader_elect:
        check_times(election)
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


def _elected(election: LeaderElection, flags: Flags) -> LeaderElection:
    told = {"leader_elect": flags["leader_elect"]}
    for name in ("lease_duration", "renew_deadline", "retry_period"):
        told[f"{name}_s"] = flags[f"leader_elect_{name}"]
    for name in ("resource_lock", "resource_name", "resource_namespace"):
        told[name] = flags[f"leader_elect_{name}"]
    return msgspec.structs.replace(election, **{name: value for name, value in told.items() if value is not None})
