"""KubeSchedulerConfiguration v1: the file that says how this scheduler works, read strictly.

    configuration = load("scheduler.yaml")
    profile = configuration.profiles[0]
    profile.plugins_at("filter")                # ((name, weight), …) in the order they run
    profile.args_of(NodeResourcesFitArgs)       # typed, with defaults

A file that kube-scheduler 1.36 accepts is accepted unchanged and means the same: the same defaults, the same plugins in
the same order, the same refusals in the same words (tests/parity holds us to it). Two exceptions: a file with extenders
is refused, because we have none, and StorageCapacityScoring is on unless it is switched off. What is accepted without
effect is said in `notes`.

The way of a file: text -> document (`configuration_text`) -> records (`configuration_reading`) -> defaults and rules
(here, `profile` and `plugin_args`) -> plugins of each profile (`profile_plugins`). Each step tells all it does not like
before the next one starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tonnage.gates import Gates
from tonnage.objects.fielderrors import Errors, duplicate, invalid
from tonnage.objects.meta import Record
from tonnage.scheduling.configuration_errors import ConfigurationError, Problem, Problems, broken_rules, refuse
from tonnage.scheduling.configuration_reading import Int64, Seconds, Section, read
from tonnage.scheduling.configuration_text import document_of
from tonnage.scheduling.durations import format_duration
from tonnage.scheduling.plugin_args import GROUP_VERSION, PluginArgs
from tonnage.scheduling.plugin_catalogue import KnownPlugin, catalogue_with
from tonnage.scheduling.profile import (
    DEFAULT_SCHEDULER_NAME,
    Profile,
    ResolvedProfile,
    notes_on,
    percentage_errors,
    percentage_notes,
    profile_errors,
    queue_sort_errors,
    queue_sort_problems,
    read_args,
    resolved,
)

__all__ = [
    "ClientConnection",
    "Configuration",
    "ConfigurationError",
    "LeaderElection",
    "ResolvedProfile",
    "default_configuration",
    "load",
    "parse",
]

KIND = "KubeSchedulerConfiguration"


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
    """How to reach the API server; an empty `kubeconfig` means the one inside a cluster."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class Configuration(Record):
    """A configuration in force: defaults filled in, rules checked, plugins resolved.

    `source` is the file it came from, `notes` are sentences about what it says without effect.
    """

    profiles: tuple[ResolvedProfile, ...]
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    delay_cache_until_active: bool = False
    source: str = ""
    notes: tuple[str, ...] = ()

    def profile_named(self, scheduler_name: str) -> ResolvedProfile | None:
        """The profile that a pod with this schedulerName asks for."""
        return next((profile for profile in self.profiles if profile.scheduler_name == scheduler_name), None)


class _File(Section):
    """What may stand in a file."""

    gone = {
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


def load(path: str | Path, *, known_plugins: Iterable[KnownPlugin] = (), gates: Gates | None = None) -> Configuration:
    """Read a configuration file. Raises ConfigurationError, also when there is no such file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        problem = Problem("", None, f"byte {exc.start} is not UTF-8 text", "save the file as UTF-8")
        raise ConfigurationError(str(path), [problem]) from exc
    except OSError as exc:
        problem = Problem(
            "", None, f"the file cannot be read: {exc.strerror}", "name a KubeSchedulerConfiguration file"
        )
        raise ConfigurationError(str(path), [problem]) from exc
    return parse(text, source=str(path), known_plugins=known_plugins, gates=gates)


def parse(
    text: str, *, source: str, known_plugins: Iterable[KnownPlugin] = (), gates: Gates | None = None
) -> Configuration:
    """Read a configuration, YAML or JSON; `source` is what errors call it.

    `known_plugins` are the plugins of others that profiles may name. Raises ConfigurationError.
    """
    problems: Problems = []
    notes: list[str] = []
    doc = document_of(text, problems, notes)
    if doc is not None or not problems:
        problems += _head_problems(doc)
    if not isinstance(doc, dict):
        refuse(source, problems)
    file = read(_File, doc, "", problems)
    args = [read_args(profile, f"profiles[{idx}]", problems) for idx, profile in enumerate(file.profiles)]
    refuse(source, problems)
    return _in_force(file, args, source, known_plugins, gates or Gates(), notes)


def default_configuration(*, known_plugins: Iterable[KnownPlugin] = (), gates: Gates | None = None) -> Configuration:
    """What holds without a file."""
    return _in_force(_File(), [], "the default configuration", known_plugins, gates or Gates(), [])


def _head_problems(doc: Any) -> Problems:
    """What says that this is another file, or none at all."""
    remedy = f"write apiVersion: {GROUP_VERSION} and kind: {KIND}"
    if doc is None:
        return [Problem("", None, "the file is empty", remedy)]
    if not isinstance(doc, dict):
        return []  # `read` says it better
    version, kind = doc.get("apiVersion"), doc.get("kind")
    if not kind:
        return [Problem("kind", kind, "Object 'Kind' is missing", remedy)]
    if not version:
        return [Problem("apiVersion", version, "Object 'apiVersion' is missing", remedy)]
    if version == GROUP_VERSION and kind != KIND:
        return [Problem("kind", kind, f"couldn't decode as {KIND}, got {version}, Kind={kind}", remedy)]
    if version != GROUP_VERSION:
        return [Problem("apiVersion", version, f'no kind "{kind}" is registered for version "{version}"', remedy)]
    return []


def _in_force(
    file: _File,
    args: list[dict[str, Any]],
    source: str,
    known_plugins: Iterable[KnownPlugin],
    gates: Gates,
    notes: list[str],
) -> Configuration:
    catalogue = catalogue_with(known_plugins)
    file = _with_defaults(file)
    args = [_defaulted(each, gates) for each in args or [{}]]
    refuse(source, _rule_problems(file, args, gates))

    problems: Problems = []
    profiles: list[ResolvedProfile] = []
    for idx, profile in enumerate(file.profiles):
        profiles.append(resolved(profile, args[idx], f"profiles[{idx}]", catalogue, gates, problems))
        notes += notes_on(profile, f"profiles[{idx}]", catalogue)
    refuse(source, problems or list(queue_sort_problems(profiles)))

    if file.percentage_of_nodes_to_score is not None:
        notes += percentage_notes(file.percentage_of_nodes_to_score, "percentageOfNodesToScore")
    return Configuration(
        profiles=tuple(profiles),
        parallelism=file.parallelism,
        leader_election=file.leader_election,
        client_connection=file.client_connection,
        enable_profiling=file.enable_profiling,
        enable_contention_profiling=bool(file.enable_contention_profiling),
        percentage_of_nodes_to_score=file.percentage_of_nodes_to_score or 0,
        pod_initial_backoff_seconds=file.pod_initial_backoff_seconds,
        pod_max_backoff_seconds=file.pod_max_backoff_seconds,
        delay_cache_until_active=file.delay_cache_until_active,
        source=source,
        notes=tuple(notes),
    )


def _with_defaults(file: _File) -> _File:
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


def _defaulted(args: Mapping[str, Any], gates: Gates) -> dict[str, Any]:
    return {name: each.with_defaults(gates) if isinstance(each, PluginArgs) else each for name, each in args.items()}


def _rule_problems(file: _File, args: list[dict[str, Any]], gates: Gates) -> Problems:
    """Mirrors ValidateKubeSchedulerConfiguration."""
    errors: Errors = []
    if file.client_connection.burst < 0:
        errors.append(invalid("clientConnection.burst", file.client_connection.burst, "must be non-negative"))
    errors += _leader_election_errors(file.leader_election, "leaderElection")
    if file.parallelism <= 0:
        errors.append(invalid("parallelism", file.parallelism, "should be an integer value greater than zero"))
    names: set[str | None] = set()
    for idx, profile in enumerate(file.profiles):
        errors += profile_errors(profile, args[idx], f"profiles[{idx}]", gates)
        if profile.scheduler_name in names:
            errors.append(duplicate(f"profiles[{idx}].schedulerName", profile.scheduler_name))
        names.add(profile.scheduler_name)
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
