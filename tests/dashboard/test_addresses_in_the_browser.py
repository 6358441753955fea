"""What is shown stands in the address: it can be sent, and back and forward lead through it. What is old says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from dashboard_window import TOKEN, Window
from playwright.async_api import Page, expect
from shown_objects import ordinary_objects
from test_flow_in_the_browser import put_lane, step
from test_lost_connections_in_the_browser import BACK_MS, proxy_for
from test_map_in_the_browser import cell, claim, pool, put, put_nodes

from support.filled_cluster import FilledCluster
from tonnage.dashboard.wire import ClassRow, LaneRow, NodeRow, NoticeRow
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Event


def panel_head(page: Page):
    return page.get_by_role("complementary", name="Details").get_by_role("heading", level=3)


async def test_node_claim_search_and_filters_of_the_map_are_in_the_address(
    serve, open_window, shown_cluster: FilledCluster
):
    put(shown_cluster, ("classes", "fast", ClassRow(driver="d")), claim("shop/cart", 5, "node-9"))
    rows = [NodeRow(name=f"node-{number}", ready=number != 7, pools=(pool(10, 5),)) for number in range(12)]
    put_nodes(shown_cluster, *rows)
    address = await serve(shown_cluster)
    window: Window = await open_window(address)
    page = window.page
    await cell(page, "node-9").locator(".cell-name").click()
    assert page.url.endswith("#/map/node/node-9")
    sent = page.url
    await cell(page, "node-9").locator('[data-claim="shop/cart"]').click()
    assert page.url.endswith("#/map/claim/shop/cart")
    await page.go_back()
    await expect(panel_head(page)).to_have_text("node-9")
    await page.go_back()
    await expect(panel_head(page)).to_be_hidden()
    await page.go_forward()
    await expect(panel_head(page)).to_have_text("node-9")
    await page.keyboard.press("Escape")
    assert page.url.endswith("#/map")

    await page.get_by_role("button", name="Trouble only").click()
    assert page.url.endswith("#/map?trouble=yes")
    await expect(page.locator(".map-counts")).to_have_text("1 of 12 nodes")
    await page.get_by_role("searchbox").fill("node-7 ")
    await page.wait_for_function("location.hash === '#/map?search=node-7+&trouble=yes'")
    filtered = page.url
    await page.go_back()
    await expect(page.locator(".map-counts")).to_have_text("12 nodes")
    await expect(page.get_by_role("searchbox")).to_have_value("")

    # Somebody else is sent the address.
    other = await open_window(address)
    await expect(other.page.locator(".map-counts")).to_have_text("12 nodes")
    await other.page.goto(sent)
    await expect(panel_head(other.page)).to_have_text("node-9")
    await other.page.goto(filtered)
    await expect(other.page.locator(".map-counts")).to_have_text("1 of 12 nodes")
    await expect(other.page.get_by_role("searchbox")).to_have_value("node-7 ")


async def test_filters_of_the_flow_and_the_search_in_what_waits_are_in_the_address(
    window: Window, shown_cluster: FilledCluster
):
    page = window.page
    put_lane(shown_cluster, "shop/db-0", step(0, "created"))
    put_lane(shown_cluster, "jobs/one", step(0, "failed"))
    await window.go("flow")
    await page.get_by_label("Namespace").select_option("jobs")
    assert page.url.endswith("#/flow?namespace=jobs")
    await page.get_by_label("not done yet").check()
    assert page.url.endswith("#/flow?namespace=jobs&moving=yes")
    await page.go_back()
    await expect(page.get_by_label("not done yet")).not_to_be_checked()
    await page.reload()
    await expect(page.locator(".flow-told")).to_have_text("1 pod of 2")
    await page.go_back()
    await expect(page.locator(".flow-told")).to_have_text("2 pods")
    shown_cluster.put(*ordinary_objects())
    await window.go("pending?search=db-1")
    await expect(page.get_by_role("searchbox")).to_have_value("db-1")


async def test_a_lost_connection_dims_and_dates_what_is_shown(serve, open_window, shown_cluster: FilledCluster):
    put_nodes(shown_cluster, NodeRow(name="node-1"))
    with proxy_for(await serve(shown_cluster)) as proxy:
        window = await open_window("about:blank", view="")
        window.address = f"http://127.0.0.1:{proxy.port}/#token={TOKEN}"
        window.expected += ["ERR_"]
        page = window.page
        await page.goto(window.address)
        await expect(page.get_by_role("link", name="Map")).to_be_visible()
        await window.go("map")
        await expect(cell(page, "node-1")).to_be_visible()
        await expect(page.locator("#not-live")).to_be_hidden()
        proxy.cut()
        await expect(page.locator("#not-live")).to_contain_text("Not live: what is shown is of ")
        opacity = "document.querySelector('main').checkVisibility() && getComputedStyle(main).opacity"
        assert await page.evaluate(opacity.replace("(main)", "(document.getElementById('main'))")) == "0.55"
        await expect(cell(page, "node-1")).to_be_visible()
        proxy.mend()
        await expect(page.locator("#not-live")).to_be_hidden(timeout=BACK_MS)
        # Both are away: what is shown is as old as the API server's last answer.
        since = datetime.now(UTC) - timedelta(minutes=5)
        shown_cluster.collections.put("notices", "server", NoticeRow(severity="error", text="is away", since=since))
        await expect(page.get_by_role("status").first).to_contain_text("the API server is away")
        proxy.cut()
        await expect(page.get_by_role("status").first).to_contain_text("the dashboard's server is away")
        await expect(page.locator("#not-live")).to_contain_text("5 min")
        shown_cluster.collections.remove("notices", "server")
        proxy.mend()
        await expect(page.locator("#not-live")).to_be_hidden(timeout=BACK_MS)
        await expect(page.locator("main.is-old")).to_have_count(0)
        await page.context.close()


async def test_an_api_server_that_is_away_dims_and_dates_too(window: Window, shown_cluster: FilledCluster):
    since = datetime.now(UTC) - timedelta(minutes=5)
    shown_cluster.collections.put("notices", "server", NoticeRow(severity="error", text="does not answer", since=since))
    await expect(window.page.locator("#not-live")).to_contain_text("5 min ago")
    await expect(window.page.locator("main.is-old")).to_have_count(1)
    shown_cluster.collections.remove("notices", "server")
    await expect(window.page.locator("#not-live")).to_be_hidden()


async def test_the_flows_headline_is_what_happened_to_the_pod(window: Window, shown_cluster: FilledCluster):
    steps = (
        step(0, "created"),
        step(1, "started", "runs on a", "a"),
        step(2, "released", "10Gi are no longer kept back"),
    )
    shown_cluster.collections.put("lanes", "u", LaneRow(pod="shop/db-0", steps=steps, headline=1, done=True))
    await window.go("flow")
    await expect(window.page.locator(".lane-text")).to_have_text("runs on a")


@pytest.mark.parametrize("width", [390, 320])
async def test_nothing_that_says_trouble_is_cut_on_a_telephone(
    serve, open_window, shown_cluster: FilledCluster, width: int
):
    long = "node-with-a-very-long-name-of-the-kind-that-clouds-give-10-0-112-37.eu-central-1.compute.internal"
    put(
        shown_cluster,
        ("classes", "fast", ClassRow(driver="d")),
        claim("shop/lost", 5, "", state="lost"),
        claim(f"shop/{'long-' * 30}", 5, long, attach_error="no path to the device"),
    )
    put_nodes(
        shown_cluster,
        NodeRow(name=long, zone="zone-with-a-long-name-too", ready=False, reason="stopped", pools=(pool(100, 2),)),
        NodeRow(name="b", zone="b", ready=False, cordoned=True, pools=(pool(100, 2),)),
    )
    put_lane(shown_cluster, f"shop/{'db-' * 20}0", step(0, "created"), step(1, "refused", "0/3 nodes are available"))
    window = await open_window(await serve(shown_cluster), viewport={"width": width, "height": 800})
    page = window.page
    cut = """() => [...document.querySelectorAll(".trouble, .is-bad, .lane-mark[data-kind=refused] .lane-word")]
        .filter(each => each.checkVisibility() && each.getClientRects().length)
        .filter(each => {
            let box = each.getBoundingClientRect();
            for (let at = each; at && at !== document.body; at = at.parentElement) {
                if (getComputedStyle(at).overflowX === "visible") continue;
                const end = at.getBoundingClientRect().right + 1;
                if (at === each ? at.scrollWidth > at.clientWidth + 1 : box.right > end) return true;
            }
            return box.right > innerWidth + 1;
        }).map(each => `${each.className}: ${each.textContent}`)"""
    for level in ("Detail", "Tiles"):
        await page.get_by_role("button", name=level).click()
        await expect(cell(page, long).locator(".trouble").first).to_be_visible()
        assert (level, await page.evaluate(cut)) == (level, [])
    for view, seen in (
        ("flow", ".lane"),
        ("tables/nodes", ".table-cell.trouble"),
        ("tables/claims", ".table-cell.trouble"),
    ):
        await window.go(view)
        await expect(page.locator(seen).first).to_be_visible()
        assert (view, await page.evaluate(cut)) == (view, [])


async def test_no_message_and_no_table_of_a_waiting_pod_is_cut_on_a_telephone(
    serve, open_window, shown_cluster: FilledCluster, monkeypatch
):
    message = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) did not have enough free storage."
    event = convert(
        Event,
        {
            "metadata": {"name": "e", "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "db-1"},
            "reason": "FailedScheduling",
            "message": message,
            "type": "Warning",
            "source": {"component": "a-scheduler-with-a-long-name"},
        },
    )

    async def events_of(*about: object) -> list[Event]:
        return [event]

    monkeypatch.setattr(shown_cluster, "events_of", events_of)
    shown_cluster.put(*ordinary_objects())
    put_lane(shown_cluster, "shop/waits", step(0, "created"), step(1, "refused", message))
    page = (await open_window(await serve(shown_cluster), viewport={"width": 390, "height": 800})).page
    for view, region in (
        ("flow", "Lanes of pods"),
        ("pod/shop/db-1", "Events"),
        ("explain/shop/db-1", "Storage, pool by pool"),
    ):
        await page.evaluate("view => { location.hash = `#/${view}` }", view)
        await expect(page.get_by_role("list" if view == "flow" else "region", name=region)).to_be_visible()
        parts = page.locator(".lane-text, .node-miss, .wide")
        await expect(parts.first).to_be_visible()
        cut = await parts.evaluate_all(
            """all => all.filter(each => each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight)
                .map(each => each.textContent)"""
        )
        assert (view, cut) == (view, [])
