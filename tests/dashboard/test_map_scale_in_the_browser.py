"""The map is to scale: one scale for each storage class on every node, with a ruler; all pools are drawn or counted."""

from __future__ import annotations

import random

import pytest
from dashboard_window import Window
from playwright.async_api import Locator, Page, expect
from test_map_in_the_browser import GIB, HOSTILE, cell, claim, pool, put, put_nodes, width
from test_map_modules import found_by

from support.filled_cluster import FilledCluster
from tonnage.dashboard.wire import CapacityRow, ClassRow, NodeRow, Row
from tonnage.whatif.page import byte_ticks


def told(name: str, of_class: str, *gib: int) -> tuple[str, str, Row]:
    pools = tuple(each * GIB for each in gib)
    return (
        "capacities",
        f"d/{name}-{of_class}",
        CapacityRow(storage_class=of_class, nodes=(name,), node_count=1, pools=pools),
    )


def bars(page: Page, name: str) -> Locator:
    return cell(page, name).locator(".bar")


async def test_the_page_and_reports_have_the_same_scale_for_the_same_sizes(window: Window):
    generator = random.Random(5)
    amounts = [1, 6, 1023, 1024, 60 * GIB, 100 * GIB, 110 * GIB, 500 * GIB, 1024 * GIB, 4096 * GIB, 10**18]
    amounts += [int(10 ** generator.uniform(0, 18)) for _ in range(500)]
    ticks = [byte_ticks(each) for each in amounts]
    assert await found_by(window, "scales", amounts) == [[each[-1], each[1]] for each in ticks]
    assert all(each[-1] >= amount * (1 - 1e-9) for each, amount in zip(ticks, amounts, strict=True))


async def test_pools_are_as_long_as_they_are_large_on_every_node(window: Window, shown_cluster: FilledCluster):
    put(shown_cluster, ("classes", "fast", ClassRow(driver="d")))
    put_nodes(
        shown_cluster,
        NodeRow(name="small", pools=(pool(100, 100),)),
        NodeRow(name="large", pools=(pool(500, 500),)),
        NodeRow(name="both", pools=(pool(20, 20), pool(100, 100))),
    )
    page = window.page
    await expect(cell(page, "both")).to_be_visible()
    full = await width(bars(page, "large"))
    assert abs(await width(bars(page, "small")) / full - 100 / 500) < 0.01
    assert abs(await width(bars(page, "both").nth(0)) / full - 20 / 500) < 0.01
    # A full line is 500Gi with a mark every 100Gi; the ruler is as long as 100Gi are on the map.
    await expect(page.get_by_role("list", name="Scale")).to_contain_text("100Gi")
    assert abs(await width(page.locator(".ruler")) / full - 100 / 500) < 0.01
    # A larger pool comes: all bars follow.
    put_nodes(shown_cluster, NodeRow(name="huge", pools=(pool(1000, 1000),)))
    await expect(page.locator(".ruler + span")).to_have_text("200Gi")
    assert abs(await width(bars(page, "large")) / await width(bars(page, "huge")) - 0.5) < 0.01


async def test_each_class_has_its_own_scale(window: Window, shown_cluster: FilledCluster):
    put(
        shown_cluster,
        *(("classes", name, ClassRow(driver="d")) for name in ("archive", "nvme")),
        *(told("a", "archive", 4096), told("a", "nvme", 100)),
        *(told("b", "archive", 2048), told("b", "nvme", 50)),
        claim("shop/x", 50, "b", storage_class="nvme"),
    )
    put_nodes(shown_cluster, NodeRow(name="a"), NodeRow(name="b"))
    page = window.page
    await expect(bars(page, "b")).to_have_count(2)
    # archive: 4Ti and 2Ti; nvme: 100Gi, and 50Gi of claims with 50Gi free. None of them is a sliver.
    archive = await width(bars(page, "a").nth(0))
    assert abs(await width(bars(page, "b").nth(0)) / archive - 0.5) < 0.01
    for name in ("a", "b"):
        assert abs(await width(bars(page, name).nth(1)) / archive - 1) < 0.02
    await expect(page.locator(".scales li")).to_have_text(
        ["Scale", "1Ti of archive; a full line is 4Ti", "20Gi of nvme; a full line is 100Gi"]
    )
    await cell(page, "a").click()
    await expect(page.locator(".scale-words")).to_have_text(
        "A full line is 4Ti of archive, with a mark every 1Ti; 100Gi of nvme, with a mark every 20Gi, on every node."
    )


async def test_every_pool_is_drawn_or_counted_and_a_high_node_leaves_no_room_empty(
    window: Window, shown_cluster: FilledCluster
):
    put_nodes(
        shown_cluster,
        NodeRow(name="n-0", pools=tuple(pool(100, 50) for _ in range(12))),
        NodeRow(name="n-1", pools=tuple(pool(100, 50) for _ in range(30))),
        *(NodeRow(name=f"n-{number}", pools=(pool(100, 50),)) for number in range(2, 11)),
    )
    page = window.page
    await expect(bars(page, "n-0")).to_have_count(12)
    await expect(bars(page, "n-1")).to_have_count(11)
    await expect(cell(page, "n-1").locator(".more-bars")).to_have_text("19 more pools, 950Gi free")
    # Three lanes: the nodes with one pool stand below each other in the third, beside the high ones.
    boxes = [await cell(page, f"n-{number}").bounding_box() for number in range(6)]
    lefts, tops = zip(*((box["x"], box["y"]) for box in boxes if box is not None), strict=True)
    assert tops[0] == tops[1] == tops[2] < tops[3] < tops[4] < tops[5]
    assert lefts[2] == lefts[3] == lefts[4] == lefts[5]
    await cell(page, "n-2").focus()
    await page.keyboard.press("ArrowDown")
    await expect(cell(page, "n-3")).to_be_focused()
    await page.keyboard.press("ArrowUp")
    await expect(cell(page, "n-2")).to_be_focused()
    await cell(page, "n-1").click()
    await expect(page.locator(".panel .bar")).to_have_count(30)


async def test_the_drawer_floats_over_the_map_and_breaks_no_word(window: Window, shown_cluster: FilledCluster):
    put(
        shown_cluster,
        ("classes", "fast", ClassRow(driver="d")),
        claim("shop/" + "long-name-of-a-claim-" * 9, 50, "n-1"),
        told("n-1", "fast", *[50] * 30),
    )
    put_nodes(shown_cluster, NodeRow(name="n-1"), NodeRow(name=HOSTILE))
    page = window.page
    await expect(cell(page, "n-1")).to_be_visible()
    before = await width(page.locator(".stage"))
    await cell(page, "n-1").locator(".cell-name").click()
    panel = page.get_by_role("complementary", name="Details")
    await expect(panel).to_be_visible()
    assert await width(page.locator(".stage")) == before
    for viewport in (1280, 800, 390, 320):
        await page.set_viewport_size({"width": viewport, "height": 800})
        broken = await panel.evaluate(
            """panel => {
                const linesOf = each => {
                    const range = document.createRange();
                    range.selectNodeContents(each);
                    return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size;
                };
                return [...panel.querySelectorAll("td, th, dd")]
                    .filter(each => /^[\\d.]+[KMGTPE]i$|^[a-z]+$/.test(each.textContent) && linesOf(each) > 1)
                    .map(each => each.textContent);
            }"""
        )
        assert (viewport, broken) == (viewport, [])
        assert await panel.evaluate("panel => panel.scrollWidth - panel.clientWidth") <= 0, viewport


@pytest.mark.parametrize("nodes", [0, 1])
async def test_a_cluster_of_no_node_and_of_one(window: Window, shown_cluster: FilledCluster, nodes: int):
    put_nodes(shown_cluster, *(NodeRow(name=f"n-{number}", pools=(pool(7, 7),)) for number in range(nodes)))
    await expect(window.page.locator(".map-counts")).to_have_text("1 node" if nodes else "0 nodes")
    await expect(window.page.locator(".ruler")).to_have_count(nodes)
