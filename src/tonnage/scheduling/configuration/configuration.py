"""KubeSchedulerConfiguration v1: the scheduler's configuration file, read strictly.

A file that kube-scheduler 1.36 accepts is accepted and means the same (tests/parity), with two exceptions: a file with
extenders is refused, and StorageCapacityScoring is on by default. Settings without effect are listed in `notes`.

The steps: text -> document -> records (`strict_decoding`) -> defaults and rules (here, `profile` and `plugin_args`) ->
plugins of each profile (`profile_plugins`). Each step reports all its problems before the next one starts.
`with_defaults` mirrors SetDefaults_KubeSchedulerConfiguration, `rule_problems` ValidateKubeSchedulerConfiguration.

`document_of` writes a configuration in force as a file again, like kube-scheduler's --write-config-to and /configz:
defaults filled in, plugins spelled out. Reading it gives the same configuration. All plugins are named in order and the
default set is disabled, so that the file means the same to a version with another default set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

import msgspec
import yaml

from tonnage.clock import format_duration
from tonnage.gates import Gates
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, duplicate, invalid
from tonnage.objects.meta import Record
from tonnage.scheduling.configuration import strict_decoding
from tonnage.scheduling.configuration.plugin_args import GROUP_VERSION, PluginArgs
from tonnage.scheduling.configuration.profile import (
    DEFAULT_SCHEDULER_NAME,
    Profile,
    ResolvedProfile,
    broken_rules,
    notes_on,
    percentage_errors,
    percentage_notes,
    profile_errors,
    queue_sort_errors,
    queue_sort_problems,
    read_args,
    resolved,
)
from tonnage.scheduling.configuration.profile_plugins import (
    EVERY,
    ExtensionPoint,
    KnownPlugin,
    PluginWeight,
    catalogue_with,
)


class LeaderElection(strict_decoding.Section):
    """Leader election: the scheduler that holds the Lease works, and renews it every `retry_period_s`."""

    leader_elect: bool = True
    lease_duration_s: strict_decoding.Seconds = msgspec.field(name="leaseDuration", default=15.0)
    renew_deadline_s: strict_decoding.Seconds = msgspec.field(name="renewDeadline", default=10.0)
    retry_period_s: strict_decoding.Seconds = msgspec.field(name="retryPeriod", default=2.0)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(strict_decoding.Section):
    """How to reach the API server; an empty `kubeconfig` means the one inside a cluster. Defaults are kube-scheduler's,
    so that a file means the same. `RequestLimits` has the limits if the file sets none."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class RequestLimits(Record):
    """Limits on requests: per second (`qps`, negative: no limit), and at once (`burst`).

    `clientConnection` decides if it is set. kube-scheduler's default of 50 per second also limits placements, because a
    binding is a request. We decide over a thousand pods a second, so we allow as many requests; the server knows better
    than a client what it can bear (priority and fairness).
    """

    qps: float = 1000.0
    burst: int = 2000

    @staticmethod
    def of(given: Mapping[str, Any], client_connection: ClientConnection) -> RequestLimits:
        """`given`: the fields in the file; `client_connection`: the same with kube-scheduler's defaults. 0 counts as
        not given; a `qps` without a `burst` gets kube-scheduler's burst."""
        if given.get("qps"):
            return RequestLimits(qps=client_connection.qps, burst=client_connection.burst)
        return RequestLimits(burst=client_connection.burst) if given.get("burst") else RequestLimits()


class SchedulerSettings(strict_decoding.Section):
    """The settings of a file that a configuration in force has as well."""

    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: strict_decoding.Int64 = 1
    pod_max_backoff_seconds: strict_decoding.Int64 = 10


class ConfigurationFile(SchedulerSettings):
    """The fields of a configuration file."""

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
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Any, ...] = ()
    delay_cache_until_active: bool = False


def with_defaults(file: ConfigurationFile) -> ConfigurationFile:
    """Replace zeros by defaults where absent and zero mean the same. Mirrors SetDefaults_KubeSchedulerConfiguration."""
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
    """`given` with defaults for empty text and 0; booleans are kept."""
    fields = [field for field in msgspec.structs.fields(given) if field.type is not bool]
    return msgspec.structs.replace(
        given, **{field.name: getattr(given, field.name) or getattr(default, field.name) for field in fields}
    )


def rule_problems(file: ConfigurationFile, args: Sequence[Sequence[Any]], gates: Gates) -> strict_decoding.Problems:
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
        problems.append(strict_decoding.Problem("extenders", list(file.extenders), told, remedy))
    return problems


def _leader_election_errors(election: LeaderElection, path: str) -> Errors:
    """Nothing is checked while leader election is off."""
    if not election.leader_elect:
        return []
    errors: Errors = []
    lease_s, renew_s, retry_s = election.lease_duration_s, election.renew_deadline_s, election.retry_period_s
    for name, seconds in (("leaseDuration", lease_s), ("renewDeadline", renew_s), ("retryPeriod", retry_s)):
        if seconds <= 0:
            errors.append(invalid(f"{path}.{name}", format_duration(seconds), "must be greater than zero"))
    if lease_s <= renew_s:
        # Upstream shows the deadline here, not the lease; we keep its sentence.
        told = "must be greater than `RenewDeadline`"
        errors.append(invalid(f"{path}.leaseDuration", format_duration(renew_s), told))
    if election.resource_lock != "leases":
        told = 'resourceLock value must be "leases"'
        errors.append(invalid(f"{path}.resourceLock", election.resource_lock, told))
    return errors


KIND = "KubeSchedulerConfiguration"


class Configuration(SchedulerSettings):
    """A configuration in force: defaults filled in, rules checked, plugins resolved. `source`: the file it came from.
    `notes`: sentences about settings without effect."""

    profiles: tuple[ResolvedProfile, ...]
    request_limits: RequestLimits = RequestLimits()
    delay_cache_until_active: bool = False
    pod_max_in_unschedulable_s: float = 300.0
    """Not from the file: kube-scheduler has a flag for it."""
    source: str = ""
    notes: tuple[str, ...] = ()

    def profile_named(self, scheduler_name: str) -> ResolvedProfile | None:
        """The profile for pods with this schedulerName."""
        return next((profile for profile in self.profiles if profile.scheduler_name == scheduler_name), None)


def parse(
    text: str, *, source: str, known_plugins: Iterable[KnownPlugin] = (), gates: Gates | None = None
) -> Configuration:
    """Read a configuration, YAML or JSON; errors call it `source`. Raises ConfigurationError. `known_plugins`: foreign
    plugins that profiles may name."""
    gates = gates or Gates()
    problems: strict_decoding.Problems = []
    notes: list[str] = []
    doc = strict_decoding.document_of(text, problems, notes)
    refuse(source, _head_problems(doc) if doc is not None or not problems else problems)
    file = strict_decoding.read(ConfigurationFile, doc, "", problems)
    args = [read_args(profile, f"profiles[{idx}]", gates, problems) for idx, profile in enumerate(file.profiles)]
    refuse(source, problems)
    configuration = _in_force(file, args, source, known_plugins, gates, notes)
    given = (doc or {}).get("clientConnection") or {}
    limits = RequestLimits.of(given, configuration.client_connection)
    return msgspec.structs.replace(configuration, request_limits=limits)


def default_configuration(*, known_plugins: Iterable[KnownPlugin] = (), gates: Gates | None = None) -> Configuration:
    """The configuration without a file."""
    return _in_force(ConfigurationFile(), [], "the default configuration", known_plugins, gates or Gates(), [])


def refuse(file: str, problems: Sequence[strict_decoding.Problem]) -> None:
    """Raise ConfigurationError if there is any problem."""
    if problems:
        raise strict_decoding.ConfigurationError(file, problems)


def _head_problems(doc: Any) -> strict_decoding.Problems:
    """Problems of a file that is empty or of another kind."""
    remedy = f"write apiVersion: {GROUP_VERSION} and kind: {KIND}"
    if not isinstance(doc, dict):
        found = "the file is empty" if doc is None else "the file holds a list or plain text, not fields"
        return [strict_decoding.Problem("", doc, found, remedy)]
    version, kind = doc.get("apiVersion"), doc.get("kind")
    if not kind:
        return [strict_decoding.Problem("kind", kind, "Object 'Kind' is missing", remedy)]
    if not version:
        return [strict_decoding.Problem("apiVersion", version, "Object 'apiVersion' is missing", remedy)]
    if (version, kind) == (GROUP_VERSION, KIND):
        return []
    wrong = ("kind", kind) if version == GROUP_VERSION else ("apiVersion", version)
    return [strict_decoding.Problem(*wrong, f'no kind "{kind}" is registered for version "{version}"', remedy)]


def _in_force(
    file: ConfigurationFile,
    args: Sequence[Sequence[Any]],
    source: str,
    known_plugins: Iterable[KnownPlugin],
    gates: Gates,
    notes: list[str],
) -> Configuration:
    catalogue = catalogue_with(known_plugins)
    file = with_defaults(file)
    args = args or [()]
    refuse(source, rule_problems(file, args, gates))

    problems: strict_decoding.Problems = []
    profiles: list[ResolvedProfile] = []
    for idx, profile in enumerate(file.profiles):
        profiles.append(resolved(profile, args[idx], f"profiles[{idx}]", catalogue, gates, problems))
        notes += notes_on(profile, f"profiles[{idx}]", catalogue)
    refuse(source, problems or list(queue_sort_problems(profiles)))

    if file.percentage_of_nodes_to_score is not None:
        notes += percentage_notes(file.percentage_of_nodes_to_score, "percentageOfNodesToScore")
    settings = {name: getattr(file, name) for name in SchedulerSettings.__struct_fields__}
    settings["percentage_of_nodes_to_score"] = file.percentage_of_nodes_to_score or 0
    return Configuration(
        **settings,
        profiles=tuple(profiles),
        delay_cache_until_active=file.delay_cache_until_active,
        source=source,
        notes=tuple(notes),
    )


# -- written as a file again -------------------------------------------------------------------------------------------


def document_of(configuration: Configuration) -> Doc:
    """The configuration as a document."""
    percentage = configuration.percentage_of_nodes_to_score
    return {
        "apiVersion": GROUP_VERSION,
        "kind": KIND,
        "clientConnection": {
            **_plain(configuration.client_connection),
            "qps": configuration.request_limits.qps,
            "burst": configuration.request_limits.burst,
        },
        "delayCacheUntilActive": configuration.delay_cache_until_active,
        "enableContentionProfiling": configuration.enable_contention_profiling,
        "enableProfiling": configuration.enable_profiling,
        "leaderElection": _plain(configuration.leader_election),
        "parallelism": configuration.parallelism,
        **({"percentageOfNodesToScore": percentage} if percentage else {}),
        "podInitialBackoffSeconds": configuration.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": configuration.pod_max_backoff_seconds,
        "profiles": [_profile(profile) for profile in configuration.profiles],
    }


def text_of(configuration: Configuration) -> str:
    """The configuration as YAML."""
    return yaml.safe_dump(document_of(configuration), sort_keys=False, default_flow_style=False)


def _profile(profile: ResolvedProfile) -> Doc:
    plugins: Doc = {"multiPoint": {"disabled": [{"name": EVERY}]}}
    for point in ExtensionPoint:
        enabled = [_weighted(plugin_weight) for plugin_weight in profile.points[point]]
        plugins[str(point)] = {"disabled": [{"name": EVERY}], **({"enabled": enabled} if enabled else {})}
    return {
        "schedulerName": profile.scheduler_name,
        "plugins": plugins,
        "pluginConfig": [{"name": name, "args": _args(args)} for name, args in profile.args.items()],
    }


def _weighted(plugin: PluginWeight) -> Doc:
    return {"name": plugin.name, **({"weight": plugin.weight} if plugin.weight else {})}


def _args(args: Any) -> Any:
    if not isinstance(args, PluginArgs):
        return args
    return {"apiVersion": args.api_version, "kind": type(args).__name__, **_plain(args)}


def _plain(value: Any) -> Any:
    """Records as maps with every field that is set; durations in Go's form."""
    if isinstance(value, Record):
        fields = msgspec.structs.fields(value)
        found = ((field, getattr(value, field.name)) for field in fields)
        return {
            field.encode_name: format_duration(each) if "duration" in repr(field.type) else _plain(each)
            for field, each in found
            if each is not None
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return value
