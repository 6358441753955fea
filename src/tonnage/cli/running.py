"""What every long-running command shares: connection, leader election, health endpoint, and an orderly stop.

async with connected(PROGRAM, connection_of(kubeconfig), election) as running:
    program = await running.enter(Provisioner(running.runtime, …))
    await running.serve(endpoint, is_ready=lambda: program.is_synced)
    await run_until_signalled(running.led(program.run, lease))
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tonnage.cli.flags import endpoint_flags
from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.flags.go_flags import LEASE_TIMES, Election
from tonnage.cli.output import Flags, Option, echo, options, wrong_usage
from tonnage.client.leadership import LeaseTimes
from tonnage.clock import SystemClock
from tonnage.serving.process_memory import memory_kept_level, settle

if TYPE_CHECKING:
    from tonnage.client.config.connection import ServerConnection
    from tonnage.client.leader import LeaderElector
    from tonnage.client.program import Runtime
    from tonnage.csi.client import CsiClient, OnCall

T = TypeVar("T")


def connection_of(wanted: Path | None, master: str = "") -> ServerConnection:
    """The connection of the given kubeconfig, else of the pod's service account, else of $KUBECONFIG or ~/.kube/config.
    `master` replaces the server's address; alone, it gives an anonymous connection."""
    from tonnage.client.config import kubeconfig
    from tonnage.client.config.connection import KubeconfigCluster, ServerConnection

    if master:
        try:
            server_connection = connection_of(wanted)
        except kubeconfig.NoKubeconfig:
            return ServerConnection(KubeconfigCluster(master.rstrip("/")))
        return replace(server_connection, cluster=replace(server_connection.cluster, server=master.rstrip("/")))
    if wanted is None and "KUBECONFIG" not in os.environ and kubeconfig.is_possible():
        return kubeconfig.load_in_cluster()
    return kubeconfig.load(wanted)


@dataclass(slots=True)
class RunningProgram:
    """A running program, its leader election and its endpoint."""

    name: str
    connection: ServerConnection
    runtime: Runtime
    """What the program itself is given."""
    _election: Election | None
    _stack: AsyncExitStack
    _electors: list[LeaderElector] = field(default_factory=list)

    async def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Keep a context open for as long as the program runs."""
        return await self._stack.enter_async_context(context)

    def enter_nowait(self, context: AbstractContextManager[T]) -> T:
        return self._stack.enter_context(context)

    async def driver(self, address: str, timeout_s: float, on_call: OnCall) -> CsiClient:
        """A client of a CSI driver, which changes volumes only while this copy leads."""
        from tonnage.csi.client import CsiClient

        before_change = self.runtime.leadership.check if self.runtime.leadership is not None else None
        clock, rng = self.runtime.clock, self.runtime.rng
        return await self.enter(
            CsiClient(address, clock=clock, rng=rng, timeout_s=timeout_s, on_call=on_call, before_change=before_change)
        )

    @property
    def is_healthy(self) -> bool:
        return all(elector.is_healthy for elector in self._electors)

    async def serve(
        self, endpoint: tuple[str, int] | None, is_ready: Callable[[], bool], *, is_told: bool = True
    ) -> None:
        """Serve health and metrics over HTTP, if there is an endpoint. `is_told`: print its address to stderr."""
        if endpoint is None:
            return
        # A web server takes longer to load than all the rest; programs without an endpoint skip it.
        from tonnage.health import served

        address = await self.enter(
            served(
                host=endpoint[0],
                port=endpoint[1],
                tls=None,
                registry=self.runtime.registry,
                is_healthy=lambda: self.is_healthy,
                is_ready=is_ready,
            )
        )
        if is_told:
            _say_where(address)

    async def serve_securely(
        self, flags: Flags, *, is_healthy: Callable[[], bool] = lambda: True, shows_profiles: bool, **pages: Any
    ) -> None:
        """Serve HTTPS as the flags say, unless the port is 0. `pages` holds `is_ready` and `debug`."""
        if not flags["secure_port"]:
            return
        from tonnage.health import served
        from tonnage.serving import profiling

        access = endpoint_flags.access_of(flags, self.connection, clock=self.runtime.clock, user_agent=self.name)
        if access is not None:
            await self.enter(access)
        authorities = access.client_authorities if access is not None else lambda: b""
        address = await self.enter(
            served(
                host=flags["bind_address"] or "0.0.0.0",
                port=flags["secure_port"],
                tls=self.enter_nowait(endpoint_flags.tls_of(flags, authorities)),
                registry=endpoint_flags.chosen_metrics(flags, self.runtime.registry),
                is_healthy=lambda: self.is_healthy and is_healthy(),
                gate=access.gate if access is not None else None,
                shares_port=flags["permit_port_sharing"],
                pages=profiling.pages(self.runtime.clock) if shows_profiles else None,
                **pages,
            )
        )
        _say_where(address)

    async def led(self, work: Callable[[], Awaitable[None]], lease: str) -> None:
        """Run the work; with leader election, only while holding the lease."""
        from tonnage.client.leader import LeaderElector

        leadership, leases = self.runtime.leadership, self.runtime.leases
        if leadership is None or leases is None or self._election is None:
            await work()
            return
        elector = LeaderElector(
            leases,
            lease,
            leadership,
            release_on_cancel=self._election.release_on_cancel,
        )
        self._electors.append(elector)
        await elector.run(work)


def _say_where(address: str) -> None:
    echo(f"serving health and metrics at {address}", err=True)


@asynccontextmanager
async def connected(
    name: str,
    connection: ServerConnection,
    election: Election | None = None,
    *,
    rng: random.Random | None = None,
    qps: float = 0.0,
    burst: int = 0,
) -> AsyncIterator[RunningProgram]:
    """Yield a program with its clients while the block runs. `election` is None without leader election."""
    from tonnage.client.http import LEASE_TIMEOUT_S, Clients, lease_timeout_s
    from tonnage.client.leader import new_identity
    from tonnage.client.leadership import Leadership
    from tonnage.client.metrics import RestClientMetrics, show_leadership
    from tonnage.client.program import Runtime
    from tonnage.metrics import new_registry

    clock, registry, identity, leadership = SystemClock(), new_registry(), new_identity(), None
    if election is not None and election.is_on:
        leadership = Leadership(identity, election.times, clock=clock)
    async with AsyncExitStack() as stack:
        clients = Clients.connect(
            connection,
            clock=clock,
            user_agent=name,
            on_request=RestClientMetrics(registry).of(connection.cluster.server),
            qps=qps,
            burst=burst,
            guard=leadership,
            lease_timeout_s=LEASE_TIMEOUT_S if election is None else lease_timeout_s(election.times.renew_deadline_s),
        )
        await stack.enter_async_context(clients)
        runtime = Runtime(
            clients.work,
            clock=clock,
            rng=rng or random.Random(secrets.randbits(64)),
            registry=registry,
            identity=identity,
            leadership=leadership,
            telling=clients.telling,
            leases=clients.leases,
        )
        program = RunningProgram(name, connection, runtime, election, stack)
        if election is not None:
            show_leadership(registry, lambda: program._electors)
        yield program


async def run_until_signalled(work: Coroutine[Any, Any, None]) -> bool:
    """Run the work; True if it ended by itself. SIGTERM or Ctrl-C cancels it and waits for its clean-up."""
    settle()
    async with memory_kept_level(SystemClock()):
        running = asyncio.create_task(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.cancel)
        try:
            await running
        except asyncio.CancelledError:
            return False
        return True


def say_ready(what: str = "") -> None:
    """Print the line that scripts wait for."""
    echo(f"ready {what}".rstrip())


kubeconfig_option: Final = flag_table("""
    --kubeconfig as kubeconfig_file FILE?  Kubeconfig of the cluster. [default: the pod's service account, else
        $KUBECONFIG, else ~/.kube/config]
""")


def sidecar_options(prefix: str, *, retry_period: str, qps: float, burst: int, note: str = "") -> Option:
    """Leader election, rate limits and HTTP endpoint of a sidecar. `note` is appended to the help of the qps flag."""
    times = {name: default for name, (default, _) in LEASE_TIMES.items()} | {"retry-period": retry_period}
    leases = [f"--{prefix}-{name} DURATION={times[name]}  {help}" for name, (_, help) in LEASE_TIMES.items()]
    return options(
        flag_table("\n".join(leases)),
        flag_table(f"""
            --kube-api-qps FLOAT[0.0..]={qps}  Most requests a second to the API server; 0 is no limit.{note}
            --kube-api-burst INT[1..]={burst}  Most requests to the API server at once.
            --http-endpoint TEXT= <HOST:PORT>  Address to serve health and metrics on. [default: not served]
        """),
    )


@asynccontextmanager
async def sidecar(
    name: str, flags: Flags, prefix: str, *, is_elected: bool, release_on_cancel: bool = True
) -> AsyncIterator[RunningProgram]:
    """Yield a program configured by `sidecar_options`. Raises InvalidLeaseTimes."""
    times = LeaseTimes(*(flags[f"{prefix}_{name.replace('-', '_')}_s"] for name in LEASE_TIMES))
    if is_elected:
        times.check()
    election = Election(is_elected, times, release_on_cancel)
    connection = connection_of(flags["kubeconfig_file"])
    async with connected(
        name, connection, election, qps=flags["kube_api_qps"], burst=flags["kube_api_burst"]
    ) as running:
        yield running


def endpoint_of(http_endpoint: str, metrics_address: str = "") -> tuple[str, int] | None:
    """Host and port of the HTTP endpoint; None to serve nothing. Raises UsageError."""
    if http_endpoint and metrics_address:
        raise click.UsageError("only one of --metrics-address and --http-endpoint can be set")
    told = http_endpoint or metrics_address
    with wrong_usage():
        return listen_address(told, "0.0.0.0") if told else None


def listen_address(text: str, default_host: str) -> tuple[str, int]:
    """`127.0.0.1:8080`, `:8080` or only a port. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f'"{text}" is not an address to listen on; write it like ":8080" or "127.0.0.1:8080"')
    return host.strip("[]") or default_host, int(port)
