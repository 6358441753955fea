"""How any program talks to a Kubernetes API server, ours or any other.

    kubeconfig.load ──► Connection ──► Client ──► wire (HttpTransport)
                                         ▲
              Informers, WorkQueue, Recorder, LeaderElector

`Client` is the verbs, one request each. `Informer` keeps all objects of a resource and calls event handlers,
`WorkQueue` takes what they are about, `Recorder` writes events, `LeaderElector` sees that one copy of a program is at
work. All of it runs on one event loop, on the clock and the random numbers that the client was given.

The names below are imported when they are asked for: who only reads a kubeconfig needs no HTTP.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tonnage.client.cache import Cache
    from tonnage.client.config.connection import ServerConnection
    from tonnage.client.errors import Disconnected, InvalidKubeconfig, NoCredentials, Untrusted
    from tonnage.client.http import Client
    from tonnage.client.informer import Informer
    from tonnage.client.informers import Informers, NotSynced
    from tonnage.client.leader import LeaderElector, LeaseLost
    from tonnage.client.leadership import Leadership, NotLeading
    from tonnage.client.recorder import Recorder
    from tonnage.client.workqueue import WorkQueue

__all__ = [
    "Cache",
    "Client",
    "Disconnected",
    "Informer",
    "Informers",
    "InvalidKubeconfig",
    "LeaderElector",
    "Leadership",
    "LeaseLost",
    "NoCredentials",
    "NotLeading",
    "NotSynced",
    "Recorder",
    "ServerConnection",
    "Untrusted",
    "WorkQueue",
]

_HOMES: Final = {
    "Cache": "cache",
    "Client": "http",
    "Connection": "config.connection",
    "Disconnected": "errors",
    "Informer": "informer",
    "Informers": "informers",
    "InvalidKubeconfig": "errors",
    "LeaderElector": "leader",
    "Leadership": "leadership",
    "LeaseLost": "leader",
    "NoCredentials": "errors",
    "NotLeading": "leadership",
    "NotSynced": "informers",
    "Recorder": "recorder",
    "Untrusted": "errors",
    "WorkQueue": "workqueue",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
