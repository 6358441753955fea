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

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tonnage.gates import Gates
from tonnage.objects.meta import Record
from tonnage.scheduling.configuration.errors import ConfigurationError, Problem, Problems, refuse
from tonnage.scheduling.configuration.file import (
    ClientConnection,
    ConfigurationFile,
    LeaderElection,
    RequestLimits,
    rule_problems,
    with_defaults,
)
from tonnage.scheduling.configuration.plugin_args import GROUP_VERSION
from tonnage.scheduling.configuration.plugin_catalogue import KnownPlugin, catalogue_with
from tonnage.scheduling.configuration.profile import (
    ResolvedProfile,
    notes_on,
    percentage_notes,
    queue_sort_problems,
    read_args,
    resolved,
)
from tonnage.scheduling.configuration.strict_decoding import read
from tonnage.scheduling.configuration.text import document_of

__all__ = [
    "ClientConnection",
    "Configuration",
    "ConfigurationError",
    "LeaderElection",
    "RequestLimits",
    "ResolvedProfile",
    "default_configuration",
    "parse",
]

KIND = "KubeSchedulerConfiguration"


class Configuration(Record):
    """A configuration in force: defaults filled in, rules checked, plugins resolved.

    `source` is the file it came from, `notes` are sentences about what it says without effect.
    """

    profiles: tuple[ResolvedProfile, ...]
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    request_limits: RequestLimits = RequestLimits()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    delay_cache_until_active: bool = False
    pod_max_in_unschedulable_s: float = 300.0
    """Not of the file: kube-scheduler has a flag for it."""
    source: str = ""
    notes: tuple[str, ...] = ()

    def profile_named(self, scheduler_name: str) -> ResolvedProfile | None:
        """The profile that a pod with this schedulerName asks for."""
        return next((profile for profile in self.profiles if profile.scheduler_name == scheduler_name), None)


def parse(
    text: str, *, source: str, known_plugins: Iterable[KnownPlugin] = (), gates: Gates | None = None
) -> Configuration:
    """Read a configuration, YAML or JSON; `source` is what errors call it.

    `known_plugins` are the plugins of others that profiles may name. Raises ConfigurationError.
    """
    gates = gates or Gates()
    problems: Problems = []
    notes: list[str] = []
    doc = document_of(text, problems, notes)
    refuse(source, _head_problems(doc) if doc is not None or not problems else problems)
    file = read(ConfigurationFile, doc, "", problems)
    args = [read_args(profile, f"profiles[{idx}]", gates, problems) for idx, profile in enumerate(file.profiles)]
    refuse(source, problems)
    configuration = _in_force(file, args, source, known_plugins, gates, notes)
    given = (doc or {}).get("clientConnection") or {}
    limits = RequestLimits.of(given, configuration.client_connection)
    return msgspec.structs.replace(configuration, request_limits=limits)


def default_configuration(*, known_plugins: Iterable[KnownPlugin] = (), gates: Gates | None = None) -> Configuration:
    """What holds without a file."""
    return _in_force(ConfigurationFile(), [], "the default configuration", known_plugins, gates or Gates(), [])


def _head_problems(doc: Any) -> Problems:
    """What says that this is another file, or none at all."""
    remedy = f"write apiVersion: {GROUP_VERSION} and kind: {KIND}"
    if not isinstance(doc, dict):
        found = "the file is empty" if doc is None else "the file holds a list or plain text, not fields"
        return [Problem("", doc, found, remedy)]
    version, kind = doc.get("apiVersion"), doc.get("kind")
    if not kind:
        return [Problem("kind", kind, "Object 'Kind' is missing", remedy)]
    if not version:
        return [Problem("apiVersion", version, "Object 'apiVersion' is missing", remedy)]
    if (version, kind) == (GROUP_VERSION, KIND):
        return []
    wrong = ("kind", kind) if version == GROUP_VERSION else ("apiVersion", version)
    return [Problem(*wrong, f'no kind "{kind}" is registered for version "{version}"', remedy)]


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
