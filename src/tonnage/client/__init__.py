"""How any program talks to a Kubernetes API server, ours or any other.

    kubeconfig.load ──► Connection ──► Client ──► wire (HttpTransport)
                                         ▲
              Informers, WorkQueue, Recorder, LeaderElector

`Client` is the verbs, one request each. `Informer` keeps all objects of a resource and calls event handlers,
`WorkQueue` takes what they are about, `Recorder` writes events, `LeaderElector` sees that one copy of a program is at
work. All of it runs on one event loop, on the clock and the random numbers that the client was given.
"""

from tonnage.client.cache import Cache
from tonnage.client.config.connection import Connection
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
    "Connection",
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
    "Untrusted",
    "WorkQueue",
]
