"""The command lines of a cluster's programs: where each finds the others and its state, and on which port it serves.

Ports are taken from below the range that kernels give to outgoing connections (32768 and up on Linux): while a program
is being started again, no connection of another one can sit on its port. The next start takes the same, if still free.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.plane.settings import PlaneSettings
from tonnage.private_files import write_private

_FIRST, _LAST = 20_000, 32_767
_TRIES: Final = 200
LOOPBACK: Final = "127.0.0.1"
DASHBOARD_PORT: Final = 8080


def choose_ports(
    names: Sequence[str], kept: Mapping[str, int], rng: random.Random, *, without: Collection[int] = ()
) -> dict[str, int]:
    """A port for each name: the one it had, if it is free, else another; none in `without`. Raises TonnageError."""
    chosen: dict[str, int] = {}
    for name in names:
        candidates = [kept[name]] if name in kept else []
        candidates += [rng.randint(_FIRST, _LAST) for _ in range(_TRIES)]
        others = {*chosen.values(), *without}
        found = next((port for port in candidates if port not in others and _is_free(port)), None)
        if found is None:
            raise TonnageError(f"no free port for {name} between {_FIRST} and {_LAST}")
        chosen[name] = found
    return chosen


def dashboard_port(wanted: int | None, kept: int, rng: random.Random) -> int:
    """The port that was asked for; else the usual one, that of the last run, or any free one. Raises TonnageError."""
    if wanted is None and _is_free(DASHBOARD_PORT):
        return DASHBOARD_PORT
    if not wanted:
        return choose_ports(["dashboard"], {"dashboard": kept} if kept else {}, rng)["dashboard"]
    if not _is_free(wanted):
        raise TonnageError(
            f"the dashboard cannot be served at {LOOPBACK}:{wanted}: another program listens there, or it may not be "
            "used",
            hint="choose another --dashboard-port, or 0 for a free one",
        )
    return wanted


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose last connection is still being wound up is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


LVM_NAMESPACE: Final = "openebs"
"""Where the driver keeps LVMNode objects, with --one-number."""
PROGRAMS: Final = ("csi-driver", "node", "provisioner", "controllers", "scheduler")
"""What runs beside the API server, in the order in which it is started (and loaded, by `cli/forkserver.py`)."""
DASHBOARD: Final = "dashboard"
STATE_DIR: Final = "driver"
"""Where the driver keeps volumes and what is known of them, in the data folder."""
SERVING: Final = ("controllers", "scheduler", "provisioner", "node")
"""Those that serve health and metrics; the driver speaks CSI alone."""
AUTHORITIES: Final = {name: f"tls/{name}/ca.crt" for name in ("controllers", "scheduler")}
"""Those that do so with TLS, and whom to trust there, by a path in the data folder."""
_SCHEDULER: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 2000}
"""


@dataclass(frozen=True, slots=True)
class CommandLines:
    """Arguments by program, of one cluster. `resolved` is what its settings come to."""

    settings: PlaneSettings
    resolved: Mapping[str, Any]
    node_names: Sequence[str]
    socket_dir: Path

    @property
    def identities(self) -> Path:
        """Where each program's kubeconfig is: none of them is an administrator."""
        return self.settings.data_dir / "identities"

    def apiserver(self, port: int) -> list[str]:
        """The API server on this port; 0 takes a free one."""
        data, bind = str(self.settings.data_dir), self.settings.bind
        return [
            *("apiserver", "--data-dir", data, "--bind", bind, "--secure-port", str(port)),
            *("--event-ttl", f"{self.settings.event_ttl_s:g}s"),
            *(("--audit-log-path", self.settings.audit_log_path) if self.settings.audit_log_path else ()),
            *self._common("apiserver"),
        ]

    def _one_number(self) -> tuple[str, ...]:
        """A driver of today: one number for all pools of a node, and the rest in objects of its own."""
        told = str(self.resolved["one_number"])
        return ("--one-number", told, "--lvm-nodes", LVM_NAMESPACE) if told in ("sum", "largest") else ()

    def of(self, name: str, port: int = 0) -> list[str]:
        """One of `PROGRAMS`, its health, metrics and debug pages served on this port of loopback; 0 is nowhere."""
        data, controller = self.settings.data_dir, f"unix://{self.socket_dir / 'csi.sock'}"
        of_node = f"unix://{self.socket_dir}/{{node}}/csi.sock"
        server = ("--kubeconfig", str(self.identities / f"{name}.kubeconfig"))
        faults = ("--faults", str(self.settings.faults))
        flags: dict[str, tuple[str, ...]] = {
            "csi-driver": (
                *("--endpoint", controller, "--node-endpoint", of_node, "--state-dir", str(data / STATE_DIR)),
                *_each("--node-id", self.node_names),
                *_each("--pools", self.resolved["pools"]),
                *_each("--max-volumes", self.resolved["max_volumes"]),
                *("--pool-policy", self.resolved["pool_policy"], "--rebuild"),
                *self._one_number(),
                *faults,
            ),
            "controllers": ("--csi-address", controller),
            "scheduler": ("--no-leader-elect", *self._scheduler_config()),
            # A pool is on one node, and no other will do. Upstream's limits spare a server that many share; this one is
            # ours, and figures are wanted fresh.
            "provisioner": (
                *("--csi-address", controller, "--strict-topology", "true"),
                "--capacity-for-immediate-binding",  # volumes of such classes are rebuilt too, where there is room
                *("--kube-api-qps", "1000", "--kube-api-burst", "2000"),
                *("--kube-api-capacity-qps", "200", "--kube-api-capacity-burst", "400", "--capacity-threads", "4"),
            ),
            "node": (
                *_each("--node-name", self.node_names),
                *("--root-dir", str(data / "nodes"), "--csi-address", of_node),
                *("--attach-error-grace-seconds", f"{self.settings.attach_error_grace_s:g}"),
                *faults,
            ),
        }
        return [name, *server, *flags[name], *self._serving(name, port), *self._common(name)]

    def dashboard(self, port: int) -> list[str]:
        return [
            *(DASHBOARD, "--kubeconfig", str(self.identities / f"{DASHBOARD}.kubeconfig")),
            *("--data-dir", str(self.settings.data_dir), "--bind", LOOPBACK, "--port", str(port)),
            *("--token-file", str(self.settings.dashboard_token)),
            *(("--config", str(self.settings.scheduler_config)) if self.settings.scheduler_config else ()),
            *self._common(DASHBOARD),
        ]

    def _serving(self, name: str, port: int) -> tuple[str, ...]:
        if name not in SERVING:
            return ()
        if name in AUTHORITIES:
            folder = str((self.settings.data_dir / AUTHORITIES[name]).parent)
            # Whoever is on this machine may read: the folder tells them where, and a token they would have to be given.
            where = ("--bind-address", LOOPBACK, "--secure-port", str(port), "--cert-dir", folder)
            return (*where, "--unauthenticated-on-loopback")
        if not port:
            return ()
        flag = {"provisioner": "--http-endpoint", "node": "--metrics-address"}[name]
        return (flag, f"{LOOPBACK}:{port}")

    def _scheduler_config(self) -> tuple[str, ...]:
        """A configuration of one's own, or upstream's defaults without its limit on requests: this server is ours."""
        path = self.settings.scheduler_config
        if path is None:
            path = self.settings.data_dir / "scheduler.yaml"
            write_private(path, _SCHEDULER.encode())
        return ("--config", str(path))

    def _common(self, name: str) -> tuple[str, ...]:
        """Gates that are off, the verbosity, and what a person adds."""
        off = [f"{gate}=false" for gate in Gates.table() if not getattr(self.settings.gates, gate)]
        gates = ("--feature-gates", ",".join(off)) if off else ()
        verbosity = ("--v", str(self.settings.verbosity)) if self.settings.verbosity else ()
        return (*gates, *verbosity, *self.settings.extra.get(name, ()))


def _each(flag: str, values: Sequence[str]) -> list[str]:
    return [text for value in values for text in (flag, value)]
