"""The scheduler's configuration as a program is given it: a file, or nothing.

What a file may say is in `configuration`; opening it touches the disk, and that happens here alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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


def load_configuration(path: Path | None, gates: Gates, foreign: Mapping[str, type[Plugin]]) -> Configuration:
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
