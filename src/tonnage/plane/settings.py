"""A cluster's settings, how they are kept beside its state, and the command lines of its programs.

A restarted cluster is the one it was: settings that are not given again are read from DIR/cluster.json. Ports, gates
and flags for single programs belong to a run, and are not kept.

Ports are taken from below the kernel's range for outgoing connections (32768 and up on Linux): while a program is
restarted, no connection can take its port. The next start uses the same ports, if they are free.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
import socket
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.csi.address import MAX_SOCKET_PATH
from tonnage.errors import TonnageError, closest
from tonnage.faults import FAULT_FILE_NAME
from tonnage.gates import Gates
from tonnage.node.settings import ATTACH_ERROR_GRACE_S
from tonnage.private_files import read_own, require_own_folder, write_private

MAX_LOG_BYTES: Final = 10 << 20
"""With its `.old` file a program has at most twice this: days of a quiet cluster, and an hour of a bad one."""


def bound_log(log: Path, *, max_bytes: int = MAX_LOG_BYTES) -> bool:
    """Move a log above `max_bytes` to `NAME.log.old`, and begin anew. Returns whether it did.

    A line written between the copy and the truncation is lost; on a full disk the log is truncated without a copy.
    """
    try:
        if log.stat().st_size <= max_bytes:
            return False
    except FileNotFoundError:
        return False
    old, fresh = log.with_suffix(".log.old"), log.with_suffix(".log.new")
    try:
        with log.open("rb") as source, os.fdopen(_create(fresh), "wb") as target:
            shutil.copyfileobj(source, target)
        fresh.replace(old)
    except OSError:
        fresh.unlink(missing_ok=True)
    os.truncate(log, 0)
    return True


def _create(path: Path) -> int:
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


def default_folder() -> Path:
    """The folder of a cluster for which none is named, beside `~/.kube`. Raises TonnageError without a home."""
    try:
        return Path.home() / ".tonnage"
    except RuntimeError as exc:
        raise TonnageError("this user has no home folder", hint="name a folder with --data-dir") from exc


MAX_NODES: Final = 500
DASHBOARD_TOKEN_FILE: Final = "dashboard.token"
_SETTINGS_FILE: Final = "cluster.json"
MAX_CLASSES: Final = 20
_BEFORE_SETTINGS: Final = ("lock", DASHBOARD_TOKEN_FILE, FAULT_FILE_NAME, f".{FAULT_FILE_NAME}.lock")
"""What may be in a cluster's folder before its settings: a first start was stopped, or a fault was set."""


class ClusterShape(msgspec.Struct, frozen=True):
    """What is kept from start to start, with the defaults of the first."""

    nodes: int = 3
    pools: tuple[str, ...] = ("3x100Gi",)
    max_volumes: tuple[str, ...] = ("16",)
    pool_policy: str = "best-fit"
    classes: int = 1
    """The number of StorageClasses `pools`, `pools-2`, … that share the same pools."""
    one_number: str = ""
    """What the driver reports instead of its pools, `sum` or `largest`; the pools are then in LVMNode objects."""

    @property
    def node_names(self) -> list[str]:
        return [f"node-{number}" for number in range(1, self.nodes + 1)]

    def former_nodes(self, present: Iterable[str]) -> list[str]:
        """Nodes of an earlier, larger cluster, in order: their objects exist, their programs do not."""
        former = (f"node-{number}" for number in range(self.nodes + 1, MAX_NODES + 1))
        found = set(present)
        return [name for name in former if name in found]


@dataclass(frozen=True, slots=True)
class PlaneSettings:
    """One cluster. None means "as before", or the default at the first start (`ClusterShape`).

    `pools` and `max_volumes` are as `tonnage csi-driver` takes them, for all nodes or as NODE=…; `extra` are further
    flags by program (`apiserver`, `scheduler`, `controllers`, `csi-driver`, `provisioner`, `node`, `dashboard`).
    """

    data_dir: Path
    nodes: int | None = None
    pools: tuple[str, ...] | None = None
    max_volumes: tuple[str, ...] | None = None
    pool_policy: str | None = None
    classes: int | None = None
    one_number: str | None = None
    bind: str = "127.0.0.1"
    secure_port: int = 6443
    gates: Gates = field(default_factory=Gates)
    scheduler_config: Path | None = None
    verbosity: int = 0
    event_ttl_s: float = 3600.0
    attach_error_grace_s: float = ATTACH_ERROR_GRACE_S
    """How long an attach must have failed for want of slots before its pod fails (KEP-4876)."""
    audit_log_path: str = ""
    """The API server's audit log; empty: none."""
    max_log_bytes: int = MAX_LOG_BYTES
    dashboard: bool = False
    """Serve the dashboard too; without it none of its code is loaded."""
    dashboard_port: int | None = None
    """None: the usual port, or a free one if that is taken; 0: a free one."""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    @property
    def dashboard_token(self) -> Path:
        """The token that browsers send; it is kept, so that they stay logged in after a restart."""
        return self.data_dir / DASHBOARD_TOKEN_FILE

    @property
    def faults(self) -> Path:
        return self.data_dir / FAULT_FILE_NAME

    def resolved(self) -> ClusterShape:
        """The given values, else the kept ones, else the defaults. Raises TonnageError."""
        names = ClusterShape.__struct_fields__
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return msgspec.convert(self._nodes_by_pools() | self._kept() | given, ClusterShape)

    def require_own_contents(self) -> None:
        """Raises TonnageError if the folder holds files, and none that a cluster made. Writes nothing.

        The file that our own output goes to may be there: `tonnage up --data-dir DIR 2> DIR/up.log`.
        """
        outputs = []
        for stream in (1, 2):
            with suppress(OSError):  # it may be closed
                outputs.append(os.fstat(stream))
        try:
            with os.scandir(self.data_dir) as entries:
                found = [
                    entry.name
                    for entry in entries
                    if not any(os.path.samestat(entry.stat(follow_symlinks=False), output) for output in outputs)
                ]
        except OSError:  # there is none, or it cannot be used: reported when it is made or locked
            return
        others = sorted(set(found).difference(_BEFORE_SETTINGS))
        # `tonnage apiserver` keeps no settings, and a cluster may be started on its folder.
        if not others or "nodes" in self._kept() or (self.data_dir / "store" / "log.sqlite3").exists():
            return
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise TonnageError(
            f"{self.data_dir} is not empty, and no cluster was ever started on it: it holds {others[0]}{more}",
            hint="name a new or an empty folder with --data-dir",
        )

    def _kept(self) -> dict[str, Any]:
        path = self.data_dir / _SETTINGS_FILE
        kept: dict[str, Any] = {}
        try:
            if self.data_dir.exists():
                require_own_folder(self.data_dir)
                with suppress(FileNotFoundError):
                    kept = msgspec.json.decode(read_own(path), type=dict[str, Any])
            msgspec.convert(kept, ClusterShape)
        except (OSError, msgspec.DecodeError) as exc:
            raise TonnageError(
                f"{path} cannot be read: {exc}", hint="remove the file, and give --nodes, --pools and --max-volumes"
            ) from exc
        return kept

    def _nodes_by_pools(self) -> dict[str, int]:
        """The number of nodes at the first start if every entry of `pools` names its node: those nodes and no more."""
        named = [text.partition("=")[0].strip() for text in self.pools or () if "=" in text]
        return {"nodes": len(set(named))} if named and len(named) == len(self.pools or ()) else {}

    def save(self, shape: ClusterShape) -> None:
        """Keep the shape for the next start. Only for the holder of the folder's lock."""
        content = msgspec.json.format(msgspec.json.encode(shape), indent=1)
        write_private(self.data_dir / _SETTINGS_FILE, content + b"\n")

    def socket_dir(self) -> Path:
        """The folder of the sockets: in the data folder, or elsewhere if that path is too long for the kernel."""
        wanted = self.data_dir.absolute() / "run"
        # The longest socket path is that of the node with the longest name.
        if len(os.fsencode(wanted / f"node-{MAX_NODES}" / "csi.sock")) <= MAX_SOCKET_PATH:
            return wanted
        short = hashlib.sha256(os.fsencode(self.data_dir.absolute())).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"tonnage-{os.getuid()}-{short}"


def nodes_of(data_dir: Path) -> list[str]:
    """The nodes of the cluster last started on this folder; empty before that. Raises TonnageError."""
    if not (data_dir / _SETTINGS_FILE).exists():
        return []
    return PlaneSettings(data_dir).resolved().node_names


class NoSuchNode(TonnageError):
    """A node that a cluster does not have."""


def require_node(data_dir: Path, node: str) -> None:
    """Raises NoSuchNode if this folder's cluster was started and does not have the node."""
    known = nodes_of(data_dir)
    if not node or not known or node in known:
        return
    near = closest(node, known)
    have = f"{known[0]} to {known[-1]}" if len(known) > 1 else known[0]
    raise NoSuchNode(
        f'this cluster has no node "{node}"',
        hint=f"did you mean '{near[0]}'? It has {have}" if near else f"it has {have}",
    )


def ensure_token(path: Path) -> None:
    """Create a token if there is none. Raises NotOurs for another user's file, OSError as it comes."""
    if not token_in(path):
        write_private(path, f"{secrets.token_urlsafe(24)}\n".encode())


def token_in(path: Path) -> str:
    """The token; empty if there is none. Raises as `ensure_token` does."""
    try:
        return read_own(path).decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


_FIRST, _LAST = 20_000, 32_767
_TRIES: Final = 200
LOOPBACK: Final = "127.0.0.1"
DASHBOARD_PORT: Final = 8080


def choose_ports(
    names: Sequence[str], kept: Mapping[str, int], rng: random.Random, *, without: Collection[int] = ()
) -> dict[str, int]:
    """A port per name: the kept one if it is free, else another; none in `without`. Raises TonnageError."""
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
    """The given port; else the usual one, the last run's, or any free one. Raises TonnageError."""
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
        # As servers do: a port whose last connection is still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


LVM_NAMESPACE: Final = "openebs"
"""The namespace of the driver's LVMNode objects, with --one-number."""
PROGRAMS: Final = ("csi-driver", "node", "provisioner", "controllers", "scheduler")
"""The programs beside the API server, in the order of starting (and of loading, by `cli/forkserver.py`)."""
DASHBOARD: Final = "dashboard"
STATE_DIR: Final = "driver"
"""The driver's folder for volumes and their records, in the data folder."""
SERVING: Final = ("controllers", "scheduler", "provisioner", "node")
"""The programs that serve health and metrics; the driver serves only CSI."""
AUTHORITIES: Final = {name: f"tls/{name}/ca.crt" for name in ("controllers", "scheduler")}
"""The programs that serve over TLS, with the path of their CA in the data folder."""
_SCHEDULER: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 2000}
"""


@dataclass(frozen=True, slots=True)
class CommandLines:
    """The programs' arguments in one cluster."""

    settings: PlaneSettings
    shape: ClusterShape
    socket_dir: Path

    @property
    def identities(self) -> Path:
        """The folder of the programs' kubeconfigs: none has administrator rights."""
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

    def of(self, name: str, port: int = 0) -> list[str]:
        """One of `PROGRAMS`, with its health, metrics and debug pages on this loopback port; 0: none."""
        data, controller = self.settings.data_dir, f"unix://{self.socket_dir / 'csi.sock'}"
        of_node = f"unix://{self.socket_dir}/{{node}}/csi.sock"
        server = ("--kubeconfig", str(self.identities / f"{name}.kubeconfig"))
        faults = ("--faults", str(self.settings.faults))
        # A driver as most are today: one number for all pools of a node, and the pools in its own objects.
        shape = self.shape
        is_one = shape.one_number in ("sum", "largest")
        one_number = ("--one-number", shape.one_number, "--lvm-nodes", LVM_NAMESPACE) if is_one else ()
        flags: dict[str, tuple[str, ...]] = {
            "csi-driver": (
                *("--endpoint", controller, "--node-endpoint", of_node, "--state-dir", str(data / STATE_DIR)),
                *_each("--node-id", shape.node_names),
                *_each("--pools", shape.pools),
                *_each("--max-volumes", shape.max_volumes),
                *("--pool-policy", shape.pool_policy, "--rebuild"),
                *one_number,
                *faults,
            ),
            "controllers": ("--csi-address", controller),
            "scheduler": ("--no-leader-elect", *self._scheduler_config()),
            # A pool is on one node only. Upstream's limits spare a shared server; this one is ours, and capacity should
            # be fresh.
            "provisioner": (
                *("--csi-address", controller, "--strict-topology", "true"),
                "--capacity-for-immediate-binding",  # volumes of such classes are rebuilt too, if there is room
                *("--kube-api-qps", "1000", "--kube-api-burst", "2000"),
                *("--kube-api-capacity-qps", "200", "--kube-api-capacity-burst", "400", "--capacity-threads", "4"),
            ),
            "node": (
                *_each("--node-name", shape.node_names),
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
            # Every user of this machine may read: endpoints.json names the address, and no token is needed.
            where = ("--bind-address", LOOPBACK, "--secure-port", str(port), "--cert-dir", folder)
            return (*where, "--unauthenticated-on-loopback")
        if not port:
            return ()
        flag = {"provisioner": "--http-endpoint", "node": "--metrics-address"}[name]
        return (flag, f"{LOOPBACK}:{port}")

    def _scheduler_config(self) -> tuple[str, ...]:
        """The given configuration, or upstream's defaults without its limit on requests: this server is ours."""
        path = self.settings.scheduler_config
        if path is None:
            path = self.settings.data_dir / "scheduler.yaml"
            write_private(path, _SCHEDULER.encode())
        return ("--config", str(path))

    def _common(self, name: str) -> tuple[str, ...]:
        """Gates that are off, the verbosity, and the user's extra flags."""
        off = [f"{gate}=false" for gate in Gates.table() if not getattr(self.settings.gates, gate)]
        gates = ("--feature-gates", ",".join(off)) if off else ()
        verbosity = ("--v", str(self.settings.verbosity)) if self.settings.verbosity else ()
        return (*gates, *verbosity, *self.settings.extra.get(name, ()))


def _each(flag: str, values: Sequence[str]) -> list[str]:
    return [text for value in values for text in (flag, value)]
