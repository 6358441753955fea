"""What may stand in a KubeSchedulerConfiguration v1, what is meant by what is left out, and which rules it must obey.

`ConfigurationFile` is the file as it was read. `with_defaults` mirrors SetDefaults_KubeSchedulerConfiguration and
`rule_problems` ValidateKubeSchedulerConfiguration (pkg/scheduler/apis/config of 1.36, with component-base's sections),
sentence by sentence. `configuration` is the way in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from tonnage.durations import format_duration
from tonnage.gates import Gates
from tonnage.objects.field_errors import Errors, duplicate, invalid
from tonnage.objects.meta import Record
from tonnage.scheduling.configuration.errors import Problem, Problems, broken_rules
from tonnage.scheduling.configuration.profile import (
    DEFAULT_SCHEDULER_NAME,
    Profile,
    percentage_errors,
    profile_errors,
    queue_sort_errors,
)
from tonnage.scheduling.configuration.strict_decoding import Int64, Seconds, Section


class LeaderElection(Section):
    """Who of several schedulers works: the holder of a Lease, renewed every `retry_period_s`."""

    leader_elect: bool = True
    lease_duration_s: Seconds = msgspec.field(name="leaseDuration", default=15.0)
    renew_deadline_s: Seconds = msgspec.field(name="renewDeadline", default=10.0)
    retry_period_s: Seconds = msgspec.field(name="retryPeriod", default=2.0)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(Section):
    """How to reach the API server; an empty `kubeconfig` means the one inside a cluster.

    Defaults are kube-scheduler's, so that a file means what it means there. How many requests are sent where a file
    does not say stands in `RequestLimits`.
    """

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class RequestLimits(Record):
    """How many requests are sent a second, and at once; a negative `qps` is no limit.

    What `clientConnection` says counts. Where it says nothing, kube-scheduler sends 50 a second, which is all that it
    places, for a binding is a request. We decide over a thousand pods a second; so many requests are let through, and
    the rest is left to the server, which knows better than any client what it can bear (priority and fairness).
    """

    qps: float = 1000.0
    burst: int = 2000

    @staticmethod
    def of(given: Mapping[str, Any], client_connection: ClientConnection) -> RequestLimits:
        """`given` is what stands in the file, `client_connection` the same with kube-scheduler's defaults. 0 is not
        given; a `qps` without a `burst` has kube-scheduler's.
        """
        if given.get("qps"):
            return RequestLimits(qps=client_connection.qps, burst=client_connection.burst)
        return RequestLimits(burst=client_connection.burst) if given.get("burst") else RequestLimits()


class ConfigurationFile(Section):
    """What may stand in a file."""

    gone: ClassVar[Mapping[str, str]] = {
        "healthzBindAddress": "take it away and start with --bind-address and --secure-port; /healthz is served there",
        "metricsBindAddress": "take it away and start with --bind-address and --secure-port; /metrics is served there",
        "algorithmSource": "take it away and write profiles",
        "hardPodAffinitySymmetricWeight": "write hardPodAffinityWeight in the args of InterPodAffinity",
        "schedulerName": "write it in a profile: profiles: [{schedulerName: …}]",
        "disablePreemption": "disable DefaultPreemption at postFilter in a profile",
        "bindTimeoutSeconds": "write it in the args of VolumeBinding",
        "plugins": "write them in a profile: profiles: [{plugins: …}]",
        "pluginConfig": "write it in a profile: profiles: [{pluginConfig: …}]",
    }

    api_version: str = ""
    kind: str = ""
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Any, ...] = ()
    delay_cache_until_active: bool = False


def with_defaults(file: ConfigurationFile) -> ConfigurationFile:
    """What zero means, where absent and zero are the same. Mirrors SetDefaults_KubeSchedulerConfiguration."""
    profiles = file.profiles or (Profile(),)
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        profiles = (msgspec.structs.replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    contention = file.enable_contention_profiling
    return msgspec.structs.replace(
        file,
        profiles=profiles,
        leader_election=_zeros_replaced(file.leader_election, LeaderElection()),
        client_connection=_zeros_replaced(file.client_connection, ClientConnection()),
        enable_contention_profiling=file.enable_profiling if contention is None else contention,
    )


def _zeros_replaced(given: Any, default: Any) -> Any:
    """`given` with defaults for empty text and 0; a truth value is what it says."""
    fields = [each for each in msgspec.structs.fields(given) if each.type is not bool]
    return msgspec.structs.replace(
        given, **{each.name: getattr(given, each.name) or getattr(default, each.name) for each in fields}
    )


def rule_problems(file: ConfigurationFile, args: Sequence[Sequence[Any]], gates: Gates) -> Problems:
    """Mirrors ValidateKubeSchedulerConfiguration."""
    errors: Errors = []
    if file.client_connection.burst < 0:
        errors.append(invalid("clientConnection.burst", file.client_connection.burst, "must be non-negative"))
    errors += _leader_election_errors(file.leader_election, "leaderElection")
    if file.parallelism <= 0:
        errors.append(invalid("parallelism", file.parallelism, "should be an integer value greater than zero"))
    names: set[str] = set()
    for idx, profile in enumerate(file.profiles):
        errors += profile_errors(profile, args[idx], f"profiles[{idx}]", gates)
        name = profile.scheduler_name or ""
        if name in names:
            errors.append(duplicate(f"profiles[{idx}].schedulerName", name))
        names.add(name)
    errors += queue_sort_errors(file.profiles)
    errors += percentage_errors(file.percentage_of_nodes_to_score, "percentageOfNodesToScore")
    initial, most = file.pod_initial_backoff_seconds, file.pod_max_backoff_seconds
    if initial <= 0:
        errors.append(invalid("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if most < initial:
        told = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(invalid("podMaxBackoffSeconds", most, told))
    problems = broken_rules(errors)
    if file.extenders:
        told = "extenders: Forbidden: extenders are not supported"
        remedy = "take the section away; what an extender decides can be decided by a plugin in Python"
        problems.append(Problem("extenders", list(file.extenders), told, remedy))
    return problems


def _leader_election_errors(election: LeaderElection, path: str) -> Errors:
    """Nothing is looked at while leader election is off."""
    if not election.leader_elect:
        return []
    errors: Errors = []
    lease_s, renew_s, retry_s = election.lease_duration_s, election.renew_deadline_s, election.retry_period_s
    for name, seconds in (("leaseDuration", lease_s), ("renewDeadline", renew_s), ("retryPeriod", retry_s)):
        if seconds <= 0:
            errors.append(invalid(f"{path}.{name}", format_duration(seconds), "must be greater than zero"))
    if lease_s <= renew_s:
        # Upstream shows the deadline here, not the lease; the sentence is kept as it is.
        told = "must be greater than `RenewDeadline`"
        errors.append(invalid(f"{path}.leaseDuration", format_duration(renew_s), told))
    if election.resource_lock != "leases":
        told = 'resourceLock value must be "leases"'
        errors.append(invalid(f"{path}.resourceLock", election.resource_lock, told))
    return errors
