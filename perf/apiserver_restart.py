"""What objects cost the API server that are only there: memory, the file, and the time until it is ready again.

    python perf/apiserver_restart.py                              # 10,000 and 100,000 objects
    python perf/apiserver_restart.py --objects 300000

A third of the objects are pods, a third claims, a third config maps, as a server made them. The server is stopped and
started on its folder; "ready" is the line it prints once it serves. Memory is what the process has beyond one without
objects, once it is ready.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apiserver import CONFIG_MAP, pod
from budgets import figure

from tonnage.apiserver.bootstrap import bootstrap
from tonnage.apiserver.registry import Registry
from tonnage.apiserver.requests import Location, WriteOptions
from tonnage.clock import SystemClock
from tonnage.gates import Gates
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.store.store import Store

KINDS = ("pods", "persistentvolumeclaims", "configmaps")
AT_ONCE = 512


def claim(name: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
        "storageClassName": "fast",
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


async def fill(folder: Path, objects: int) -> None:
    """Write so many objects, in the order in which they would come: a kind after the other, by turns."""
    store = await Store.open(folder)
    registry = Registry(store, gates=Gates(), clock=SystemClock(), rng=random.Random(17))
    await bootstrap(registry)
    patterns: list[tuple[Resource, Doc]] = []
    for plural, doc in zip(KINDS, (pod("x"), claim("x"), {**CONFIG_MAP, "metadata": {"name": "x"}}), strict=True):
        resource = BY_PLURAL["", plural]
        written = await registry.create(Location(resource, "default"), doc, WriteOptions(manager="perf"))
        patterns.append((resource, decode(written.document)))

    async def create(number: int) -> None:
        resource, pattern = patterns[number % len(patterns)]
        name = f"object-{number:06}"

        def render(revision: int) -> bytes:
            pattern["metadata"] |= {"name": name, "uid": registry.new_uid(), "resourceVersion": str(revision)}
            return encode(pattern)

        await store.create(resource.key("default", name), render)

    for start in range(0, objects, AT_ONCE):
        await asyncio.gather(*(create(number) for number in range(start, min(objects, start + AT_ONCE))))
    await store.close()


@dataclass(frozen=True)
class Start:
    """One start of the server: wall and CPU seconds until it was ready, and what it then has in memory."""

    seconds: float
    cpu_s: float
    rss_bytes: int


def start(folder: Path) -> Start:
    began = time.perf_counter()
    command = [sys.executable, "-m", "tonnage", "apiserver", "--data-dir", str(folder), "--secure-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            assert line.startswith("ready "), line
            took_s = time.perf_counter() - began
            status = Path(f"/proc/{server.pid}/status").read_text()
            found = re.search(r"VmRSS:\s+(\d+) kB", status)
            assert found is not None
            ticks = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            cpu_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
            return Start(took_s, cpu_s, int(found[1]) * 1024)
        finally:
            server.terminate()
            server.wait()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--objects", type=int, action="append", help="how many; may be given again")
    counts = options.parse_args().objects or [10_000, 100_000]
    with tempfile.TemporaryDirectory() as empty:
        start(Path(empty))
        without = start(Path(empty))
    heads = (("objects", 9), ("file", 9), ("ready in", 9), ("CPU", 7), ("memory", 8), ("an object: file", 15))
    print("  ".join(f"{head:>{width}}" for head, width in (*heads, ("memory", 8))))
    for count in (0, *counts):
        found, size = without, 0
        if count:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                asyncio.run(fill(folder / "store", count))
                size = (folder / "store" / "log.sqlite3").stat().st_size
                found = start(folder)
        each = (
            f"{size / count:>13,.0f} B  {(found.rss_bytes - without.rss_bytes) / count:>6,.0f} B"
            if count
            else f"{'-':>15}  {'-':>8}"
        )
        print(
            f"{count:>9,}  {size / 1e6:>6.1f} MB  {found.seconds:>7.2f} s  {found.cpu_s:>5.2f} s"
            f"  {found.rss_bytes / 1e6:>5.0f} MB  {each}"
        )
        if count == 100_000:
            figure("restart-100000", found.seconds, f"{found.cpu_s:.1f} s of CPU, {found.rss_bytes / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
