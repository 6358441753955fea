"""The user's configuration file, the plugins of other packages, and the lease.

kube-scheduler holds the lease kube-system/kube-scheduler as long as it lives: a second scheduler that wants it waits
for ever. So that lease is only for a scheduler that serves `default-scheduler`. And two schedulers with different
leases that both serve `default-scheduler` work on the same pods at the same time.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.scheduling.configuration.configuration import Configuration, LeaderElection, default_configuration, parse
from tonnage.scheduling.configuration.profile import DEFAULT_SCHEDULER_NAME
from tonnage.scheduling.configuration.profile_plugins import KnownPlugin
from tonnage.scheduling.configuration.strict_decoding import ConfigurationError, Problem
from tonnage.scheduling.framework import Plugin


def load_configuration(path: Path | None, gates: Gates) -> Configuration:
    """The file's configuration, or the default one. Raises ConfigurationError, also if the file does not exist."""
    known = installed_plugins()
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


GROUP: Final = "tonnage.plugins"


def installed_plugins() -> list[KnownPlugin]:
    """The plugins of other packages. Raises TonnageError for an entry point that is no plugin."""
    found = []
    for entry in entry_points(group=GROUP):
        plugin = entry.load()
        if not (isinstance(plugin, type) and issubclass(plugin, Plugin) and plugin.name == entry.name):
            raise TonnageError(
                f"the entry point {entry.name} = {entry.value} of group {GROUP} is not a plugin of that name",
                hint="point it at a subclass of tonnage.scheduling.framework.Plugin whose `name` is the entry's",
            )
        found.append(KnownPlugin.of(plugin))
    return found


_KUBE_SCHEDULERS = (LeaderElection().resource_namespace, LeaderElection().resource_name)


def check_lease(configuration: Configuration) -> str:
    """A warning about the lease; empty for none. Raises TonnageError if it is kube-scheduler's and the pods are not."""
    election = configuration.leader_election
    if not election.leader_elect:
        return ""
    names = [profile.scheduler_name for profile in configuration.profiles]
    lease = (election.resource_namespace, election.resource_name)
    serves_default = DEFAULT_SCHEDULER_NAME in names
    if lease == _KUBE_SCHEDULERS and not serves_default:
        raise TonnageError(
            f"the lease kube-system/kube-scheduler is kube-scheduler's, and no profile here serves "
            f"{DEFAULT_SCHEDULER_NAME}: this scheduler ({', '.join(names)}) would wait for it for ever",
            hint=f"give it a lease of its own: --leader-elect-resource-name={names[0]}, or "
            f"leaderElection.resourceName: {names[0]} in the configuration",
        )
    if lease != _KUBE_SCHEDULERS and serves_default:
        return (
            f"{DEFAULT_SCHEDULER_NAME} is served under the lease {'/'.join(lease)}, not kube-system/kube-scheduler: a "
            "kube-scheduler that runs too would place the same pods at the same time"
        )
    return ""
