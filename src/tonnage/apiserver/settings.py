"""The API server's flags and their defaults, in a module that the command line can load without the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.errors import TonnageError

RBAC_MODE: Final = "RBAC"
ALWAYS_ALLOW: Final = "AlwaysAllow"
_MODES: Final = (RBAC_MODE, ALWAYS_ALLOW)
_MODES_ELSEWHERE: Final = ("ABAC", "AlwaysDeny", "Node", "Webhook")
DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
MAX_MEGABYTES: Final = 100
MAX_BACKUPS: Final = 100
"""Upstream's defaults of --audit-log-maxsize and --audit-log-maxbackup."""


def authorization_mode(text: str) -> str:
    """The mode that a flag names: either RBAC or AlwaysAllow. Raises TonnageError."""
    asked, hint = [part.strip() for part in text.split(",")], f"write {' or '.join(_MODES)}"
    for mode in asked:
        if mode not in _MODES:
            known = "a mode of kube-apiserver's that is not served here" if mode in _MODES_ELSEWHERE else "no mode"
            raise TonnageError(f'"{mode}" is {known}', hint=hint)
    if len(asked) != 1:
        raise TonnageError(f'"{text}" is more than one mode', hint=hint)
    return asked[0]


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The audit log's path, `-` for standard output. `max_bytes` 0: never rotate; `max_backups` 0: keep all."""

    path: str
    max_bytes: int = MAX_MEGABYTES << 20
    max_backups: int = MAX_BACKUPS
