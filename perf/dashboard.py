"""The dashboard's map in a real browser: 5,000 nodes with two pools, 20,000 claims; first drawn, and kept up to date.

    python perf/dashboard.py [--nodes 5000] [--claims 20000] [--seconds 5]

Time to the first drawing is from the start of the navigation to the first frame that has nodes in it, login and the
whole state over the wire included. Then ten changes a second for some seconds: the longest time between two frames, the
longest task of the page's main thread, and CPU of page and server. Times are of this machine as it is now; CPU holds on
a busy one too (the page's: DevTools' TaskDuration and ScriptDuration).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
from datetime import UTC, datetime
from typing import Any

from budgets import figure, not_measured
from playwright.async_api import CDPSession, Page, async_playwright
from rich.console import Console
from rich.table import Table

from tonnage.clock import SystemClock
from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.dashboard.server.program import DashboardSettings, shown
from tonnage.dashboard.wire import AttachSlots, CapacityRow, ClassRow, NodeRow, PodRow, PoolRow, VolumeRow

GIB = 1 << 30
ZONES, POOLS, CHANGES_PER_S = 10, 2, 10
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SINCE = datetime(2026, 1, 1, tzinfo=UTC)

# Notes the first frame with nodes in it, every pause between frames and every long task: before any script of the page.
WATCH = """
sessionStorage.setItem("tonnage-token", "perf");  // as a tab that has logged in before
window.seen = {drawnAt: 0, gap: 0, longest: 0, frames: 0};
let last = 0;
const look = () => {
  const now = performance.now();
  const isDrawn = document.querySelector(".row.nodes") !== null;
  if (!seen.drawnAt && isDrawn) requestAnimationFrame(() => { seen.drawnAt ||= performance.now(); });
  if (seen.isMeasured && last) seen.gap = Math.max(seen.gap, now - last);
  last = now;
  seen.frames += 1;
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
new PerformanceObserver(list => {
  for (const each of list.getEntries()) if (seen.isMeasured) seen.longest = Math.max(seen.longest, each.duration);
}).observe({entryTypes: ["longtask"]});
"""


def filled(nodes: int, claims: int) -> ShownCluster:
    """A cluster of so many nodes with two pools each, and so many claims in them, each with its pod."""
    cluster = ShownCluster(clock=SystemClock())
    put = cluster.collections.put
    for name in ("fast", "bulk"):
        put("classes", name, ClassRow(driver="perf.example.com"))
    of_node: dict[int, list[list[str]]] = {number: [[] for _ in range(POOLS)] for number in range(nodes)}
    for number in range(claims):
        node, pool = number % nodes, (number // nodes) % POOLS
        key = f"team-{number % 20}/data-{number}"
        of_node[node][pool].append(key)
        put("volumes", key, _volume(number, key, f"node-{node}", pool))
        put(
            "pods",
            f"{key}-pod",
            PodRow(uid=f"uid-{number}", phase="Running", node=f"node-{node}", claims=(key,), created=SINCE),
        )
    for number in range(nodes):
        put_node(cluster, number, of_node[number], pods=len(of_node[number]))
    return cluster


def _volume(number: int, key: str, node: str, pool: int) -> VolumeRow:
    return VolumeRow(
        claim=key,
        volume=f"pvc-{number:032x}",
        storage_class=("fast", "bulk")[pool],
        driver="perf.example.com",
        bytes=(1 + number % 40) * GIB,
        state="bound",
        node=node,
        pool=pool,
        attached=(node,),
        pods=(f"{key}-pod",),
        since=SINCE,
    )


def put_node(cluster: ShownCluster, number: int, keys: list[list[str]], *, pods: int, cordoned: bool = False) -> None:
    """A node's row, and those of its two capacity objects."""
    name, rows = f"node-{number}", cluster.collections.of(VolumeRow)
    pools = []
    for held in keys:
        used = sum(rows[key].bytes for key in held)
        pools.append(PoolRow(size=200 * GIB, free=200 * GIB - used, volumes=tuple(held)))
    slots = AttachSlots(driver="perf.example.com", used=sum(map(len, keys)), limit=16)
    row = NodeRow(
        name=name,
        zone=f"zone-{number % ZONES}",
        ready=number % 97 != 0,
        cordoned=cordoned or number % 53 == 0,
        pods=pods,
        slots=(slots,),
        pools=tuple(pools),
    )
    cluster.collections.put("nodes", name, row)
    for pool, of_class in enumerate(("fast", "bulk")):
        free = pools[pool].free
        cluster.collections.put(
            "capacities",
            f"perf/{name}-{of_class}",
            CapacityRow(
                storage_class=of_class, nodes=(name,), node_count=1, pools=(free,), capacity=free, told_at=SINCE
            ),
        )


async def change(cluster: ShownCluster, seconds: float) -> int:
    """Ten changes a second, each of a node with its pools, a claim and a capacity object; many of them in sight."""
    rows = cluster.collections.of(NodeRow)
    count = int(seconds * CHANGES_PER_S)
    for step in range(count):
        number = step if step % 2 else (step * 613) % len(rows)
        row: Any = rows[f"node-{number}"]
        held = [list(pool.volumes) for pool in row.pools]
        key = f"team-{step}/new-{step}"
        held[0].append(key)
        cluster.collections.put("volumes", key, _volume(step, key, f"node-{number}", 0))
        put_node(cluster, number, held, pods=row.pods + 1, cordoned=step % 3 == 0)
        await asyncio.sleep(1 / CHANGES_PER_S)
    return count


async def metrics(devtools: CDPSession) -> dict[str, float]:
    told = await devtools.send("Performance.getMetrics")
    return {each["name"]: each["value"] for each in told["metrics"]}


async def first_drawing(page: Page, address: str) -> float:
    """Milliseconds from the start of the navigation to the first frame with nodes in it."""
    await page.goto(f"{address.partition('#')[0]}#/map")
    await page.wait_for_function("() => seen.drawnAt > 0", timeout=60_000)
    drawn: float = await page.evaluate("() => seen.drawnAt")
    return drawn


async def measure(nodes: int, claims: int, seconds: float) -> dict[str, float]:
    """All figures: milliseconds of times and CPU, and elements."""
    assert CHROMIUM is not None
    cluster = filled(nodes, claims)
    found: dict[str, float] = {}
    async with shown(cluster, DashboardSettings(port=0, token="perf")) as address, async_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = await (await browser.new_context(viewport={"width": 1920, "height": 1080})).new_page()
        await page.add_init_script(WATCH)
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("Performance.enable", {"timeDomain": "threadTicks"})  # CPU of the thread, not time
        cpu = _cpu_s()
        found["drawn_ms"] = await first_drawing(page, address)
        found["server_drawn_ms"] = 1000 * (_cpu_s() - cpu)
        first = await metrics(devtools)
        found["page_drawn_ms"] = 1000 * first["TaskDuration"]
        found["script_drawn_ms"] = 1000 * first["ScriptDuration"]
        await page.wait_for_timeout(1000)
        before, cpu = await metrics(devtools), _cpu_s()
        await page.evaluate("() => { seen.isMeasured = true }")
        changes = await change(cluster, seconds)
        after = await metrics(devtools)
        found["gap_ms"] = await page.evaluate("() => seen.gap")
        found["long_task_ms"] = await page.evaluate("() => seen.longest")
        found["page_change_ms"] = 1000 * (after["TaskDuration"] - before["TaskDuration"]) / changes
        found["script_change_ms"] = 1000 * (after["ScriptDuration"] - before["ScriptDuration"]) / changes
        found["server_change_ms"] = 1000 * (_cpu_s() - cpu) / changes
        found["elements"] = await page.evaluate("() => document.querySelectorAll('*').length")
        await browser.close()
    return found


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


WORDS = {
    "drawn_ms": "first drawing, from the start of the navigation",
    "page_drawn_ms": "… CPU of the page's main thread",
    "script_drawn_ms": "… of that, scripts",
    "server_drawn_ms": "… CPU of the server (and of what drives the browser)",
    "gap_ms": "ten changes a second: longest time between two frames",
    "long_task_ms": "… longest task of the main thread (0: none above 50 ms)",
    "page_change_ms": "… CPU of the page's main thread a change",
    "script_change_ms": "… of that, scripts",
    "server_change_ms": "… CPU of the server a change",
    "elements": "elements in the page",
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=5000)
    options.add_argument("--claims", type=int, default=20000)
    options.add_argument("--seconds", type=float, default=5.0, help="how long changes are made")
    given = options.parse_args()
    if CHROMIUM is None:
        why = "no chromium on the PATH, and $CHROMIUM names none"
        print(f"skipped: {why}")
        for key in ("dashboard-drawn", "dashboard-gap", "dashboard-page-cpu"):
            not_measured(key, why)
        return 0
    found = asyncio.run(measure(given.nodes, given.claims, given.seconds))
    table = Table("what", "figure", title=f"{given.nodes:,} nodes, {given.claims:,} claims")
    for key, words in WORDS.items():
        table.add_row(words, f"{found[key]:,.0f}" if key == "elements" else f"{found[key]:,.1f} ms")
    Console().print(table)
    figure("dashboard-drawn", found["drawn_ms"] / 1000, f"CPU of the page {found['page_drawn_ms'] / 1000:.2f} s")
    figure("dashboard-gap", found["gap_ms"], f"longest task {found['long_task_ms']:.0f} ms")
    figure("dashboard-page-cpu", found["page_change_ms"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
