"""A configuration in force as a KubeSchedulerConfiguration again: defaults filled in, plugins spelled out.

Like kube-scheduler's --write-config-to and /configz. Reading it gives the same configuration. All plugins are named in
order and the default set is disabled, so that the file means the same to a version with another default set.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
import yaml

from tonnage.clock import format_duration
from tonnage.objects.document import Doc
from tonnage.objects.meta import Record
from tonnage.scheduling.configuration.configuration import KIND, Configuration
from tonnage.scheduling.configuration.plugin_args import GROUP_VERSION, PluginArgs
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.configuration.profile_plugins import EVERY, ExtensionPoint, PluginWeight


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
        found = {field.encode_name: _of_type(field.type, getattr(value, field.name)) for field in fields}
        return {name: each for name, each in found.items() if each is not None}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return value


def _of_type(type_: Any, value: Any) -> Any:
    is_duration = "duration" in str(getattr(type_, "__metadata__", "")) or "'duration'" in repr(type_)
    return format_duration(value) if is_duration and isinstance(value, int | float) else _plain(value)
