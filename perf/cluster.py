"""How long a whole cluster takes: to be ready, to take up its state again, and from pods with claims to pods that run.

    python perf/cluster.py [--nodes 3] [--pods 100]

Every number is one run of real programs: `tonnage up` in its own processes, claims made, volumes provisioned over CSI,
attached, mounted. The machine's load is part of it: compare lines of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from pathlib import Path

from budgets import figure
from rich.console import Console
from rich.table import Table

from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.clock import SystemClock, within
from tonnage.objects.core_v1 import Pod
from tonnage.plane.cluster import Plane
from tonnage.plane.settings import PlaneSettings
from tonnage.stories.story_runner import claim, pod

LEDGER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 2000}
profiles:
- pluginConfig:
  - name: StorageCapacity
    args: {apiVersion: tonnage.dev/v1alpha1, kind: StorageCapacityArgs, reservation: Ledger}
"""
_AT_A_TIME = 16
_PATIENCE_S = 300.0


def settings_for(nodes: int, reservation: str, folder: Path, *, audit_log_path: str = "") -> PlaneSettings:
    """A cluster in that folder, whose scheduler reserves in that way."""
    config = folder / "scheduler.yaml"
    config.write_text(LEDGER)
    return PlaneSettings(
        data_dir=folder / "data",
        nodes=nodes,
        max_volumes=("128",),
        secure_port=0,
        scheduler_config=config if reservation == "Ledger" else None,
        audit_log_path=audit_log_path,
    )


async def measure(nodes: int, pods: int, reservation: str, folder: Path) -> tuple[float, float, float]:
    """Seconds until ready, until ready again on the same folder, and until all pods run."""
    settings = settings_for(nodes, reservation, folder)
    clock = SystemClock()
    times_s = []
    for _ in range(2):
        started_at = clock.monotonic()
        async with Plane(settings, clock=clock, rng=random.Random(1)) as plane:
            times_s.append(clock.monotonic() - started_at)
            if len(times_s) == 2:
                started_at = clock.monotonic()
                await run_pods(plane.client, pods, clock)
                times_s.append(clock.monotonic() - started_at)
    return times_s[0], times_s[1], times_s[2]


async def run_pods(client: Client, count: int, clock: SystemClock) -> None:
    """Make pods with a claim of 1Gi each, and wait until they run."""
    slots = asyncio.Semaphore(_AT_A_TIME)
    informers = Informers(client)
    running: set[str] = set()
    done = asyncio.Event()

    def seen(found: Pod) -> None:
        if found.status.phase == "Running":
            running.add(found.name)
            if len(running) == count:
                done.set()

    # Watched, not listed again and again: who measures should not be a load.
    informers.of(Pod, namespace="default").on_change(seen)
    informers.start()
    await informers.wait_synced()

    async def make(number: int) -> None:
        for doc in (claim(f"data-{number}", "1Gi"), pod(f"db-{number}", [f"data-{number}"])):
            async with slots:
                await client.create_doc({**doc, "metadata": {**doc["metadata"], "namespace": "default"}})

    await asyncio.gather(*(make(number) for number in range(count)))
    try:
        await within(clock, _PATIENCE_S, done.wait())
    except TimeoutError:
        raise SystemExit(f"after {_PATIENCE_S:g} s not all of {count} pods run") from None
    finally:
        await informers.stop()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, help="one cluster of so many; 3 and 100, unless told")
    options.add_argument("--pods", type=int, default=100, help="pods with one claim each")
    given = options.parse_args()
    runs: tuple[tuple[int, int, str], ...] = ((3, 100, "Object"), (3, 100, "Ledger"), (100, 1000, "Object"))
    if given.nodes:
        runs = ((given.nodes, given.pods, "Object"), (given.nodes, given.pods, "Ledger"))
    table = Table("nodes", "reservation", "ready s", "ready again s", "pods", "run after s", "pods/s")
    took_s: dict[tuple[int, int, str], float] = {}
    for nodes, pods, reservation in runs:
        with tempfile.TemporaryDirectory(prefix="t") as name:
            ready_s, again_s, pods_s = asyncio.run(measure(nodes, pods, reservation, Path(name)))
        took_s[nodes, pods, reservation] = pods_s
        times = (f"{ready_s:.1f}", f"{again_s:.1f}", str(pods), f"{pods_s:.2f}", f"{pods / pods_s:.0f}")
        table.add_row(str(nodes), reservation, *times)
    Console().print(table)
    if not given.nodes:
        figure("chain-100", took_s[3, 100, "Object"], f"Ledger {took_s[3, 100, 'Ledger']:.2f}")
        figure("chain-1000", took_s[100, 1000, "Object"])


if __name__ == "__main__":
    main()
