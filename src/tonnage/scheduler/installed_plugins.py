"""Plugins that other packages bring, by the Python entry-point group `tonnage.plugins`.

The name of an entry point is the plugin's, its object the class. What such a class is made with says
`scheduling/plugins/registry.py`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from tonnage.errors import TonnageError
from tonnage.scheduling.framework import Plugin
from tonnage.scheduling.plugins.registry import ForeignPlugins

GROUP: Final = "tonnage.plugins"


def foreign_plugins() -> ForeignPlugins:
    """Plugins that other packages bring, by name. Raises TonnageError for an entry point that is none."""
    found: dict[str, type[Plugin]] = {}
    for entry in entry_points(group=GROUP):
        plugin = entry.load()
        if not (isinstance(plugin, type) and issubclass(plugin, Plugin) and plugin.name == entry.name):
            raise TonnageError(
                f"the entry point {entry.name} = {entry.value} of group {GROUP} is not a plugin of that name",
                hint="point it at a subclass of tonnage.scheduling.framework.Plugin whose `name` is the entry's",
            )
        found[entry.name] = plugin
    return found
