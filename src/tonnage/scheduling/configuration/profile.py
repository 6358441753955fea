"""One scheduling profile: its part of the file, its problems, and the resolved result.

Pods choose a profile by their schedulerName. `resolved` makes a `ResolvedProfile` of the file's `Profile`: the plugins
of every extension point in order (`profile_plugins`), and the arguments (`plugin_args`). All profiles share one queue,
so they must sort it alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tonnage.errors import did_you_mean
from tonnage.gates import Gates
from tonnage.objects.field_errors import Errors, FieldError, duplicate, invalid, required
from tonnage.objects.meta import Record
from tonnage.scheduling.configuration import profile_plugins
from tonnage.scheduling.configuration.plugin_args import ARGS_OF, GROUP_VERSION, PluginArgs, StorageCapacityArgs
from tonnage.scheduling.configuration.strict_decoding import Problem, Problems, Section, read
from tonnage.scheduling.framework import Plugin

A = TypeVar("A", bound=PluginArgs)

DEFAULT_SCHEDULER_NAME = "default-scheduler"
_REMOVED = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{GROUP_VERSION}")'


class PluginConfig(Section):
    """The arguments of one plugin, as in the file."""

    name: str = ""
    args: Any = None


class Profile(Section):
    """A profile as in the file; `plugins` says what differs from the default set."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: profile_plugins.Plugins | None = None
    plugin_config: tuple[PluginConfig, ...] = ()


class ResolvedProfile(Record):
    """A profile with its plugins and arguments.

    `points`: all plugins by extension point, in order, with their score weights. `left_out`: the plugins that Tonnage
    lacks, with the reasons. `args`: by plugin, typed for the plugins that run, raw for foreign ones. `gates`: the
    feature gates in force. `foreign`: the classes of plugins of other packages.
    """

    scheduler_name: str
    points: profile_plugins.Points
    args: Mapping[str, Any]
    left_out: Mapping[str, str] = {}
    gates: Gates = Gates()
    foreign: Mapping[str, type[Plugin]] = {}

    def plugins_at(self, point: str) -> tuple[profile_plugins.PluginWeight, ...]:
        """The plugins that can run at a point, in order."""
        return tuple(plugin for plugin in self.points[point] if plugin.name not in self.left_out)

    def args_of(self, cls: type[A]) -> A:
        """The arguments of one class. Raises KeyError if the profile does not run their plugin."""
        found: A = self.args[cls.plugin]
        return found


def read_args(given: Profile, path: str, gates: Gates, problems: Problems) -> list[Any]:
    """The arguments of each pluginConfig entry: typed and with defaults if we have a class, else raw."""
    found: list[Any] = []
    for idx, entry in enumerate(given.plugin_config):
        cls = ARGS_OF.get(entry.name)
        at = f"{path}.pluginConfig[{idx}].args"
        found.append(entry.args if cls is None else _read_typed(cls, entry.args, at, problems).with_defaults(gates))
    return found


def _read_typed(cls: type[PluginArgs], value: Any, path: str, problems: Problems) -> PluginArgs:
    """Read typed arguments. Their apiVersion and kind are optional, but must be right."""
    if not isinstance(value, dict):
        return read(cls, value, path, problems)
    fields = {name: item for name, item in value.items() if name not in ("apiVersion", "kind")}
    version, kind = value.get("apiVersion") or cls.api_version, value.get("kind") or cls.__name__
    remedy = f"write apiVersion: {cls.api_version} and kind: {cls.__name__}, or leave both out"
    if kind != cls.__name__:
        group = cls.api_version.partition("/")[0]
        told = f"{path}: args for plugin {cls.plugin} were not of type {cls.__name__}.{group}, got {kind}"
        problems.append(Problem(f"{path}.kind", kind, told, remedy))
    elif version != cls.api_version:
        told = f'{path}: no kind "{kind}" is registered for version "{version}"'
        problems.append(Problem(f"{path}.apiVersion", version, told, remedy))
    return read(cls, fields, path, problems)


def broken_rules(errors: Iterable[FieldError]) -> Problems:
    """Field errors as problems; their sentence contains the rule, and so the remedy."""
    return [Problem(error.field, error.value, str(error)) for error in errors]


def profile_errors(given: Profile, args: Sequence[Any], path: str, gates: Gates) -> Errors:
    """The errors of one profile alone; `args` are from `read_args`. Mirrors validateKubeSchedulerProfile."""
    errors: Errors = []
    if not given.scheduler_name:
        errors.append(required(f"{path}.schedulerName"))
    errors += percentage_errors(given.percentage_of_nodes_to_score, f"{path}.percentageOfNodesToScore")
    for point in profile_plugins.ExtensionPoint:
        for idx, plugin in enumerate(given.plugins.at(point).enabled if given.plugins is not None else ()):
            if plugin.name in profile_plugins.REMOVED_PLUGINS:
                errors.append(invalid(f"{path}.plugins.{point}.enabled[{idx}]", plugin.name, _REMOVED))
    seen: set[str] = set()
    for idx, (entry, found) in enumerate(zip(given.plugin_config, args, strict=True)):
        at = f"{path}.pluginConfig[{idx}]"
        if entry.name in seen:
            errors.append(duplicate(at, entry.name))
        seen.add(entry.name)
        if entry.name in profile_plugins.REMOVED_PLUGINS:
            errors.append(invalid(at, entry.name, _REMOVED))
        if isinstance(found, PluginArgs) and found.is_judged_when_unused:
            errors += found.errors(f"{at}.args", gates)
    return errors


def percentage_errors(percentage: int | None, path: str) -> Errors:
    if percentage is None or 0 <= percentage <= 100:
        return []
    return [invalid(path, percentage, "not in valid range [0-100]")]


def queue_sort_errors(given: Sequence[Profile]) -> Errors:
    """All profiles share one queue. Mirrors validateCommonQueueSort."""
    first = profile_plugins.merged(given[0].plugins).queue_sort
    name = first.enabled[0].name if first.enabled else ""
    errors: Errors = []
    if len(first.enabled) > 1:
        told = "only one queue sort plugin can be enabled"
        errors.append(invalid("profiles[0].plugins.queueSort.Enabled", len(first.enabled), told))
    args = next((entry.args for entry in reversed(given[0].plugin_config) if name and entry.name == name), None)
    for idx, other in enumerate(given[1:], 1):
        current = profile_plugins.merged(other.plugins).queue_sort
        if current != first:
            at = f"profiles[{idx}].plugins.queueSort"
            errors.append(invalid(at, _as_go_shows(current), "must be the same for all profiles"))
        for entry in other.plugin_config:
            if entry.name == name and entry.args != args:
                at = f"profiles[{idx}].pluginConfig.args"
                errors.append(invalid(at, entry.args, "queueSort must be the same for all profiles"))
    return errors


def _as_go_shows(plugins: profile_plugins.PluginSet) -> Any:
    def listed(each: Iterable[Any]) -> Any:
        return [{"Name": plugin.name, "Weight": plugin.weight} for plugin in each] or None

    return {"Enabled": listed(plugins.enabled), "Disabled": listed(plugins.disabled)}


def resolved(
    given: Profile,
    args: Sequence[Any],
    path: str,
    catalogue: Mapping[str, profile_plugins.KnownPlugin],
    gates: Gates,
    problems: Problems,
) -> ResolvedProfile:
    """The resolved profile; appends problems that keep a scheduler from starting with it."""
    plugins = profile_plugins.merged(given.plugins)
    name = given.scheduler_name or ""
    used = plugins.enabled_names | {StorageCapacityArgs.plugin}
    found: Problems = []
    for idx, (entry, late) in enumerate(zip(given.plugin_config, args, strict=True)):
        if entry.name in used and isinstance(late, PluginArgs) and not late.is_judged_when_unused:
            found += broken_rules(late.errors(f"{path}.pluginConfig[{idx}].args", gates))
    points = profile_plugins.expanded(plugins, name, catalogue, f"{path}.plugins", found)
    problems += found
    all_args: dict[str, Any] = {each: cls().with_defaults(gates) for each, cls in ARGS_OF.items()}
    all_args |= {entry.name: each for entry, each in zip(given.plugin_config, args, strict=True)}
    return ResolvedProfile(
        scheduler_name=name,
        points=points,
        args={each: all_args[each] for each in sorted(used & all_args.keys()) if all_args[each] is not None},
        left_out={
            each: catalogue[each].absent_because
            for each in sorted(used & catalogue.keys())
            if catalogue[each].absent_because
        },
        gates=gates,
        foreign={each.name: each.plugin for each in catalogue.values() if each.plugin is not None},
    )


def queue_sort_problems(profiles: Sequence[ResolvedProfile]) -> Iterator[Problem]:
    """Problems that queue_sort_errors cannot see, because multiPoint decides. Mirrors profile.cfgValidator."""
    (first,) = profiles[0].points[profile_plugins.ExtensionPoint.QUEUE_SORT]
    for idx, other in enumerate(profiles[1:], 1):
        (current,) = other.points[profile_plugins.ExtensionPoint.QUEUE_SORT]
        at, whose = f"profiles[{idx}].plugins.queueSort", f'for profile "{other.scheduler_name}"'
        if current.name != first.name:
            told = f'{at}: different queue sort plugins {whose}: "{current.name}", first: "{first.name}"'
            yield Problem(at, current.name, told, f"enable {first.name} there")
        elif other.args.get(current.name) != profiles[0].args.get(first.name):
            at = f"profiles[{idx}].pluginConfig"
            told = f"{at}: different queue sort plugin args {whose}"
            yield Problem(at, other.args.get(current.name), told, f"give {first.name} the same args in all profiles")


def notes_on(given: Profile, path: str, catalogue: Mapping[str, profile_plugins.KnownPlugin]) -> Iterator[str]:
    """Notes on settings without effect, which kube-scheduler accepts silently."""
    plugins = given.plugins or profile_plugins.Plugins()
    used = profile_plugins.merged(given.plugins).enabled_names | {StorageCapacityArgs.plugin}
    if given.percentage_of_nodes_to_score is not None:
        yield from percentage_notes(given.percentage_of_nodes_to_score, f"{path}.percentageOfNodesToScore")
    sets = (
        ("multiPoint", plugins.multi_point),
        *((str(point), plugins.at(point)) for point in profile_plugins.ExtensionPoint),
    )
    for where, plugin_set in sets:
        for idx, plugin in enumerate(plugin_set.enabled):
            if plugin.name in catalogue and (reason := catalogue[plugin.name].absent_because):
                yield f"{path}.plugins.{where}.enabled[{idx}]: {plugin.name} is left out: {reason}"
        for idx, plugin in enumerate(plugin_set.disabled):
            if plugin.name not in catalogue and plugin.name != profile_plugins.EVERY:
                at = f"{path}.plugins.{where}.disabled[{idx}]"
                yield f'{at}: there is no plugin "{plugin.name}" to disable{_guess(plugin.name, catalogue)}'
    for idx, entry in enumerate(given.plugin_config):
        at = f"{path}.pluginConfig[{idx}]"
        if entry.name not in catalogue and entry.name not in ARGS_OF:
            yield f'{at}: there is no plugin "{entry.name}", its args have no effect{_guess(entry.name, catalogue)}'
        elif entry.name not in used:
            yield f"{at}: {entry.name} is not enabled, its args have no effect"
        elif (
            entry.args is not None
            and entry.name not in ARGS_OF
            and catalogue[entry.name] in profile_plugins.CATALOGUE.values()
        ):
            yield f"{at}: {entry.name} takes no args, these have no effect"


def percentage_notes(percentage: int, path: str) -> Iterator[str]:
    if percentage != 100:
        yield f"{path}={percentage} has no effect: every node is considered, always"


def _guess(name: str, known: Iterable[str]) -> str:
    guess = did_you_mean(name, known)
    return f"; {guess}" if guess else ""
