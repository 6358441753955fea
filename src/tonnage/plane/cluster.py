"""`Plane`: a whole cluster from one folder, as an async context manager.

    async with Plane(PlaneSettings(data_dir=Path("data"), secure_port=0), clock=clock, rng=rng) as plane:
        print(plane.url, plane.settings.kubeconfig)        # nodes are Ready, capacity is published
        await plane.run()                                  # until cancelled, or broken

Start: the forkserver, and at once the API server; what the others need (`bootstrap`, loaded meanwhile); then all other
programs at once. Stop: the reverse, so that no program talks to a server that is gone. The folder is locked while a
cluster runs on it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from tonnage import logs, private_files
from tonnage.clock import Clock
from tonnage.endpoints import read_endpoints, write_endpoints
from tonnage.errors import TonnageError
from tonnage.faults import FaultFile
from tonnage.plane import settings as plane_settings
from tonnage.plane.settings import DASHBOARD, CommandLines, PlaneSettings
from tonnage.plane.supervisor import Supervisor

if TYPE_CHECKING:  # loaded while the API server starts
    from tonnage.client.http import Client
    from tonnage.objects.document import Doc

_READY_WITHIN_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.05
_LEFT_OVER_S: Final = 30.0
"""How long programs may outlive a killed supervisor: longer than their grace period."""

_log = logs.logger("tonnage.up")
Progress = Callable[[str], object]


class Plane:
    """One running cluster. `client` has administrator rights."""

    def __init__(
        self,
        settings: PlaneSettings,
        *,
        clock: Clock,
        rng: random.Random,
        manifests: Sequence[Doc] = (),
        progress: Progress = lambda _: None,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._rng = rng
        self._manifests = manifests
        self._progress = progress
        self.shape = settings.resolved()
        self._sockets = settings.socket_dir()
        self._commands = CommandLines(settings, self.shape, self._sockets)
        self.supervisor = Supervisor(
            settings.data_dir / "logs",
            settings.data_dir / "run",
            clock=clock,
            rng=rng,
            max_log_bytes=settings.max_log_bytes,
        )
        self.url = ""
        self.dashboard_url = ""
        """The dashboard's URL, with its token; empty without a dashboard."""
        self._dashboard_port = 0
        self._client: Client | None = None
        self._lock: int | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def client(self) -> Client:
        assert self._client is not None, "the cluster has not been started"
        return self._client

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except OSError as exc:
            await self._stop()
            if exc.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise
            raise TonnageError(
                f"cannot write to {self.settings.data_dir}: {exc.strerror}",
                hint="make room there, or start `tonnage apiserver` alone on it and delete objects",
            ) from exc
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def run(self) -> None:
        """Run until cancelled. Raises TonnageError when the forkserver has ended."""
        await self.supervisor.is_broken.wait()
        raise TonnageError("the process that starts the cluster's programs has ended", hint="start the cluster again")

    async def _start(self) -> None:
        self._lock = await self._take_lock()
        served_before = self._ports_before()
        if self.settings.dashboard:  # a taken port is reported before anything starts
            self._dashboard_port = plane_settings.dashboard_port(
                self.settings.dashboard_port, served_before.get(DASHBOARD, 0), self._rng
            )
            plane_settings.ensure_token(self.settings.dashboard_token)
        self.settings.save(self.shape)
        for fault in FaultFile(self.settings.faults).all():
            _log.warning("A fault is still set", fault=fault.kind, node=fault.node or "every node")
        private_files.own_folder(self._sockets)
        self._sockets.chmod(0o700)
        self._progress("loading")
        await self.supervisor.open(lock=self._lock)
        self._progress("starting the API server")
        self.supervisor.start("apiserver", self._commands.apiserver(self.settings.secure_port))
        from tonnage.plane.bootstrap import Bootstrap  # loaded while the forkserver loads and the API server starts

        await self.supervisor.wait_ready("apiserver", timeout_s=_READY_WITHIN_S)
        apiserver = self.supervisor["apiserver"]
        self.url = apiserver.last_line.removeprefix("ready ")
        # It chose a free port: after a restart it must serve there again.
        apiserver.args = self._commands.apiserver(int(self.url.rpartition(":")[2]))
        bootstrap = Bootstrap.connect(self.settings, self._commands, clock=self._clock, rng=self._rng)
        self._client = bootstrap.client
        await bootstrap.apply(self._manifests)
        urls, ports = self._serve_at(served_before)
        commands = {name: self._commands.of(name, ports.get(name, 0)) for name in plane_settings.PROGRAMS}
        if self.settings.dashboard:
            commands[DASHBOARD] = self._commands.dashboard(self._dashboard_port)
        await bootstrap.prepare(commands)
        self._progress(f"starting {', '.join(commands)}")
        for name, command in commands.items():
            self.supervisor.start(name, command)
        self._keeping = asyncio.create_task(bootstrap.identities.keep(), name="identities")
        await self.supervisor.wait_ready(*plane_settings.PROGRAMS, timeout_s=_READY_WITHIN_S)
        self._progress("waiting for the nodes and their capacity")
        await bootstrap.wait_for_nodes()
        if self.settings.dashboard:
            await self.supervisor.wait_ready(DASHBOARD, timeout_s=_READY_WITHIN_S)
            address = self.supervisor[DASHBOARD].last_line.removeprefix("ready ")
            self.dashboard_url = f"{address}#token={plane_settings.token_in(self.settings.dashboard_token)}"
        self.supervisor.watch_liveness(urls)

    def _ports_before(self) -> dict[str, int]:
        try:
            found = read_endpoints(self.settings.data_dir)
            return {name: port for name, each in found.items() if (port := urlsplit(each.url).port)}
        except (TonnageError, ValueError) as exc:  # not needed: it is written again
            _log.warning("Ports of the last run are not known", error=str(exc))
            return {}

    def _serve_at(self, before: Mapping[str, int]) -> tuple[dict[str, str], dict[str, int]]:
        """Choose the programs' addresses, and write them down before they serve. Returns URLs and ports by program."""
        ports = plane_settings.choose_ports(plane_settings.SERVING, before, self._rng, without=(self._dashboard_port,))
        if self.settings.dashboard:
            ports[DASHBOARD] = self._dashboard_port
        urls = {"apiserver": self.url}
        urls |= {
            name: f"{'https' if name in plane_settings.AUTHORITIES else 'http'}://{plane_settings.LOOPBACK}:{port}"
            for name, port in ports.items()
        }
        write_endpoints(self.settings.data_dir, urls, {"apiserver": "pki/ca.crt", **plane_settings.AUTHORITIES})
        return urls, ports

    async def _stop(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        # The writers first; the driver and the API server stay until the last write.
        await self.supervisor.stop(DASHBOARD, "scheduler", "provisioner", "controllers", "node")
        await self.supervisor.stop("csi-driver")
        await self.supervisor.stop("apiserver")
        if self._client is not None:
            await self._client.close()
        await self.supervisor.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _take_lock(self) -> int:
        """Lock the folder. The programs of a killed cluster hold the lock until the last has ended."""
        folder = self.settings.data_dir
        try:
            lock = private_files.open_lock(private_files.own_folder(folder) / "lock")
        except OSError as exc:
            raise TonnageError(f"cannot write to {folder}: {exc.strerror}") from exc
        give_up_at = self._clock.monotonic() + _LEFT_OVER_S
        while not private_files.try_lock(lock):
            holder = private_files.pid_in(lock)
            if _is_alive(holder) or self._clock.monotonic() > give_up_at:
                os.close(lock)
                raise TonnageError(
                    f"another cluster runs on {folder} (process {holder})",
                    hint="stop it, or choose another --data-dir",
                )
            self._progress("waiting for the programs of the last run to end")
            await self._clock.sleep(_LOOK_EVERY_S)
        holder_line = f"{os.getpid()}\n".encode()
        with suppress(OSError):  # on a full disk: it is only for the message to a second starter
            os.pwrite(lock, holder_line, 0)
            os.ftruncate(lock, len(holder_line))
        return lock


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0
