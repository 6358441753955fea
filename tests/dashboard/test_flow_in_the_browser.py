"""The flow, and a pod's page, in a real browser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from playwright.async_api import expect

from support.filled_cluster import FilledCluster
from tonnage.dashboard.wire import LaneRow, PodStep
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import attachment, claim, driver, pod_with, storage_class, volume
from tonnage.whatif.scheduler_memory import AssumedPod, RememberedCapacity, SchedulerMemory

NOW = datetime(2026, 11, 15, 12, 0, 0, 500, tzinfo=UTC)


def step(at_s: float, kind: str, text: str = "", on: str = "") -> PodStep:
    return PodStep(at=NOW + timedelta(seconds=at_s), kind=kind, text=text or kind, node=on, source="scheduler")


def put_lane(cluster: FilledCluster, pod: str, *steps: PodStep, done: bool = False) -> None:
    cluster.collections.put("lanes", f"uid-{pod}", LaneRow(pod=pod, steps=steps, done=done))


async def test_steps_come_as_marks_with_words_and_the_newest_lane_is_on_top(window, shown_cluster):
    page = window.page
    put_lane(shown_cluster, "shop/db-0", step(0, "created"), step(0.08, "refused", "0/3"), step(2, "refused", "0/3"))
    put_lane(shown_cluster, "shop/db-1", step(1, "created"))
    await window.go("flow")
    lanes = page.locator(".lane")
    await expect(lanes).to_have_count(2)
    first = lanes.filter(has_text="shop/db-0")
    await expect(first.locator(".lane-mark")).to_have_text(["○created", "80 ms✕refused ×2"])
    put_lane(shown_cluster, "shop/db-1", step(1, "created"), step(4.5, "decided", "goes to a", "a"))
    second = lanes.filter(has_text="shop/db-1")
    await expect(second.locator(".lane-mark")).to_have_text(["○created", "3.5 s◆decided a"])
    # The rows are placed by position: db-1 has the newest step, and stands first.
    await expect(second).to_have_attribute("aria-posinset", "1")
    await page.get_by_role("button", name="Pause").click()
    put_lane(shown_cluster, "shop/db-0", step(9, "started"), done=True)
    await expect(page.locator(".flow-told")).to_have_text("2 pods · paused")
    await expect(second).to_have_attribute("aria-posinset", "1")
    await page.get_by_role("button", name="Go on").click()
    await page.mouse.move(0, 0)
    await expect(first).to_have_attribute("aria-posinset", "1")


async def test_a_long_message_takes_no_room_from_a_name(window, shown_cluster):
    name = "billing/a-database-with-a-long-name-of-the-billing-department-0"
    put_lane(shown_cluster, name, step(0, "refused", "0/6 nodes are available: " + "too few of them, " * 30))
    await window.go("flow")
    link = window.page.get_by_role("link", name=name)
    for width in (700, 1280):
        await window.page.set_viewport_size({"width": width, "height": 800})
        assert await link.evaluate("element => element.scrollWidth - element.clientWidth") <= 0


async def test_lanes_are_filtered_and_only_those_seen_are_drawn(window, shown_cluster):
    page = window.page
    for number in range(500):
        namespace = "shop" if number % 2 else "jobs"
        put_lane(shown_cluster, f"{namespace}/p-{number:03d}", step(number, "bound" if number % 10 else "failed"))
    await window.go("flow")
    await expect(page.locator(".flow-told")).to_have_text("500 pods")
    assert await page.locator(".lane").count() < 60
    await page.get_by_label("Namespace").select_option("jobs")
    await expect(page.locator(".flow-told")).to_have_text("250 pods of 500")
    await page.get_by_label("Kind of step").select_option("failed")
    await expect(page.locator(".flow-told")).to_have_text("50 pods of 500")
    await page.get_by_role("searchbox").fill("p-040")
    await expect(page.locator(".lane")).to_have_count(1)


async def test_a_pods_page_tells_its_story_and_follows_it(window, shown_cluster):
    waiting = pod_with("db-0", "data", namespace="shop", cpu="500m", metadata={"uid": "uid-shop/db-0"})
    shown_cluster.put(
        driver(),
        storage_class(),
        node("a"),
        claim("data", "20Gi", namespace="shop", volume="pv-1"),
        volume("pv-1", "20Gi", on="a", claim="shop/data"),
        attachment("va", "pv-1", "a", error="device is busy"),
        waiting,
    )
    held = RememberedCapacity(Reservation.LEDGER, "kube-system/c", "u", "shop/db-0", ["shop/data"], 2**30, NOW, "made")
    shown_cluster.model.remember(SchedulerMemory(held=[held], pods=[AssumedPod("shop/db-0", waiting.uid, "a")]))
    put_lane(shown_cluster, "shop/db-0", step(0, "created"), step(1.5, "decided", "goes to a", "a"))
    page = window.page
    await window.go("pod/shop/db-0")
    await expect(page.locator(".pod-state")).to_contain_text("where the scheduler has sent it")
    await expect(page.locator(".pod-memory")).to_contain_text("keeps back 1Gi of kube-system/c (mode Ledger)")
    await expect(page.locator(".pod-claims")).to_contain_text("✖ device is busy")
    await expect(page.locator(".story-step")).to_have_count(2)
    await expect(page.locator(".story-step").nth(1)).to_contain_text("+1.5 s")
    put_lane(shown_cluster, "shop/db-0", step(0, "created"), step(1.5, "decided"), step(3, "bound", "bound to a", "a"))
    await expect(page.locator(".story-step")).to_have_count(3)
    await expect(page.get_by_role("link", name="shop/data")).to_have_attribute("href", "#/map/claim/shop/data")
    await page.get_by_role("link", name="Why this node, or none").click()
    await expect(page.get_by_role("heading", name="Why shop/db-0")).to_be_visible()


async def test_a_pod_that_nothing_is_known_of_is_told_so(window, shown_cluster):
    window.expected.append("422")
    await window.go("pod/shop/never")
    await expect(window.page.locator(".error-box")).to_contain_text('error: nothing is known of a pod "shop/never"')
