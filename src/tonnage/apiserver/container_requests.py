"""What kubectl asks of a pod's containers (logs, exec, attach, port-forward, proxy), and why there is no answer.

Nodes here mount volumes and say that pods run; they start no containers. A bare 404 would read as if the pod were gone
or the server broken, so each of these paths says what is the matter. They are in no discovery document: nothing is
served there.
"""

from __future__ import annotations

import re

from tonnage.apiserver.registry import Registry
from tonnage.errors import ApiError
from tonnage.objects.resources import BY_PLURAL

_PODS = BY_PLURAL["", "pods"]
_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/(log|exec|attach|portforward|proxy)(?:/.*)?")
_ASKED = {
    "log": "there are no logs to show",
    "exec": "there is nothing to run a command in",
    "attach": "there is nothing to attach to",
    "portforward": "nothing listens on a port",
    "proxy": "nothing listens on a port",
}


class NotImplementedHere(ApiError):
    """Asked for something that this server does not do, and will not do later either."""

    code = 501
    reason = ""


def refuse_container_request(registry: Registry, path: str) -> None:
    """Raise NotImplementedHere when a path asks for a pod's containers, NotFound when there is no such pod."""
    found = _PATH.fullmatch(path)
    if found is None:
        return
    namespace, name, asked = found.groups()
    registry.read(_PODS, namespace, name)
    raise NotImplementedHere(
        f'pods "{name}": nodes of this cluster run no containers, so {_ASKED[asked]}; '
        f'"kubectl describe pod {name} -n {namespace}" shows its volumes, conditions and events',
        kind="pods",
        name=name,
    )
