"""What waits, and why, in a real browser."""

from __future__ import annotations

from playwright.async_api import expect

from tonnage.dashboard.questions import cluster_questions as pending_module
from tonnage.objects.meta import Object
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class

CREATED = {"creationTimestamp": "2026-11-15T02:00:00Z"}


def full_cluster() -> list[Object]:
    """Two nodes; db's 200Gi fit neither, web fits."""
    return [
        driver(),
        storage_class(),
        *(each for name in ("a", "b") for each in (node(name), capacity(node=name, pools=["100Gi", "80Gi"]))),
        claim("data", "200Gi"),
        claim("small", "10Gi"),
        pod_with("db", "data", metadata=CREATED),
        pod_with("web", "small", metadata=CREATED),
    ]


async def test_pods_wait_by_cause_and_one_click_tells_why(window, shown_cluster):
    shown_cluster.put(*full_cluster())
    page = window.page
    await window.go("pending")
    await expect(page.locator(".pending-headline")).to_have_text(
        "2 pods are pending: 1 already fits and should start soon, 1 does not fit"
    )
    cause = page.locator(".cause").first
    await expect(cause).to_contain_text("1 pod waits for 200Gi of class fast")
    await expect(cause).to_contain_text("nearest miss on a: largest free pool 100Gi, needs 200Gi")
    await expect(cause).to_contain_text("100Gi instead of 200Gi for claim default/data: would let it in")
    await cause.get_by_role("link", name="default/db").first.click()
    await expect(page.get_by_role("heading", name="Why default/db")).to_be_visible()
    await expect(page.locator(".explain-verdict")).to_contain_text("does not fit")


async def test_an_open_group_stays_open_while_others_come_and_go(window, shown_cluster, monkeypatch):
    monkeypatch.setattr(pending_module, "PAUSE_S", 0.0)
    shown_cluster.put(*full_cluster())
    page = window.page
    await window.go("pending")
    await page.locator(".cause summary").first.click()
    await expect(page.locator(".waiting-pod a").first).to_have_text("default/db")
    await page.locator(".waiting-pod a").first.focus()
    await page.mouse.move(0, 0)
    shown_cluster.put(pod("large", cpu="64", metadata=CREATED), pod("larger", cpu="64", metadata=CREATED))
    await expect(page.locator(".cause")).to_have_count(3)
    # Three pods wait for cpu, and would stand first: not while the focus is in the list.
    await expect(page.locator(".cause").first).to_contain_text("200Gi of class fast")
    await expect(page.locator(".waiting-pod a").first).to_be_focused()
    await page.locator(".pending input").focus()
    await expect(page.locator(".cause").first).to_contain_text("128 cpu")
    await expect(page.locator("details[open] .waiting-pod a").first).to_have_text("default/db")


async def test_a_pod_is_found_among_those_that_wait(window, shown_cluster):
    shown_cluster.put(*full_cluster())
    await window.go("pending")
    await expect(window.page.locator(".cause")).to_have_count(2)
    await window.page.get_by_role("searchbox").fill("web")
    await expect(window.page.locator(".cause")).to_have_count(1)
    await expect(window.page.locator(".cause")).to_contain_text("1 pod fits now")


async def test_an_answer_from_before_the_pods_came_does_not_deny_them(window, shown_cluster):
    page = window.page
    await window.go("pending")
    headline = page.locator(".pending-headline")
    await expect(headline).to_have_text("No pod is pending")

    async def keep_old(route):
        answer = await (await route.fetch()).json()
        await route.fulfill(json={**answer, "count": 0, "groups": [], "wouldHelp": [], "working": True})

    await page.route("**/api/v1/pending", keep_old)
    shown_cluster.put(*full_cluster())
    await expect(headline).to_have_text("2 pods are pending; working out why…")
    await expect(headline).to_have_class("pending-headline")
    await page.unroute("**/api/v1/pending", keep_old)
    await expect(headline).to_contain_text("1 does not fit")
