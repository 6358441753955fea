"""Tables of nodes, claims, volumes and pods in a real browser: order, filters, YAML, commands, and the address."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from dashboard_window import Window
from playwright.async_api import Locator, Page, expect
from shown_objects import HOSTILE, hostile_objects, ordinary_objects
from test_map_in_the_browser import claim, pool, put, put_nodes
from watched_cluster import watched_cluster

from support.filled_cluster import FilledCluster
from tonnage.dashboard.wire import NodeRow
from tonnage.stories.story_runner import stateful_set
from tonnage.testing.builders import node


def names(page: Page) -> Locator:
    return page.locator(".windowed-row .row-name")


def head(page: Page, words: str) -> Locator:
    return page.get_by_role("columnheader", name=words, exact=True)


async def in_order(page: Page) -> list[str]:
    """Names from top to bottom; rows are placed by position."""
    found: list[str] = await page.evaluate(
        """[...document.querySelectorAll(".windowed-row")].sort((a, b) => a.dataset.position - b.dataset.position)
            .map(row => row.querySelector(".row-name").textContent)"""
    )
    return found


def put_claims(cluster: FilledCluster) -> None:
    put(cluster, *(claim(f"shop/c-{gib}", gib, "n-1", volume=f"pv-{gib}") for gib in (1, 2, 10)))
    put(cluster, claim("jobs/broken", 5, "n-2", state="making", error="no space left"))
    put_nodes(cluster, NodeRow(name="n-1", pools=(pool(100, 50),)), NodeRow(name="n-2", ready=False))


async def test_rows_are_sorted_and_filtered_and_the_address_says_how(window: Window, shown_cluster: FilledCluster):
    page = window.page
    put_claims(shown_cluster)
    await window.go("tables/claims")
    await expect(names(page)).to_have_count(4)
    assert await in_order(page) == ["jobs/broken", "shop/c-1", "shop/c-2", "shop/c-10"]
    await expect(head(page, "Name")).to_have_attribute("aria-sort", "ascending")
    await head(page, "Size").get_by_role("button").click()
    assert await in_order(page) == ["shop/c-1", "shop/c-2", "jobs/broken", "shop/c-10"]
    await head(page, "Size").get_by_role("button").click()
    await expect(head(page, "Size")).to_have_attribute("aria-sort", "descending")
    assert await in_order(page) == ["shop/c-10", "jobs/broken", "shop/c-2", "shop/c-1"]

    await page.keyboard.press("/")
    await page.keyboard.type("SHOP n-1")
    await expect(names(page)).to_have_count(3)
    await expect(page.locator(".table-tools [role=status]")).to_have_text("3 of 4 claims")
    assert page.url.endswith("#/tables/claims?search=SHOP+n-1&sort=-size")
    await page.reload()
    await expect(names(page)).to_have_count(3)
    assert await in_order(page) == ["shop/c-10", "shop/c-2", "shop/c-1"]
    await page.get_by_role("searchbox").fill("")
    await page.get_by_role("button", name="Trouble only").click()
    await expect(names(page)).to_have_text(["jobs/broken"])
    await expect(page.locator(".table-cell.trouble")).to_have_text("cannot be made: no space left")
    await page.go_back()
    await expect(names(page)).to_have_count(4)
    # A claim that comes is shown without a reload.
    put(shown_cluster, claim("shop/late", 3, "n-1"))
    await expect(names(page).filter(has_text="shop/late")).to_be_visible()
    await page.get_by_role("link", name="Nodes").click()
    await expect(names(page)).to_have_text(["n-1", "n-2"])
    await expect(page.locator(".table-cell.trouble")).to_contain_text("not ready")


async def test_an_object_is_shown_as_yaml_with_commands_and_back_closes_it(
    serve, open_window, shown_cluster: FilledCluster
):
    shown_cluster.put(*ordinary_objects())
    flags = "--kubeconfig '/some where/kubeconfig'"
    window = await open_window(
        await serve(shown_cluster, command_flags=flags), permissions=["clipboard-read", "clipboard-write"]
    )
    page = window.page
    await window.go("tables/pods")
    await page.get_by_role("link", name="shop/db-1").click()
    panel = page.get_by_role("complementary", name="Details")
    await expect(panel.get_by_role("heading", name="shop/db-1")).to_be_focused()
    assert page.url.endswith("#/tables/pods/shop/db-1")
    await expect(panel.locator(".yaml")).to_contain_text("kind: Pod\nmetadata:\n")
    await expect(panel.locator(".yaml")).to_contain_text("claimName: data-db-1")
    await expect(panel.locator(".command code").first).to_have_text(f"kubectl describe pod -n shop db-1 {flags}")
    await panel.get_by_role("button", name=f"Copy: kubectl describe pod -n shop db-1 {flags}").click()
    assert await page.evaluate("navigator.clipboard.readText()") == f"kubectl describe pod -n shop db-1 {flags}"
    await page.go_back()
    await expect(panel).to_be_hidden()
    await page.go_forward()
    await expect(panel.get_by_role("heading", name="shop/db-1")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    # An address leads to an object, also where the page is opened there; one that is gone is told so.
    await window.go("tables/nodes/node-2")
    await page.reload()
    await expect(panel.locator(".yaml")).to_contain_text("kind: Node")
    window.expected += ["422"]
    await window.go("tables/nodes/node-99")
    await expect(panel).to_contain_text('Its YAML cannot be read: nodes "node-99" not found')


async def test_on_a_telephone_yaml_scrolls_and_the_panel_stays_on_the_screen(serve, open_window, shown_cluster):
    shown_cluster.put(*ordinary_objects(), node("long", annotations={"note": "words " * 50}))
    window = await open_window(await serve(shown_cluster), viewport={"width": 390, "height": 844})
    await window.go("tables/nodes/long")
    panel = window.page.get_by_role("complementary", name="Details")
    yaml = panel.locator(".yaml")
    await expect(yaml).to_contain_text("kind: Node")
    assert await yaml.evaluate("each => each.scrollWidth > each.clientWidth")
    box = await panel.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390


async def test_hostile_objects_are_text_in_tables_and_quoted_in_commands(
    serve, open_window, shown_cluster: FilledCluster
):
    shown_cluster.put(*hostile_objects())
    window = await open_window(await serve(shown_cluster), viewport={"width": 390, "height": 800})
    window.expected += ["404", "422"]
    page = window.page
    for table, key in (("nodes", HOSTILE[0]), ("nodes", HOSTILE[1]), ("nodes", HOSTILE[3]), ("nodes", HOSTILE[9])):
        to = "parts => { location.hash = '#/' + parts.map(encodeURIComponent).join('/') }"
        await page.evaluate(to, ["tables", table, key])
        command = page.locator(".command code").first
        await expect(page.locator(".panel h3")).to_have_text(key)
        assert shlex.split(await command.evaluate("each => each.textContent")) == ["kubectl", "describe", "node", key]
        assert await page.evaluate("document.querySelectorAll('main img, main script, main svg[onload]').length") == 0
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    assert await page.evaluate("window.hit === undefined")


@pytest.mark.slow
async def test_twenty_thousand_claims_are_few_elements_and_follow_a_letter(
    serve, open_window, shown_cluster: FilledCluster
):
    for number in range(20_000):
        put(shown_cluster, claim(f"team-{number % 20}/data-{number}", 1 + number % 40, f"n-{number % 5000}"))
    put_nodes(shown_cluster, *(NodeRow(name=f"n-{number}", pools=(pool(100, 60),)) for number in range(5_000)))
    window = await open_window(await serve(shown_cluster))
    page = window.page
    await window.go("tables/claims?sort=-size")
    await expect(page.locator(".table-tools [role=status]")).to_have_text("20,000 claims")
    assert await page.locator("*").count() < 2000
    await page.get_by_role("searchbox").fill("data-19999")
    await expect(names(page)).to_have_text(["team-19/data-19999"])
    await window.go("tables/nodes?sort=-free")
    await expect(page.locator(".table-tools [role=status]")).to_have_text("5,000 nodes")
    await page.locator(".windowed").evaluate("each => { each.scrollTop = each.scrollHeight }")
    await expect(page.locator('.windowed-row[data-position="4999"]')).to_be_visible()


@pytest.mark.slow
@pytest.mark.kubectl
async def test_the_commands_work_on_a_cluster_and_yaml_is_whole_without_managed_fields(open_window, tmp_path: Path):
    with watched_cluster(tmp_path / "c", "--pools", "node-1=100Gi") as up:
        await up.kubectl("apply", "-f", "-", given=stateful_set("db", "5Gi"))
        await up.kubectl("rollout", "status", "statefulset/db", "--timeout", "60s")
        window = await open_window(up.dashboard)
        page = window.page
        for table in ("nodes", "claims", "volumes", "pods"):
            await window.go(f"tables/{table}")
            await names(page).first.click()
            yaml = page.locator(".panel .yaml")
            await expect(yaml).to_contain_text("uid: ")
            text = await yaml.inner_text()
            assert "resourceVersion:" in text and "managedFields" not in text, table
            for each in await page.locator(".command code").all_inner_texts():
                if not each.startswith("kubectl "):
                    continue
                done = subprocess.run(shlex.split(each), capture_output=True, text=True, timeout=60, check=False)  # noqa: ASYNC221
                assert done.returncode == 0, (each, done.stderr)
        await page.context.close()
