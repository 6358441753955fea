"""The pictures of the documentation, taken of the running program: `make screenshots` writes them to docs/pictures/.

Without $TONNAGE_PICTURES they are taken and thrown away, so that what they show is tested with the rest. Names, sizes
and decisions are the same every time; times of day are not.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest
from dashboard_window import Opened, Window
from playwright.async_api import expect
from watched_cluster import Watched, watched_cluster

from tonnage.cli.cluster_options import ClusterQuestion
from tonnage.cli.dashboard import following
from tonnage.faults import Fault, FaultFile
from tonnage.gates import Gates
from tonnage.stories.story_runner import stateful_set

pytestmark = [pytest.mark.kubectl, pytest.mark.slow]

ZONES = {"node-1": "north", "node-2": "north", "node-3": "south", "node-4": "south", "node-5": "west", "node-6": "west"}
POOLS = ("2x100Gi", "node-2=3x100Gi", "node-4=2x60Gi", "node-6=1x200Gi")
SIZE = {"width": 1280, "height": 800}
OF_ALL = {"timezone_id": "UTC", "locale": "en-GB"}
SLOW_S = 4.0


def stateful(name: str, namespace: str, size: str, replicas: int) -> dict[str, Any]:
    found: dict[str, Any] = stateful_set(name, size)
    found["metadata"]["namespace"] = namespace
    found["spec"]["replicas"] = replicas
    if namespace == "search":
        found["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] = "pools-2"
    return found


class Pictures:
    """Takes pictures of a window, and of a terminal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text("\n".join(filter(None, map(str.strip, text.splitlines()))) + "\n")

    async def take(self, window: Window, name: str) -> None:
        """When what is shown is answered and drawn, without a cursor or a tooltip."""
        page = window.page
        await page.mouse.move(0, 0)
        await expect(page.locator("main [aria-busy='true']")).to_have_count(0)
        await page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        path = self.folder / f"dashboard-{name}.png"
        await page.screenshot(path=path, animations="disabled", caret="hide")
        assert path.stat().st_size > 10_000


async def fill(up: Watched) -> None:
    """Two namespaces with databases, a pod whose volume fits nowhere, and one that asks for too much."""
    for node, zone in ZONES.items():
        await up.kubectl("label", "node", node, f"topology.kubernetes.io/zone={zone}")
    for namespace in ("shop", "search"):
        await up.kubectl("create", "namespace", namespace)
    sets = [("db", "shop", "40Gi", 3), ("queue", "shop", "15Gi", 4), ("index", "search", "55Gi", 3)]
    for name, namespace, size, replicas in [*sets, ("cache", "search", "10Gi", 4)]:
        await up.kubectl("apply", "-f", "-", given=stateful(name, namespace, size, replicas))
        await up.kubectl("-n", namespace, "rollout", "status", f"statefulset/{name}", "--timeout", "120s")
    await up.kubectl("apply", "-f", "-", given=stateful("archive", "shop", "300Gi", 1))
    trainer = stateful("trainer", "search", "20Gi", 1)
    trainer["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500"}}
    await up.kubectl("apply", "-f", "-", given=trainer)


async def test_the_pictures_of_the_documentation(tmp_path: Path, open_window: Opened) -> None:
    pictures = Pictures(Path(os.environ.get("TONNAGE_PICTURES") or tmp_path))
    flags = ("--nodes", str(len(ZONES)), "--classes", "2", *(text for pools in POOLS for text in ("--pools", pools)))
    with watched_cluster(tmp_path / "up", *flags) as up:
        await fill(up)
        light = await open_window(up.dashboard, viewport=SIZE, **OF_ALL)
        dark = await open_window(up.dashboard, viewport=SIZE, **OF_ALL, color_scheme="dark")
        small = await open_window(up.dashboard, viewport={"width": 360, "height": 740}, **OF_ALL)
        for window, name in ((light, "map"), (dark, "map-dark"), (small, "map-telephone")):
            await expect(window.page.locator(".cell").first).to_be_visible()
            await pictures.take(window, name)
        await in_a_terminal(up, pictures)
        await a_drain(up, light, pictures)
        await why(light, dark, pictures)
        await tables(up, light, pictures)
        await what_if(light, pictures)
        await replay(light, pictures)
        await faults(up, light, pictures)
        await now(up, light, dark, small, pictures)
        for window in (light, dark, small):  # their streams end with the server
            await window.page.context.close()


TERMINAL = (
    ("m", "map", "node-6", "the map: a line a node, by zone, with its storage as a bar, free room and attach slots"),
    ("p", "pending", "would&#160;let", "pods that wait, by cause, with the nearest miss and what would help"),
)
"""Key, name, what shows that it is drawn, and what is to be seen."""


async def in_a_terminal(up: Watched, pictures: Pictures) -> None:
    """`tonnage top`, as its own pictures: text that is read and searched."""
    question = ClusterQuestion((), up.kubeconfig, "", "", None, None, None, None, Gates())
    async with following(question) as app, app.run_test(size=(80, 16)) as pilot:
        for key, name, wanted, told in TERMINAL:
            await pilot.press(key)
            async with asyncio.timeout(60):
                while wanted not in (shown := app.export_screenshot(title="tonnage top")):
                    await pilot.pause(0.1)
            await asyncio.to_thread(pictures.write, f"top-{name}.svg", _without_font(shown, told))


_LINES_CUT = re.compile(
    r' clip-path="url\(#t-line-\d+\)"| shape-rendering="crispEdges"|<clipPath id="t-line-\d+">.*?</clipPath>', re.DOTALL
)
"""What keeps each line within its row: they are no longer than that."""


_NEIGHBOURS = re.compile(
    r'(<rect fill="([^"]+)" x="[\d.]+" y="([\d.]+)" width=")([\d.]+)("[^>]*/>)'
    r'<rect fill="\2" x="[\d.]+" y="\3" width="([\d.]+)"[^>]*/>'
)
"""Two pieces of a line's background in one colour."""


def _with_whole_backgrounds(svg: str) -> str:
    merged = _NEIGHBOURS.sub(lambda found: f"{found[1]}{float(found[4]) + float(found[6]):.1f}{found[5]}", svg)
    return svg if merged == svg else _with_whole_backgrounds(merged)


def _without_font(svg: str, told: str) -> str:
    """The font is the reader's own: a picture asks for nothing elsewhere. And it says what it shows."""
    plain = re.sub(r"@font-face \{[^}]*\}|<!--.*?-->", "", svg)
    plain = _with_whole_backgrounds(_LINES_CUT.sub("", re.sub(r"terminal-\d+", "t", plain)))
    return re.sub(r"(<svg [^>]*>)", rf"\1<title>tonnage top</title><desc>{told}</desc>", plain, count=1)


async def a_drain(up: Watched, window: Window, pictures: Pictures) -> None:
    """A node is drained while the driver is slow: its volumes are on their way."""
    home = (await up.kubectl("-n", "shop", "get", "pod", "db-0", "-o", "jsonpath={.spec.nodeName}")).strip()
    slow = FaultFile(up.folder / "faults.json")
    slow.put(Fault("slow", "", SLOW_S))
    draining = asyncio.create_task(up.kubectl("drain", home, "--timeout", "60s"))
    await expect(window.page.locator(".cell [data-kind='coming']").first).to_be_visible(timeout=60_000)
    await pictures.take(window, "drain")
    slow.clear()
    await draining
    await up.kubectl("-n", "shop", "rollout", "status", "statefulset/db", "--timeout", "60s")
    await window.go("flow")
    await expect(window.page.get_by_role("main")).to_contain_text("rebuilt", timeout=30_000)
    await pictures.take(window, "flow")
    await window.go("pod/shop/db-0")
    await expect(window.page.get_by_role("main")).to_contain_text("was rebuilt on node", timeout=30_000)
    await pictures.take(window, "pod")
    await up.kubectl("uncordon", home)


async def why(light: Window, dark: Window, pictures: Pictures) -> None:
    for window, name in ((light, "pending"), (dark, "pending-dark")):
        await window.go("pending")
        await expect(window.page.get_by_text("What would help most")).to_be_visible(timeout=60_000)
        await pictures.take(window, name)
    await light.go("explain/shop/archive-0")
    await expect(light.page.get_by_role("main")).to_contain_text("does not fit", timeout=30_000)
    await pictures.take(light, "explain")


async def what_if(window: Window, pictures: Pictures) -> None:
    await window.go("what-if/drain/node-3")
    button = window.page.get_by_role("button", name="Preview the drain")
    if await button.is_enabled():
        await button.click()
    await expect(window.page.locator(".verdict").first).to_be_visible(timeout=30_000)
    await pictures.take(window, "what-if")


async def tables(up: Watched, window: Window, pictures: Pictures) -> None:
    """A claim with its YAML and commands; the folder of this run is not told."""
    await window.go("tables/claims/shop/data-db-0?sort=-size")
    await expect(window.page.locator(".yaml")).to_contain_text("kind: PersistentVolumeClaim", timeout=30_000)
    await window.page.evaluate(
        """folder => document.querySelectorAll(".command span").forEach(each => {
            each.textContent = each.textContent.replace(folder, "cluster"); })""",
        str(up.folder.absolute()),
    )
    await pictures.take(window, "tables")


async def replay(window: Window, pictures: Pictures) -> None:
    await window.go("replay")
    await window.page.get_by_label("The three parts of KEP-5925").get_by_role("link", name="Rebuilding").click()
    await window.page.get_by_label("Steps").get_by_role("button", name="schedule racks/db-0").click()
    await expect(window.page.locator(".step-words")).to_contain_text("racks/db-0 goes to rack-3")
    await pictures.take(window, "replay")


async def faults(up: Watched, window: Window, pictures: Pictures) -> None:
    FaultFile(up.folder / "faults.json").put(Fault("slow", "node-1", 2.0))
    await window.go("faults")
    await expect(window.page.get_by_role("main")).to_contain_text("node-1")
    await pictures.take(window, "faults")


async def now(up: Watched, light: Window, dark: Window, small: Window, pictures: Pictures) -> None:
    """A node has stopped while pods wait: the first page says so."""
    FaultFile(up.folder / "faults.json").put(Fault("node-stopped", "node-6"))
    for window, name in ((light, "now"), (dark, "now-dark"), (small, "now-telephone")):
        await window.go("now")
        await expect(window.page.locator(".trouble h3").first).to_have_text("node-6 is not ready", timeout=120_000)
        await expect(window.page.locator(".chart").first).to_be_visible()
        await window.page.locator(
            ".trouble .command code"
        ).evaluate_all(  # where this machine keeps its files is no picture
            "all => all.forEach(each => { each.textContent = each.textContent.replace(/ --kubeconfig .*/, '') })"
        )
        await pictures.take(window, name)
