"""What if, in a real browser: nodes are chosen, a drain is previewed, replicas are counted, and the map shows both."""

from __future__ import annotations

import re
from urllib.parse import quote

from dashboard_window import Opened, Serve
from playwright.async_api import expect

from support.dashboard_requests import EXAMPLES, cluster_of_files
from tonnage.objects.core_v1 import Node
from tonnage.objects.meta import ObjectMeta

MILL = EXAMPLES / "14-drain-preview" / "cluster.yaml"
FIT = [EXAMPLES / "13-fit" / "cluster.yaml", EXAMPLES / "13-fit" / "kafka.yaml"]


async def test_a_drain_is_previewed_with_the_map_before_and_after(serve: Serve, open_window: Opened):
    cluster = cluster_of_files(MILL)
    window = await open_window(await serve(cluster))
    page = window.page
    await window.go("what-if")
    await expect(page.get_by_role("button", name="Preview the drain")).to_be_disabled()
    # By name, and by a click on the map.
    await page.get_by_label("Nodes", exact=True).fill("mill-1")
    await page.keyboard.press("Enter")
    await page.locator(".cell[data-node=mill-3] .cell-name").click()
    chosen = page.get_by_label("Chosen nodes").get_by_role("listitem")
    await expect(chosen).to_have_count(2)
    await page.get_by_role("button", name="Leave out mill-3").click()
    await page.get_by_role("button", name="Preview the drain").click()
    verdict = "1 pod is stuck; 2 pods move, 1 is lost, 80Gi rebuilt"
    await expect(page.locator(".verdict")).to_contain_text(verdict)
    await expect(page.get_by_role("region", name="Stuck")).to_contain_text("mill/search-0")
    moves = page.get_by_role("region", name="Moves")
    await expect(moves.get_by_role("row").filter(has_text="mill/db-0")).to_contain_text("data-db-0 80Gi rebuilt")
    # After: drained and cordoned, and the volume lies on mill-2.
    after, before = page.get_by_role("grid", name="after"), page.get_by_role("grid", name="before")
    await expect(after.locator("[data-node=mill-1]")).to_have_accessible_name(contains("cordoned", "drained"))
    await expect(after.locator("[data-node=mill-2]")).to_contain_text("data-db-0")
    await page.get_by_role("button", name="Side by side").click()
    await expect(before.locator("[data-node=mill-1]")).to_contain_text("data-db-0")
    rulers = page.get_by_role("list", name="Scale")  # both maps have one, of the same amount and length
    assert len(set(await rulers.all_inner_texts())) == 1 and await rulers.count() == 2
    await expect(after.locator("[data-node=mill-1]")).not_to_contain_text("data-db-0")
    # An answer is of its moment: when the cluster changes, that is said.
    await expect(page.locator(".as-of")).not_to_contain_text("has changed since")
    cluster.remove(next(each for each in cluster.objects() if each.key == "mill/migration"))
    await expect(page.locator(".as-of")).to_contain_text("has changed since")


async def test_the_form_stands_beside_the_map_where_there_is_room(serve: Serve, open_window: Opened):
    window = await open_window(await serve(cluster_of_files(MILL)), viewport={"width": 2560, "height": 1200})
    form, shown = window.page.locator(".question"), window.page.locator(".asked-map")
    for asked in ("what-if/drain", "what-if/fit", "what-if/drain/mill-2"):
        await window.go(asked)
        await expect(shown.locator(".cell").first).to_be_visible()
        if asked.endswith("mill-2"):
            await expect(window.page.locator(".verdict")).to_be_visible()
        beside, left = await shown.bounding_box(), await form.bounding_box()
        assert beside is not None and left is not None
        assert beside["y"] == left["y"] and beside["x"] > left["x"] + left["width"]


async def test_what_the_command_would_refuse_is_told_with_its_hint(serve: Serve, open_window: Opened):
    window = await open_window(await serve(cluster_of_files(MILL)))
    window.expected.append("422")
    await window.go("what-if/drain/mill-9")
    problem = window.page.get_by_role("alert")
    await expect(problem).to_contain_text('there is no node "mill-9" among the 3 nodes of the manifests')
    await expect(problem).to_contain_text("hint: did you mean mill-3 or mill-2 or mill-1?")
    await window.go("what-if/fit")
    await window.page.get_by_text("Or a template").click()
    await window.page.get_by_label("A workload, or a pod").fill("kind: Pod\n  metadata: {")
    await window.page.get_by_role("button", name="Count").click()
    await expect(problem).to_contain_text("the template: yaml: line 2")


async def test_replicas_are_counted_and_shown_on_nodes(serve: Serve, open_window: Opened):
    window = await open_window(await serve(cluster_of_files(*FIT)))
    page = window.page
    await window.go("what-if/fit")
    await expect(page.locator("#workloads option")).to_have_attribute("value", "StatefulSet/default/kafka")
    await page.get_by_label("Workload", exact=True).fill("StatefulSet/default/kafka")
    await page.get_by_role("button", name="Count").click()
    await expect(page.locator(".verdict")).to_contain_text(
        "6 more for certain, 7 if the driver packs well; room for 6 of 12 replicas (east 5, west 1)"
    )
    await expect(page.get_by_role("region", name="What stops the next replica")).to_contain_text("unschedulable")
    await expect(page.locator(".helps li").first).to_have_text("uncordon rack-2-b")
    node = page.get_by_role("grid", name="after").locator("[data-node=rack-1-a]")
    await expect(node).to_contain_text("+3")
    await expect(node).to_contain_text("log-kafka-0")


def contains(*words: str) -> re.Pattern[str]:
    """Words that an attribute has somewhere, in this order or the other way round."""
    return re.compile(".*".join(map(re.escape, words)) + "|" + ".*".join(map(re.escape, reversed(words))))


async def test_hostile_names_are_text_in_answers_and_do_not_break_the_page(serve: Serve, open_window: Opened):
    """A message of a pod is anything; a node's name may be long, and what is asked for stands in the address."""
    long_name = "n" * 200
    cluster = cluster_of_files(MILL)
    cluster.put(Node(metadata=ObjectMeta(name=long_name)))
    window = await open_window(await serve(cluster), viewport={"width": 360, "height": 800})
    window.expected.append("422")
    page = window.page
    asked = "<img src=x onerror=alert(1)>\u202egnp.exe"
    await window.go(f"what-if/drain/{quote(asked, safe='')}")
    await expect(page.get_by_role("alert")).to_contain_text("<img src=x onerror=alert(1)>")
    assert await page.locator("img").count() == 0
    await window.go(f"what-if/drain/{long_name}")
    await expect(page.locator(".verdict")).to_contain_text("no pod is stuck")
    widths = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1], "nothing is wider than the window"


AFTER = """async ([message, answer]) => {
    const {State} = await import("/js/state.js");
    const {afterDrain} = await import("/js/what_if/after.js");
    const state = new State();
    state.apply(message);
    const told = JSON.stringify([...state.capacities, ...state.nodes]);
    const after = afterDrain(state, answer).state;
    if (told !== JSON.stringify([...state.capacities, ...state.nodes])) throw new Error("it was changed");
    return [Object.fromEntries(after.capacities), Object.fromEntries(after.nodes)];
}"""


async def test_what_is_free_after_a_drain_stands_in_the_order_of_the_pools_and_what_is_left_follows(window):
    def room(node, *pools, **more):
        told = {"storageClass": "fast", "nodes": [node], "nodeCount": 1, "pools": pools, "tellsPools": True}
        return {**told, "capacity": sum(pools), "left": sum(pools), "largest": max(pools), **more}

    kept = [{"mode": "Ledger", "pod": "ns/p", "bytes": 10, "since": "2026-01-01T00:00:00Z"}]
    inside = [{"size": 100, "free": 60, "volumes": ["ns/d"]}, {"size": 100, "free": 100}]
    rows = {
        "nodes": {"a": {"name": "a", "pools": inside}, "b": {"name": "b"}},
        "volumes": {"ns/d": {"claim": "ns/d", "node": "a", "bytes": 40, "state": "bound"}},
        "capacities": {"k/a": room("a", 60, 100), "k/b": room("b", 80, 100, 90, reserved=kept)},
    }
    move = {"pod": "ns/p", "from": "a", "to": "b", "volumes": [{"claim": "d", "action": "rebuild"}]}
    # The rehearsal does not know in which pool a volume lies, and tells the largest pool first.
    disks = [{"objects": ["k/a"], "freeBytes": [140, 60]}, {"objects": ["k/b"], "freeBytes": [100, 80, 50]}]
    answer = {"drained": ["a"], "moves": [move], "preempted": [], "stuck": [], "lost": [], "disksAfter": disks}
    capacities, nodes = await window.page.evaluate(AFTER, [{"state": True, "set": rows, "gone": {}}, answer])
    assert [each["free"] for each in nodes["a"]["pools"]] == [100, 100]
    for key, pools, left in (("k/a", [100, 100], 200), ("k/b", [50, 100, 80], 220)):
        found = capacities[key]
        assert (found["pools"], found["capacity"], found["left"], found["largest"]) == (pools, sum(pools), left, 100)
