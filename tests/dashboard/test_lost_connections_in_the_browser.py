"""Connections that are lost, go silent, or lead to another cluster than before: the page goes on by itself."""

from __future__ import annotations

from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from dashboard_window import TOKEN, Window
from playwright.async_api import Locator, expect

from support.faulty_proxy import FaultyProxy
from support.filled_cluster import FilledCluster
from tonnage.clock import SystemClock
from tonnage.dashboard.server.program import DashboardSettings, shown
from tonnage.testing.builders import node

BACK_MS = 20_000


def status(window: Window) -> Locator:
    return window.page.get_by_role("status").first


def proxy_for(address: str) -> FaultyProxy:
    return FaultyProxy("127.0.0.1", urlsplit(address).port or 0)


async def test_after_a_cut_and_after_silence_the_page_goes_on_with_what_changed(serve, open_window, shown_cluster):
    shown_cluster.put(node("node-1"))
    with proxy_for(await serve(shown_cluster)) as proxy:
        window = await open_window("about:blank", view="")
        window.address = f"http://127.0.0.1:{proxy.port}/#token={TOKEN}"
        window.expected += ["ERR_"]
        page, asked = window.page, []
        page.on("request", lambda each: asked.append(urlsplit(each.url).path))
        await page.clock.install()
        await page.goto(window.address)
        await expect(status(window)).to_have_text("live")
        await window.go("map")
        main = page.get_by_role("main")
        await expect(main).to_contain_text("node-1")

        proxy.cut()
        await expect(status(window)).to_contain_text("away")
        shown_cluster.put(node("node-2"))
        shown_cluster.remove(node("node-1"))
        proxy.mend()
        await page.clock.fast_forward(1000)
        await expect(status(window)).to_have_text("live", timeout=BACK_MS)
        await expect(main).to_contain_text("node-2")
        await expect(main).not_to_contain_text("node-1")
        assert asked.count("/api/v1/state") == 1  # of the rest alone was told

        proxy.hold(both_ways=True)  # a machine that slept: nobody says that the connection is gone
        shown_cluster.put(node("node-3"))
        await page.clock.fast_forward(31_000)
        await expect(status(window)).to_contain_text("away")
        proxy.release()
        await page.clock.fast_forward(1000)
        await expect(status(window)).to_have_text("live", timeout=BACK_MS)
        await expect(main).to_contain_text("node-3")
        await page.context.close()


async def test_another_cluster_behind_the_same_port_takes_the_place_of_the_first(open_window, shown_cluster, tmp_path):
    shown_cluster.put(node("node-of-the-first"))
    async with AsyncExitStack() as later:
        async with shown(shown_cluster, DashboardSettings(port=0, token=TOKEN)) as address:
            window = await open_window(address)
            window.expected += ["ERR_"]
            main = window.page.get_by_role("main")
            await expect(main).to_contain_text("node-of-the-first")
            await expect(window.page.get_by_role("link", name="Faults")).to_have_count(0)
        other = FilledCluster(clock=SystemClock())
        other.put(node("node-of-the-other"))
        settings = DashboardSettings(port=urlsplit(address).port or 0, token=TOKEN, data_dir=tmp_path)
        await later.enter_async_context(shown(other, settings))
        await expect(main).to_contain_text("node-of-the-other", timeout=BACK_MS)
        await expect(main).not_to_contain_text("node-of-the-first")
        await expect(window.page.get_by_role("link", name="Faults")).to_be_visible()
        await window.page.context.close()
