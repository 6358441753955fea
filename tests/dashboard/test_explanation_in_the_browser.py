"""An explanation in a real browser: node by node, pool by pool, scores."""

from __future__ import annotations

from playwright.async_api import expect

from tonnage.objects.meta import Object
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class


def cluster(*, nodes: int, size: str) -> list[Object]:
    found: list[Object] = [driver(), storage_class(), claim("data", size), pod_with("db", "data", cpu="500m")]
    for number in range(nodes):
        name = f"node-{number:04d}"
        found += [node(name, cpu=str(2 + number % 4)), capacity(node=name, pools=["100Gi", f"{50 + number % 3}Gi"])]
    return found


async def test_the_chosen_node_is_marked_with_its_scores_and_pools(window, shown_cluster):
    shown_cluster.put(*cluster(nodes=4, size="60Gi"))
    page = window.page
    await window.go("explain/default/db")
    await expect(page.locator(".verdict-word")).to_contain_text("goes to node-")
    chosen = page.locator(".feasible .is-chosen")
    await expect(chosen).to_have_count(1)
    panel = page.locator(".node-panel")
    await expect(panel).to_contain_text("★ chosen")
    await expect(panel.locator(".scores")).to_contain_text("TaintToleration")
    await expect(panel.locator(".scores")).to_contain_text("×3")
    await expect(panel).to_contain_text("takes 60Gi of 100Gi")
    await page.locator(".feasible .node-row button").nth(2).click()
    await expect(panel).not_to_contain_text("★ chosen")


async def test_thousands_of_refused_nodes_are_grouped_searched_and_drawn_only_where_seen(window, shown_cluster):
    shown_cluster.put(*cluster(nodes=1000, size="1Ti"))
    page = window.page
    await window.go("explain/default/db")
    await expect(page.locator(".verdict-word")).to_have_text("✕ does not fit")
    group = page.locator(".refused-group")
    await expect(group.locator("summary")).to_contain_text("node(s) did not have enough free storage")
    await expect(group.locator("summary .cause-count")).to_have_text("1,000")
    assert await group.locator(".node-row").count() < 40
    await page.get_by_role("searchbox").fill("0777")
    await expect(group.locator(".node-row")).to_have_count(1)
    await group.get_by_role("button", name="node-0777").click()
    await expect(page.locator(".node-panel")).to_contain_text("node-0777")
    await expect(page.locator(".node-panel")).to_contain_text("largest free pool 100Gi, needs 1Ti")
    heads = ["Claim", "Kind", "Pools", "Needs", "Verdict", "Reserved", "Slots", "Nodes"]  # those of the command
    await expect(page.locator(".offers th")).to_have_text(heads)


async def test_an_explanation_says_when_the_cluster_has_changed_since(window, shown_cluster):
    shown_cluster.put(*cluster(nodes=2, size="200Gi"))
    page = window.page
    await window.go("explain/default/db")
    await expect(page.locator(".verdict-word")).to_have_text("✕ does not fit")
    shown_cluster.put(capacity(node="node-0001", pools=["300Gi"]))
    await expect(page.locator(".explain > .answer-moment")).to_contain_text("the cluster has changed since")
    await page.get_by_role("button", name="Ask again").click()
    await expect(page.locator(".verdict-word")).to_have_text("✓ goes to node-0001")


async def test_a_pod_that_is_not_there_is_told_with_those_that_may_be_meant(window, shown_cluster):
    shown_cluster.put(*cluster(nodes=1, size="1Gi"))
    window.expected.append("422")  # what the browser's console says of an answer that is an error
    await window.go("explain/default/dbb")
    await expect(window.page.locator(".error-box")).to_contain_text('error: there is no pod "default/dbb"')
    await expect(window.page.locator(".error-box")).to_contain_text("hint: did you mean default/db?")
