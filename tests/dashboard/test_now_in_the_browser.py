"""The landing page: what is wrong now, worst first, with its command; and the past in charts."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest
from playwright.async_api import Page, expect
from shown_objects import ordinary_objects

from support.filled_cluster import FilledCluster
from tonnage.clock import rfc3339
from tonnage.dashboard.status.keeper import StatusKeeper
from tonnage.dashboard.status.overview import SAMPLE_S, ClassRoom, Overview
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, storage_class

GI = 1 << 30


def failed_node(cluster: FilledCluster, name: str = "node-2", minutes: float = 12) -> Node:
    since = rfc3339(cluster.clock.now() - timedelta(minutes=minutes))
    message = "Kubelet stopped posting node status."
    condition = {"type": "Ready", "status": "Unknown", "message": message, "lastTransitionTime": since}
    labels = {"kubernetes.io/hostname": name}
    doc: dict[str, Any] = {"kind": "Node", "metadata": {"name": name, "labels": labels}}
    return convert(Node, {**doc, "status": {"conditions": [condition]}})


def watched_for_an_hour(cluster: FilledCluster) -> StatusKeeper:
    """A keeper that has seen the class fast fill up, a wave of pending pods and some refusals."""
    keeper = StatusKeeper(cluster)
    now = cluster.clock.now()
    keeper.log.started_at = now - timedelta(seconds=3600)
    for second in range(3600, 0, -SAMPLE_S):
        share = second / 3600
        room = ClassRoom(free=int((200 + 150 * share) * GI), total=500 * GI, largest=60 * GI)
        waves = 4 if 0.3 < share < 0.5 else 0
        refused = sum(second <= each for each in (1700, 1650, 1400, 900))
        keeper.log.note([], Overview(pending=waves, classes={"fast": room}), refused, now - timedelta(seconds=second))
    return keeper


async def shot(page: Page, name: str) -> None:
    """Kept for whoever wants to look: $TONNAGE_SHOTS names a folder."""
    if folder := os.environ.get("TONNAGE_SHOTS"):
        await page.screenshot(path=f"{folder}/{name}.png", full_page=True)


@pytest.fixture
def troubled(shown_cluster: FilledCluster) -> FilledCluster:
    shown_cluster.put(
        *ordinary_objects(), failed_node(shown_cluster), claim("lost", volume="pv-lost", namespace="shop")
    )
    shown_cluster.put(storage_class("slow"), capacity("slow", node="node-1", pools=["4Gi"]))
    return shown_cluster


async def test_the_first_thing_seen_is_what_is_wrong_worst_first(serve, open_window, troubled):
    window = await open_window(await serve(troubled, watched_for_an_hour(troubled)), view="")
    page = window.page
    await expect(page).to_have_title("Now · Tonnage")
    await expect(page.locator(".trouble h3").first).to_have_text("node-2 is not ready")
    first = page.locator(".trouble").first
    await expect(first.locator(".trouble-age")).to_have_text("for 12 min")
    await expect(first.locator("code")).to_have_text("kubectl describe node node-2")
    severities = await page.locator(".trouble").evaluate_all("all => all.map(each => each.dataset.severity)")
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    line = page.get_by_role("list", name="The cluster in one line")
    await expect(line).to_contain_text("2 nodes ready, 1 not, 1 cordoned")
    await expect(line).to_contain_text("fast 18 % full")
    await expect(line).to_contain_text("2 pods pending")
    await shot(page, "now-light")


async def test_a_command_is_copied(serve, open_window, troubled):
    window = await open_window(await serve(troubled), view="", permissions=["clipboard-read", "clipboard-write"])
    button = window.page.locator(".trouble").first.locator(".copy")
    await button.focus()
    await window.page.keyboard.press("Enter")
    await expect(window.page.locator(".trouble").first.locator(".copy")).to_have_text("Copied")
    assert await window.page.evaluate("navigator.clipboard.readText()") == "kubectl describe node node-2"


async def test_on_a_telephone_a_command_breaks_between_its_words_alone(serve, open_window, troubled):
    address = await serve(troubled, StatusKeeper(troubled, flags="--kubeconfig shop/kubeconfig"))
    page = (await open_window(address, view="", viewport={"width": 390, "height": 844})).page
    command = page.locator(".trouble code").first
    await expect(command).to_have_text("kubectl describe node node-2 --kubeconfig shop/kubeconfig")
    heights = await command.locator("span").evaluate_all("all => all.map(each => each.getBoundingClientRect().height)")
    assert len(heights) == 6 and len(set(heights)) == 1


async def test_history_that_cannot_be_asked_is_told_and_what_is_wrong_stays(serve, open_window, troubled):
    address = await serve(troubled)
    window = await open_window("about:blank", view="")
    window.address = address
    window.expected += ["ERR_"]
    await window.page.route("**/api/v1/history*", lambda route: route.abort())
    await window.page.goto(address)
    await expect(window.page.get_by_text("The dashboard's server does not answer")).to_be_visible()
    await expect(window.page.locator(".trouble h3").first).to_have_text("node-2 is not ready")


async def test_a_trouble_leads_to_its_object(serve, open_window, troubled):
    window = await open_window(await serve(troubled), view="")
    await window.page.get_by_role("link", name="node-2 is not ready").click()
    await expect(window.page).to_have_title("Map · Tonnage")
    assert window.page.url.endswith("#/map/node/node-2")


async def test_the_past_is_looked_back_at_by_the_keyboard(serve, open_window, troubled):
    window = await open_window(await serve(troubled, watched_for_an_hour(troubled)), view="")
    page = window.page
    told = page.locator(".look-back-told")
    await expect(told).to_contain_text("now: 1 node not ready, fast 18 % full")
    slider = page.get_by_role("slider", name="Look back")
    await slider.focus()
    await page.keyboard.press("Home")
    # an hour ago: 350 of 500 free
    await expect(told).to_contain_text("fast 30 % full, 0 pods pending")
    chart = page.get_by_role("img", name="Pending pods")
    assert "highest 4 at" in (await chart.get_attribute("aria-label") or "")
    assert (await page.get_by_role("img", name="Refused volumes").get_attribute("aria-label") or "").startswith(
        "Refused volumes: 4 since"
    )
    await page.get_by_text("The same as a table").click()
    await expect(page.get_by_role("region", name="Figures of the past").locator("tbody tr").first).to_be_visible()


async def test_when_nothing_is_wrong_it_says_so_and_since_when(serve, open_window, shown_cluster):
    shown_cluster.put(node("node-1"), storage_class(), capacity(node="node-1", pools=["100Gi"]))
    window = await open_window(await serve(shown_cluster, watched_for_an_hour(shown_cluster)), view="")
    verdict = window.page.locator(".now-verdict")
    await expect(verdict).to_have_text("Nothing is wrong. It has been so for 60 min")
    await expect(window.page.locator(".trouble")).to_have_count(0)
    young = pod("young", metadata={"creationTimestamp": rfc3339(shown_cluster.clock.now())})
    shown_cluster.put(young)
    await expect(verdict).to_have_text("Nothing is wrong. It has been so for 60 min; a pending pod counts after 30 s")
    shown_cluster.remove(young)
    await expect(verdict).to_have_text("Nothing is wrong. It has been so for 60 min")
    await shot(window.page, "now-well")


async def test_a_trouble_comes_and_goes_while_one_looks(serve, open_window, shown_cluster):
    healthy = node("node-2")
    shown_cluster.put(node("node-1"), healthy)
    window = await open_window(await serve(shown_cluster), view="")
    await expect(window.page.locator(".now-verdict")).to_contain_text("Nothing is wrong")
    shown_cluster.put(failed_node(shown_cluster))
    await expect(window.page.locator(".trouble h3")).to_have_text("node-2 is not ready")
    shown_cluster.put(healthy)
    await expect(window.page.locator(".now-verdict")).to_contain_text("Nothing is wrong")
    await expect(window.page.locator(".ended")).to_contain_text("node-2 is not ready ended")


@pytest.mark.parametrize(
    ("name", "options"), [("dark", {"color_scheme": "dark"}), ("phone", {"viewport": {"width": 390, "height": 844}})]
)
async def test_nothing_that_says_trouble_is_cut(serve, open_window, troubled, name, options):
    window = await open_window(await serve(troubled, watched_for_an_hour(troubled)), view="", **options)
    page = window.page
    await expect(page.locator(".trouble h3").first).to_be_visible()
    await expect(page.locator(".chart").first).to_be_visible()
    cut = await page.locator(".trouble h3, .trouble-meaning, .now-verdict, .now-line li").evaluate_all(
        "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"
    )
    assert cut == []
    await shot(page, f"now-{name}")
