"""The state of a cluster of `tonnage up`, seen from outside; nothing is written.

A program that does not answer is part of the result. While the API server restarts, nodes and pools are unknown, which
is not the same as none.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.client.program_pages import ProgramPages
from tonnage.clock import Clock
from tonnage.driver import TOPOLOGY_KEY
from tonnage.driver.state.folder import UnknownContents, unknown_contents
from tonnage.endpoints import Endpoint, read_endpoints
from tonnage.errors import TonnageError
from tonnage.faults import FAULT_FILE_NAME, Fault, FaultFile
from tonnage.objects import core_v1, storage_v1
from tonnage.plane.settings import DASHBOARD, DASHBOARD_TOKEN_FILE, PROGRAMS, STATE_DIR, token_in
from tonnage.private_files import open_own, pid_in, read_own, require_own_file, require_own_folder, try_lock
from tonnage.quantity import Quantity
from tonnage.scheduling.volumes.capacity.pools import listed_pools

READY, NOT_READY, AWAY, RUNNING = "ready", "not ready", "away", "running"


class ProgramStatus(msgspec.Struct, frozen=True):
    """One program. `state`: ready, not ready (it says so itself), running (it has no endpoint) or away."""

    name: str
    pid: int | None
    state: str
    url: str | None


class PlaneNodeStatus(msgspec.Struct, frozen=True):
    name: str
    ready: bool
    unschedulable: bool
    pods: int


class PoolStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One CSIStorageCapacity: a class's free bytes on a node; `node` is None if it covers several nodes."""

    node: str | None
    storage_class: str
    capacity: str | None
    pools: tuple[str, ...]
    object: str


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A running cluster. `problem`: why nodes and pools are unknown. `storage`: the server's report on its store."""

    data_dir: Path
    pid: int
    programs: tuple[ProgramStatus, ...]
    nodes: tuple[PlaneNodeStatus, ...]
    pools: tuple[PoolStatus, ...]
    faults: tuple[Fault, ...]
    problem: str = ""
    unknown: tuple[UnknownContents, ...] = ()
    """Contents in the driver's pools that no record names; they are kept and count as used."""
    unknown_problem: str = ""
    storage: tuple[str, ...] = ()
    dashboard: str = ""
    """The dashboard's URL, with its token: only for the owner of the folder. Empty without a dashboard."""

    def document(self) -> dict[str, Any]:
        """As `tonnage status -o json` shows it; nodes and pools are null while unknown."""
        shown = {
            "dataDir": str(self.data_dir),
            "pid": self.pid,
            "kubeconfig": str(self.data_dir / "kubeconfig"),
            "programs": self.programs,
            "nodes": None if self.problem else self.nodes,
            "pools": None if self.problem else self.pools,
            "faults": self.faults,
            "unknownContents": None
            if self.unknown_problem
            else [
                {"node": each.place.node, "pool": each.place.pool, "path": str(each.path), "bytes": each.size_bytes}
                for each in self.unknown
            ],
            "storage": self.storage,
            "dashboard": self.dashboard or None,
        }
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(shown))
        return document


async def status_of(data_dir: Path, *, clock: Clock) -> ClusterStatus:
    """The state of the cluster on this folder. Raises TonnageError when none runs there."""
    pid = _holder(data_dir)
    endpoints = read_endpoints(data_dir)
    programs = [
        await _program(name, data_dir / "run" / f"{name}.pid", endpoints.get(name), clock)
        for name in ("apiserver", *PROGRAMS, *((DASHBOARD,) if DASHBOARD in endpoints else ()))
    ]
    nodes: tuple[PlaneNodeStatus, ...] = ()
    pools: tuple[PoolStatus, ...] = ()
    storage: tuple[str, ...] = ()
    problem = ""
    require_own_file(data_dir / "kubeconfig")  # it may name programs to run
    try:
        async with Client.connect(
            kubeconfig.load(data_dir / "kubeconfig"), clock=clock, user_agent="tonnage-status"
        ) as client:
            nodes, pools = await _nodes(client), await _pools(client)
            storage = await storage_of(client)
    except TonnageError as exc:
        problem = exc.message
    faults = FaultFile(data_dir / FAULT_FILE_NAME).all()
    unknown = _unknown(data_dir / STATE_DIR)
    dashboard = ""
    if (endpoint := endpoints.get(DASHBOARD)) is not None:
        token = token_in(data_dir / DASHBOARD_TOKEN_FILE)
        dashboard = f"{endpoint.url}/#token={token}" if token else endpoint.url
    return ClusterStatus(data_dir, pid, tuple(programs), nodes, pools, faults, problem, *unknown, storage, dashboard)


def _unknown(state_dir: Path) -> tuple[tuple[UnknownContents, ...], str]:
    """Contents of the driver's folder without a record, or why they are unknown."""
    try:
        return tuple(unknown_contents(state_dir, in_use=True)), ""
    except TonnageError as exc:
        return (), exc.message
    except OSError as exc:
        return (), f"{state_dir} cannot be read: {exc.strerror}"


def _holder(folder: Path) -> int:
    """The pid of the process that holds the lock. Raises TonnageError when none does."""
    with suppress(OSError):
        require_own_folder(folder)
        with os.fdopen(open_own(folder / "lock", os.O_RDONLY)) as lock:
            if not try_lock(lock.fileno(), is_shared=True):
                return pid_in(lock.fileno())
    raise TonnageError(f"no cluster runs on {folder}", hint=f"start one with `tonnage up --data-dir {folder}`")


async def _program(name: str, pid_file: Path, endpoint: Endpoint | None, clock: Clock) -> ProgramStatus:
    try:
        pid = int(read_own(pid_file))
    except (OSError, ValueError):
        return ProgramStatus(name, None, AWAY, endpoint.url if endpoint is not None else None)
    if endpoint is None:
        return ProgramStatus(name, pid, RUNNING, None)
    state = AWAY
    async with ProgramPages(endpoint, clock=clock) as pages:
        with suppress(TonnageError):  # then it is away, and is shown so
            state = READY if await pages.is_good("/readyz") else NOT_READY
    return ProgramStatus(name, pid, state, endpoint.url)


async def storage_of(client: Client) -> tuple[str, ...]:
    """What /readyz says about the store; the checks are excluded from the result, so that the answer is a 200."""
    listing = (await client.raw("GET", "/readyz?verbose&exclude=etcd&exclude=storage&exclude=shutdown")).decode()
    told = [line.removeprefix("[-]") for line in listing.splitlines() if line.startswith("[-]storage")]
    return tuple(line.partition(": ")[2] for line in told)


async def _nodes(client: Client) -> tuple[PlaneNodeStatus, ...]:
    on_node: dict[str, int] = {}
    for pod in (await client.list(core_v1.Pod, retry=False)).items:
        if not pod.is_terminal:
            on_node[pod.spec.node_name] = on_node.get(pod.spec.node_name, 0) + 1
    found = (await client.list(core_v1.Node, retry=False)).items
    return tuple(
        PlaneNodeStatus(node.name, node.is_ready, node.spec.unschedulable, on_node.get(node.name, 0)) for node in found
    )


async def _pools(client: Client) -> tuple[PoolStatus, ...]:
    found = [
        PoolStatus(
            _node_of(capacity),
            capacity.storage_class_name,
            None if capacity.capacity is None else str(capacity.capacity),
            tuple(str(Quantity.from_bytes(size)) for size in listed_pools(capacity)),
            capacity.key,
        )
        for capacity in (await client.list(storage_v1.CSIStorageCapacity, retry=False)).items
    ]
    return tuple(sorted(found, key=lambda each: (each.node or "", each.storage_class, each.object)))


def _node_of(capacity: storage_v1.CSIStorageCapacity) -> str | None:
    topology = capacity.node_topology
    return topology.match_labels.get(TOPOLOGY_KEY) if topology is not None else None
