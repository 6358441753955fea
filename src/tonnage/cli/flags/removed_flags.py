"""Flags that kube-scheduler once had: manifests of older clusters still carry them, and are told what to write instead.

kube-scheduler itself only says `unknown flag`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tonnage.cli.flags.go_flags import refused

F = TypeVar("F", bound=Callable[..., Any])

_PORT: Final = ("1.24", "leave it out: nothing is served without TLS, and --secure-port=0 serves nothing at all")
_POLICY: Final = ("1.23", "write plugins and their weights into the profiles of --config (KubeSchedulerConfiguration)")
_LOGS: Final = ("1.26", "leave it out: log lines go to stderr, --v says how many and --logging-format in which form")
_LEASE: Final = "name the lease with --leader-elect-resource-{} or leaderElection in --config"

REMOVED: Final[dict[str, tuple[str, str]]] = {
    "--port": _PORT,
    "--address": ("1.24", "use --bind-address"),
    "--policy-config-file": _POLICY,
    "--policy-configmap": _POLICY,
    "--policy-configmap-namespace": _POLICY,
    "--use-legacy-policy-config": _POLICY,
    "--algorithm-provider": _POLICY,
    "--hard-pod-affinity-symmetric-weight": ("1.23", "write hardPodAffinityWeight into InterPodAffinityArgs"),
    "--scheduler-name": ("1.23", "write schedulerName into a profile of --config"),
    "--lock-object-name": ("1.23", _LEASE.format("name")),
    "--lock-object-namespace": ("1.23", _LEASE.format("namespace")),
    **dict.fromkeys(
        (
            "--logtostderr",
            "--alsologtostderr",
            "--stderrthreshold",
            "--log-dir",
            "--log-file",
            "--log-file-max-size",
            "--log-backtrace-at",
            "--add-dir-header",
            "--skip-headers",
            "--skip-log-headers",
            "--one-output",
        ),
        _LOGS,
    ),
}
"""Each with the release that no longer had it, and what to do."""


def removed_options(command: F) -> F:
    for name, (release, instead) in REMOVED.items():
        told = f"kube-scheduler {release} and later do not have it either"
        command = refused(name, because=told, instead=instead)(command)
    return command
