"""KubeSchedulerConfiguration: every field that is read, its type and its default, off the classes that read it."""

from __future__ import annotations

from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from reference import code, table
from tonnage.clock import format_duration
from tonnage.gates import Gates
from tonnage.objects.codec import encode
from tonnage.scheduling.configuration.configuration import ConfigurationFile, RequestLimits
from tonnage.scheduling.configuration.plugin_args import ARGS_OF, PluginArgs
from tonnage.scheduling.configuration.profile import Profile
from tonnage.scheduling.configuration.profile_plugins import CATALOGUE, DEFAULT_PLUGINS
from tonnage.scheduling.configuration.strict_decoding import Section

HEAD = """\
# Configuration of the scheduler

`tonnage scheduler --config FILE`, and `--config` of every command that decides. The file is kube-scheduler's own:
`apiVersion: kubescheduler.config.k8s.io/v1`, `kind: KubeSchedulerConfiguration`. One that kube-scheduler 1.36 accepts is
accepted unchanged and means the same, with two exceptions: `extenders` are refused, and StorageCapacityScoring is on unless
it is switched off. An unknown field is an error with its path. All nodes are always considered, so that
`percentageOfNodesToScore` and `parallelism` are accepted without effect; a note says so.

## Fields

"""

ABOUT = {
    "apiVersion": "`kubescheduler.config.k8s.io/v1`",
    "kind": "`KubeSchedulerConfiguration`",
    "parallelism": "accepted, without effect: all nodes are judged in one operation",
    "leaderElection.leaderElect": "work only while holding the lease; `--leader-elect` goes before it",
    "leaderElection.leaseDuration": "others wait this long after the last renewal; longer than `renewDeadline`",
    "leaderElection.renewDeadline": "without a renewal for this long the leader stops",
    "leaderElection.retryPeriod": "between two tries",
    "leaderElection.resourceLock": "`leases` is the only one",
    "leaderElection.resourceName": "the Lease",
    "leaderElection.resourceNamespace": "and where it is",
    "clientConnection.kubeconfig": "how to reach the API server; `--kubeconfig` goes before it, and empty is the one inside a cluster",
    "clientConnection.acceptContentTypes": "accepted, without effect: JSON is spoken",
    "clientConnection.contentType": "accepted, without effect: JSON is spoken",
    "enableProfiling": "accepted",
    "enableContentionProfiling": "accepted; what `enableProfiling` is",
    "percentageOfNodesToScore": "accepted, without effect: all nodes are considered",
    "podInitialBackoffSeconds": "how long a pod waits after its first failure; doubles with each",
    "podMaxBackoffSeconds": "and at most",
    "profiles": "one or more; pods choose by `schedulerName`. Without any, one named `default-scheduler`",
    "profiles[].schedulerName": "which pods it is for; required where there are several",
    "profiles[].percentageOfNodesToScore": "as above",
    "profiles[].plugins": "by extension point `enabled` and `disabled`, as upstream; `multiPoint` and `*` too",
    "profiles[].pluginConfig": "arguments of plugins, below",
    "extenders": "refused when there are any",
    "delayCacheUntilActive": "accepted: informers always run before the lease is held",
}


def page() -> str:
    limits = RequestLimits()
    rows = [*_fields(ConfigurationFile, ""), *_fields(Profile, "profiles[].")]
    parts = [HEAD + table(("field", "type", "default", ""), rows)]
    parts.append(
        f"Where neither `qps` nor `burst` is written, {limits.qps:g} requests a second are sent and {limits.burst} at once, "
        "not kube-scheduler's 50 and 100, since every binding is one. Leases are not limited, and events and conditions go "
        "last, in a quarter of it: thousands of pods that fit nowhere hold up neither the lease nor a pod that fits "
        "([how](../decisions/017-telling-goes-last.md)). A negative `qps` is no limit."
    )
    parts.append("## Plugins\n\n" + _plugins())
    parts.append("## Arguments of plugins\n\nIn `profiles[].pluginConfig`, as `{name, args}`.")
    for name, cls in sorted(ARGS_OF.items()):
        if name != "StorageCapacity":
            parts.append(f"### {cls.__name__}\n\n{_first(cls)}\n\n" + arguments(cls))
    parts.append("### StorageCapacityArgs\n\nTonnage only: [a page of its own](storage-capacity-args.md).")
    return "\n\n".join(parts)


def arguments(cls: type[PluginArgs]) -> str:
    """The table of a plugin's arguments, with the defaults that hold with every gate on."""
    shown = cls().with_defaults(Gates())
    rows: list[tuple[object, ...]] = [
        (code(field.encode_name), _type(field.type), _value(getattr(shown, field.name), field.type))
        for field in msgspec.structs.fields(cls)
    ]
    return table(("field", "type", "default"), rows)


def _fields(cls: type[Section], prefix: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    empty = cls()
    for field in sorted(msgspec.structs.fields(cls), key=lambda field: field.name not in ("api_version", "kind")):
        path = prefix + field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, Section):
            rows += _fields(field.type, f"{path}.")
            continue
        about = ABOUT.get(path, "")
        if path.startswith("clientConnection.") and field.encode_name in ("qps", "burst"):
            about = "how many requests are sent; see below for where neither is written"
        rows.append((code(path), _type(field.type), _value(getattr(empty, field.name), field.type), about))
    return rows


def _type(type_: Any) -> str:
    origin, given = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return "duration" if given[1] == "duration" else "integer"
    if origin in (Union, UnionType):
        return _type(next(each for each in given if each is not NoneType))
    if origin is tuple:
        return f"list of {_type(given[0])}"
    if isinstance(type_, type) and issubclass(type_, StrEnum):
        return ", ".join(code(each.value) for each in type_)
    names: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "text", Any: "any"}
    return names.get(type_) or str(getattr(type_, "__name__", "any"))


def _value(value: Any, type_: Any) -> str:
    if value is None or value == "" or value == ():
        return ""
    if _type(type_) == "duration":
        return code(format_duration(value))
    return code(encode(value).decode())


def _first(cls: type) -> str:
    return (cls.__doc__ or "").strip().split("\n\n")[0]


def _plugins() -> str:
    rows: list[tuple[object, ...]] = [
        (
            code(plugin.name),
            ", ".join(sorted(point.value for point in plugin.points)),
            "yes" if plugin.name in DEFAULT_PLUGINS else "no",
            str(plugin.weight or ""),
            plugin.absent_because,
        )
        for plugin in CATALOGUE.values()
    ]
    return (
        "kube-scheduler's, in its default order. Those with a remark are known and not run; plugins of your own join "
        "them ([how](../plugins.md)).\n\n" + table(("plugin", "takes part in", "by default", "weight", ""), rows)
    )
