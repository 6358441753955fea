"""A drain on a live cluster is previewed and then done: the map after it is the map that was shown."""

from __future__ import annotations

import pytest
from watched_cluster import watched_cluster

from tonnage.stories.story_runner import stateful_set

AFTER = """async node => {
    const {ask} = await import("/js/api.js");
    const {State} = await import("/js/state.js");
    const {afterDrain} = await import("/js/what_if/after.js");
    const state = new State();
    state.apply(await ask("/api/v1/state"));
    const answer = await ask("/api/v1/drain-preview", {method: "POST", body: {nodes: [node]}});
    window.shown = SHOWN(afterDrain(state, answer).state);
    return window.shown;
}"""
NOW = """async () => {
    const {ask} = await import("/js/api.js");
    const {State} = await import("/js/state.js");
    const state = new State();
    state.apply(await ask("/api/v1/state"));
    return SHOWN(state) === window.shown;
}"""
SHOWN = """(state => JSON.stringify([
    [...state.nodes].sort().map(([name, row]) => [
        name, row.cordoned ?? false, row.pods ?? 0,
        (row.slots ?? []).map(each => [each.driver, each.used ?? 0, each.limit]),
        row.pools.map(pool => [pool.free ?? 0, pool.volumes ?? []]),
    ]),
    [...state.volumes].sort().map(([key, row]) => [key, row.state, row.node, row.attached ?? []]),
    [...state.pods].sort().map(([key, row]) => [key, row.node, row.phase]),
    [...state.capacities].sort().map(([key, row]) => [key, row.pools, row.capacity, row.left, row.reserved ?? []]),
]))"""


@pytest.mark.slow
@pytest.mark.kubectl
async def test_the_map_after_a_drain_is_the_map_that_the_preview_showed(tmp_path, open_window):
    # One pool a node and one node to go to: nothing is left to the scheduler's or the driver's choice.
    with watched_cluster(tmp_path / "up", "--nodes", "2", "--pools", "300Gi", "--classes", "2") as up:
        for name in ("one", "two", "three"):
            await up.kubectl("apply", "-f", "-", given=stateful_set(name, "40Gi"))
        for name in ("one", "two", "three"):
            await up.kubectl("rollout", "status", f"statefulset/{name}", "--timeout", "60s")
        window = await open_window(up.dashboard)
        window.expected += ["ERR_"]  # the cluster stops before the window is closed
        home = (await up.kubectl("get", "pod", "one-0", "-o", "jsonpath={.spec.nodeName}")).strip()
        is_settled = "async () => (await (await fetch('/api/v1/state')).text()).includes('reserved') === false"
        await window.page.wait_for_function(is_settled, timeout=90_000)
        await window.page.evaluate(AFTER.replace("SHOWN", SHOWN), home)
        await up.kubectl("drain", home, "--timeout", "60s")
        await window.page.wait_for_function(NOW.replace("SHOWN", SHOWN), timeout=90_000)
