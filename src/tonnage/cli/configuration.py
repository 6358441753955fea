"""The scheduler's configuration as a command is given it: a file, or nothing; and the plugins other packages bring.

What a file may say is `scheduling.configuration`; reading it, and looking for plugins, touches the disk: that is here.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.scheduling.configuration.configuration import (
    Configuration,
    ConfigurationError,
    default_configuration,
    parse,
)
from tonnage.scheduling.configuration.errors import Problem
from tonnage.scheduling.configuration.plugin_catalogue import KnownPlugin
from tonnage.scheduling.framework import Plugin
from tonnage.scheduling.plugins.registry import ForeignPlugins

ENTRY_POINTS = "tonnage.plugins"


def configuration_of(path: Path | None, gates: Gates, foreign: ForeignPlugins) -> Configuration:
    """The file's configuration, or the default one. Raises ConfigurationError, also when there is no such file."""
    known = tuple(KnownPlugin.of(plugin) for plugin in foreign.values())
    if path is None:
        return default_configuration(known_plugins=known, gates=gates)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        problem = Problem("", None, f"byte {exc.start} is not UTF-8 text", "save the file as UTF-8")
        raise ConfigurationError(str(path), [problem]) from exc
    except OSError as exc:
        problem = Problem(
            "", None, f"the file cannot be read: {exc.strerror}", "name a KubeSchedulerConfiguration file"
        )
        raise ConfigurationError(str(path), [problem]) from exc
    return parse(text, source=str(path), known_plugins=known, gates=gates)


def foreign_plugins() -> ForeignPlugins:
    """Plugins that other packages bring, by name. Raises TonnageError for an entry point that is none."""
    found: dict[str, type[Plugin]] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        plugin = entry.load()
        if not (isinstance(plugin, type) and issubclass(plugin, Plugin) and plugin.name == entry.name):
            raise TonnageError(
                f"the entry point {entry.name} = {entry.value} of group {ENTRY_POINTS} is not a plugin of that name",
                hint="point it at a subclass of tonnage.scheduling.framework.Plugin whose `name` is the entry's",
            )
        found[entry.name] = plugin
    return found
