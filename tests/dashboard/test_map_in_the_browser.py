"""The capacity map in a real browser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dashboard_window import Window
from playwright.async_api import Locator, Page, expect

from support.filled_cluster import FilledCluster
from tonnage.dashboard.wire import (
    AttachSlots,
    CapacityRow,
    ClassRow,
    NodeRow,
    PodRow,
    PoolRow,
    ReservedRow,
    Row,
    VolumeRow,
)
from tonnage.testing.builders import node

GIB = 1 << 30
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp.exe" + "x" * 220


def claim(key: str, gib: int, on: str, **more: Any) -> tuple[str, str, VolumeRow]:
    row: dict[str, Any] = {
        "claim": key,
        "storage_class": "fast",
        "bytes": gib * GIB,
        "state": "bound",
        "node": on,
        **more,
    }
    return "volumes", key, VolumeRow(**row)


def pool(gib: int, free: int, *keys: str) -> PoolRow:
    return PoolRow(size=gib * GIB, free=free * GIB, volumes=keys)


def put(cluster: FilledCluster, *rows: tuple[str, str, Row]) -> None:
    for collection, key, row in rows:
        cluster.collections.put(collection, key, row)


def put_nodes(cluster: FilledCluster, *rows: NodeRow) -> None:
    put(cluster, *(("nodes", row.name, row) for row in rows))


def cell(page: Page, name: str) -> Locator:
    return page.locator(f'.cell[data-node="{name}"]')


async def width(of: Locator) -> float:
    found: float = await of.evaluate("each => each.getBoundingClientRect().width")
    return found


async def test_a_node_that_comes_is_shown_without_a_reload(window: Window, shown_cluster: FilledCluster):
    await expect(window.page.get_by_text("live", exact=True)).to_be_visible()
    shown_cluster.put(node("node-1"))
    await expect(window.page.get_by_role("gridcell", name="node-1, no zone")).to_be_visible()


async def test_blocks_to_scale_reservations_cordons_and_volumes_on_their_way(
    window: Window, shown_cluster: FilledCluster
):
    page = window.page
    since = datetime.now(UTC) - timedelta(seconds=50)
    held = ReservedRow(
        mode="Ledger", pod="shop/db-0", claims=("shop/new",), bytes=10 * GIB, since=since, why="its pod is being bound"
    )
    put(
        shown_cluster,
        ("classes", "fast", ClassRow(driver="d.example.com")),
        claim("shop/a", 30, "n-1", pods=("shop/web-0",)),
        claim("shop/b", 15, "n-1"),
        ("pods", "shop/web-0", PodRow(uid="u", phase="Running", node="n-1", claims=("shop/a",))),
        (
            "capacities",
            "d/n-1",
            CapacityRow(storage_class="fast", nodes=("n-1",), node_count=1, pools=(55 * GIB,), reserved=(held,)),
        ),
    )
    slots = (AttachSlots(driver="d.example.com", used=2, limit=2),)
    first = NodeRow(name="n-1", zone="a", pools=(pool(100, 55, "shop/a", "shop/b"),), slots=slots)
    put_nodes(shown_cluster, first, NodeRow(name="n-2", zone="a", pools=(pool(100, 100),)))

    # 30Gi and 15Gi of 100Gi, and 10Gi hatched.
    one = cell(page, "n-1")
    bar = await width(one.locator(".bar"))
    assert abs(await width(one.locator('[data-claim="shop/a"]')) / bar - 0.30) < 0.01
    assert abs(await width(one.locator('[data-claim="shop/b"]')) / bar - 0.15) < 0.01
    kept = one.locator('[data-kind="kept"]')
    assert abs(await width(kept) / bar - 0.10) < 0.01
    assert "repeating-linear-gradient" in await kept.evaluate("each => getComputedStyle(each).backgroundImage")
    await kept.hover()
    tip = page.get_by_role("tooltip")
    for words in ("10Gi kept back for pod shop/db-0", "claims: shop/new", "since ", "its pod is being bound"):
        await expect(tip).to_contain_text(words)
    await expect(one.get_by_text("d.example.com 2 of 2 attached, full")).to_be_visible()
    await expect(one).to_have_accessible_name(
        "n-1, zone a, 45 % full, 55Gi free, 2 claims; no attach slot: d.example.com: 2 of 2 are used; "
        "room kept back: 10Gi are kept back"
    )

    # A node is cordoned, another is not ready: in words and shape.
    put_nodes(shown_cluster, NodeRow(name="n-2", zone="a", cordoned=True, pools=(pool(100, 100),)))
    await expect(cell(page, "n-2").locator('[data-sign="cordoned"]')).to_have_text("‖ cordoned")
    put_nodes(shown_cluster, NodeRow(name="n-3", zone="b", ready=False, reason="no word of it", pools=(pool(9, 9),)))
    await expect(page.get_by_role("gridcell", name="n-3, zone b", exact=False)).to_have_accessible_name(
        "n-3, zone b, 0 % full, 9Gi free, 0 claims; not ready: no word of it"
    )

    # A volume on its way: it leaves one node, is a ghost on the other, and an arrow goes from one to the other.
    put(shown_cluster, claim("shop/a", 30, "n-1", state="moving", target="n-2"))
    await expect(one.locator('[data-kind="leaving"]')).to_have_text("→ a")
    await expect(cell(page, "n-2").locator('[data-kind="coming"]')).to_have_text("← a")
    await expect(page.locator("path.arrow")).to_have_count(1)
    await cell(page, "n-2").locator('[data-kind="coming"]').click()
    panel = page.get_by_role("complementary", name="Details")
    await expect(panel).to_contain_text("on its way from n-1 to n-2")
    put(shown_cluster, claim("shop/a", 30, "n-2"))
    put_nodes(
        shown_cluster,
        NodeRow(name="n-1", zone="a", gone=True),
        NodeRow(name="n-2", zone="a", pools=(pool(100, 70, "shop/a"),)),
    )
    await expect(panel).to_contain_text("on n-2")
    await expect(page.locator("path.arrow")).to_have_count(0)
    await expect(cell(page, "n-2").locator('[data-kind="claim"]')).to_have_count(1)
    await expect(one.locator('[data-sign="gone"]')).to_be_visible()
    await panel.get_by_role("button", name="n-2").click()
    await expect(panel).to_contain_text("Claims (1)")

    # Stale figures say why.
    stale = CapacityRow(storage_class="fast", nodes=("n-2",), node_count=1, pools=(70 * GIB,), stale="older than 5 min")
    put(shown_cluster, ("capacities", "d/n-2", stale))
    await expect(cell(page, "n-2").locator(".bar.is-stale")).to_have_count(1)
    await expect(panel).to_contain_text("stale: older than 5 min")


async def test_search_keys_zoom_collapse_and_choices(window: Window, shown_cluster: FilledCluster):
    page = window.page
    put(shown_cluster, ("classes", "fast", ClassRow(driver="d")), claim("shop/cart", 5, "n-17", pods=("shop/web-3",)))
    rows = [NodeRow(name=f"n-{number}", zone="ab"[number % 2], pools=(pool(10, 5),)) for number in range(40)]
    put_nodes(shown_cluster, *rows)
    await expect(cell(page, "n-0")).to_be_visible()
    assert await page.locator(".map").get_attribute("data-level") == "tiles", "forty nodes"

    # Search by a pod, and go there with Enter.
    await page.locator("body").press("/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.type("web-3")
    await expect(page.locator(".search-told")).to_have_text("1 node, 1 claim")
    await expect(cell(page, "n-17")).to_have_class("cell tiles is-found")
    await page.keyboard.press("Enter")
    await expect(page.locator(".search-told")).to_have_text("1 of 1 node, 1 claim")
    assert await page.locator('.cell[tabindex="0"]').get_attribute("data-node") == "n-17"
    await page.keyboard.press("Escape")
    await expect(page.locator(".is-dimmed")).to_have_count(0)

    # Arrow keys, Enter and Escape; a change of the node does not take the focus away.
    await cell(page, "n-17").focus()
    await page.keyboard.press("ArrowRight")
    await expect(cell(page, "n-19")).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("Home")
    await expect(cell(page, "n-0")).to_be_focused()
    await page.keyboard.press("Enter")
    panel = page.get_by_role("complementary", name="Details")
    await expect(panel.get_by_role("heading", name="n-0")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    await expect(cell(page, "n-0")).to_be_focused()
    put_nodes(shown_cluster, NodeRow(name="n-0", zone="a", cordoned=True, pools=(pool(10, 5),)))
    await expect(cell(page, "n-0").locator('[data-sign="cordoned"]')).to_be_visible()
    await expect(cell(page, "n-0")).to_be_focused()

    # Zoom by keys: the overview has an element a node only where the keyboard is.
    await page.keyboard.press("-")
    await expect(page.locator('.map[data-level="cells"]')).to_be_visible()
    await expect(cell(page, "n-0")).to_be_focused()
    await page.keyboard.press("ArrowRight")
    await expect(cell(page, "n-2")).to_have_accessible_name("n-2, zone a, 50 % full, 5Gi free, 0 claims")
    await expect(
        page.get_by_role("gridcell", name="20 nodes, n-1 to n-39, 50 % full on average; no trouble")
    ).to_have_count(1)
    await page.keyboard.press("+")
    await page.keyboard.press("+")
    await expect(cell(page, "n-2")).to_be_focused()
    await expect(page.locator('.map[data-level="detail"]')).to_be_visible()
    await page.get_by_role("button", name="Tiles").click()

    # A group that is collapsed stays so, whatever changes; choices are there again after a reload.
    await page.get_by_role("button", name="Zone a").click()
    await expect(cell(page, "n-0")).to_have_count(0)
    put_nodes(shown_cluster, NodeRow(name="n-40", zone="a"), NodeRow(name="n-41", zone="b"))
    await expect(cell(page, "n-41")).to_be_visible()
    await expect(cell(page, "n-40")).to_have_count(0)
    await page.get_by_role("button", name="Cordoned").click()
    await expect(page.locator(".map-counts")).to_have_text("1 of 42 nodes")
    await page.get_by_role("button", name="Cordoned").click()
    await page.get_by_text("View", exact=True).click()
    await page.get_by_label("Colour by").select_option("namespace")
    await expect(page.get_by_role("list", name="Legend")).to_contain_text("shop")
    await page.reload()
    await expect(page.get_by_role("list", name="Legend")).to_contain_text("shop")
    await expect(page.get_by_role("button", name="Zone a")).to_have_attribute("aria-expanded", "false")
    # An address leads to a node, also where its group is collapsed and the page is opened there.
    await window.go("map/node/n-8")
    await expect(panel.get_by_role("heading", name="n-8")).to_be_visible()
    await page.reload()
    await expect(panel.get_by_role("heading", name="n-8")).to_be_visible()
    await expect(cell(page, "n-8")).to_be_visible()


async def test_only_what_is_known_is_drawn_and_names_are_harmless_on_a_small_screen(
    shown_cluster: FilledCluster, serve, open_window
):
    put(
        shown_cluster,
        *(("classes", name, ClassRow(driver="d")) for name in ("fast", "zonal")),
        claim(f"shop/{HOSTILE}", 30, "n-1"),
        claim("shop/b", 10, "n-1"),
        claim("shop/z", 7, "", storage_class="zonal"),
        claim("shop/late", 3, "", state="waiting"),
        ("capacities", "d/1", CapacityRow(storage_class="fast", nodes=("n-1",), node_count=1, pools=(20 * GIB,))),
        (
            "capacities",
            "d/zone",
            CapacityRow(storage_class="zonal", nodes=("n-1", HOSTILE), node_count=2, pools=(90 * GIB,)),
        ),
    )
    put_nodes(shown_cluster, NodeRow(name="n-1", zone="a"), NodeRow(name=HOSTILE, zone="a"))
    window: Window = await open_window(await serve(shown_cluster), viewport={"width": 360, "height": 740})
    page = window.page

    # Claims of 40Gi and free room of 20Gi make up a bar of 60Gi: one number tells that they lie in one place.
    one = cell(page, "n-1")
    bar = one.locator('.bar[data-kind="free"]')
    assert abs(await width(bar.locator('[data-claim="shop/b"]')) / await width(bar) - 1 / 6) < 0.01
    await expect(one.locator(".bar-label")).to_have_text("fast: 20Gi of 60Gi free")
    await expect(one.locator(".cell-sums")).to_contain_text("66 % full · 20Gi free")
    # What two nodes share is drawn once, with the claim that is in it.
    await expect(page.locator(".shared-capacity")).to_have_count(1)
    await expect(page.locator(".shared-capacity .block")).to_have_attribute("data-claim", "shop/z")
    await expect(page.locator(".loose summary")).to_have_text("1 claim waiting for a node, 3Gi")
    await page.locator(".loose summary").click()
    await page.get_by_role("button", name="shop/late, 3Gi, waiting for a node").click()
    panel = page.get_by_role("complementary", name="Details")
    await expect(panel).to_contain_text("waiting for a node")
    await panel.get_by_role("button", name="Close details").click()

    await page.locator(".cell").first.focus()
    await page.keyboard.press("Enter")
    await expect(panel.get_by_role("heading", level=3)).to_contain_text("<img src=x onerror=alert(1)>")
    assert await page.locator("img").count() == 0
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.slow
async def test_five_thousand_nodes_stay_few_elements_while_one_scrolls(
    shown_cluster: FilledCluster, serve, open_window
):
    put(shown_cluster, *(("classes", name, ClassRow(driver="d")) for name in ("bulk", "fast")))
    put(shown_cluster, claim("team/late", 1, "", state="waiting"))
    for number in range(20_000):
        put(shown_cluster, claim(f"team/{number}", 10, f"n-{number % 5000}"))
    for number in range(5_000):
        keys = tuple(f"team/{number + 5000 * each}" for each in range(4))
        put_nodes(shown_cluster, NodeRow(name=f"n-{number}", zone=f"z-{number % 10}", pools=(pool(100, 60, *keys),)))
    window: Window = await open_window(await serve(shown_cluster), viewport={"width": 1920, "height": 1080})
    page = window.page
    await expect(page.locator('.map[data-level="cells"]')).to_be_visible()
    for level in ("Overview", "Tiles", "Detail"):
        await page.get_by_role("button", name=level).click()
        await expect(page.locator(".row.nodes").first).to_be_visible()
        most = await page.evaluate(
            """async () => {
              let most = 0;
              const height = document.documentElement.scrollHeight;
              for (let step = 0; step <= 20; step += 1) {
                scrollTo(0, (height * step) / 20);
                await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
                most = Math.max(most, document.querySelectorAll("*").length);
              }
              return most;
            }"""
        )
        assert most < 4000, level
        if level != "Overview":  # colours are given in order of name, whatever was drawn first
            swatches = page.locator(".legend li:has(.swatch[data-colour])")
            await expect(swatches).to_have_text(["bulk", "fast"])
            await expect(swatches.first.locator(".swatch")).to_have_attribute("data-colour", "0")
        # At the end there are nodes in sight: those that were drawn are those that one sees.
        await expect(page.locator(".row.nodes").last).to_be_in_viewport()
    await page.get_by_role("searchbox").fill("n-4999")
    await page.get_by_role("searchbox").press("Enter")
    await expect(cell(page, "n-4999")).to_be_in_viewport()
    put_nodes(shown_cluster, NodeRow(name="n-4999", zone="z-9", cordoned=True, pools=(pool(100, 60),)))
    await expect(cell(page, "n-4999").locator('[data-sign="cordoned"]')).to_be_visible()
