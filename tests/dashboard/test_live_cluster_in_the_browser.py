"""A whole cluster of `tonnage up --dashboard`, watched in a real browser while kubectl works on it.

The tests share one cluster and follow one another: pods come, a node is drained, programs go and come back.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_window import Window
from playwright.async_api import Locator, expect
from watched_cluster import Watched, watched_cluster

from support.http import free_port
from support.processes import start_cluster
from support.programs import spawn
from tonnage.faults import Fault, FaultFile
from tonnage.stories.story_runner import stateful_set

pytestmark = pytest.mark.kubectl

WITHIN_MS = 30_000


NOTE_WHAT_LEAVES_AND_COMES = """() => {
  const seen = {};
  window.seen = new Promise(resolve => {
    new MutationObserver(() => {
      for (const block of document.querySelectorAll(".cell [data-kind='leaving'], .cell [data-kind='coming']")) {
        seen[block.dataset.kind] = block.textContent;
      }
      if (seen.leaving && seen.coming) resolve(seen);
    }).observe(document.querySelector("main"), {subtree: true, childList: true, attributes: true, characterData: true});
  });
}"""
"""A rebuild is short, and a test that looks now and then may miss it."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched_cluster(tmp_path_factory.mktemp("up")) as running:
        yield running


def cell(window: Window, node: str) -> Locator:
    """A node on the map."""
    return window.page.get_by_role("gridcell").filter(
        has=window.page.locator(".cell-name", has_text=re.compile(f"^{node}$"))
    )


async def test_a_drained_node_is_watched_its_volume_is_rebuilt_elsewhere_and_one_reads_why_there(up, open_window):
    window = await open_window(up.dashboard)
    page = window.page
    for node in ("node-1", "node-2", "node-3"):
        await expect(cell(window, node)).to_be_visible()
    await up.kubectl("apply", "-f", "-", given=stateful_set("db", "40Gi"))
    block = page.locator(".cell", has_text="data-db-0")
    await expect(block).to_be_visible(timeout=WITHIN_MS)
    await up.kubectl("rollout", "status", "statefulset/db", "--timeout", "60s")
    home = (await up.kubectl("get", "pod", "db-0", "-o", "jsonpath={.spec.nodeName}")).strip()
    await expect(cell(window, home)).to_contain_text("data-db-0")
    faults = FaultFile(up.folder / "faults.json")
    faults.put(Fault("slow", "", 1.0))  # long enough to be drawn
    await page.evaluate(NOTE_WHAT_LEAVES_AND_COMES)
    await up.kubectl("drain", home, "--timeout", "30s")
    await expect(cell(window, home)).to_contain_text("cordoned")
    seen = await asyncio.wait_for(page.evaluate("window.seen"), WITHIN_MS / 1000)
    assert "data-db-0" in seen["leaving"] and "data-db-0" in seen["coming"]
    faults.clear()
    await expect(cell(window, home)).not_to_contain_text("data-db-0", timeout=WITHIN_MS)
    await up.kubectl("rollout", "status", "statefulset/db", "--timeout", "60s")
    node = (await up.kubectl("get", "pod", "db-0", "-o", "jsonpath={.spec.nodeName}")).strip()
    assert node != home
    await expect(cell(window, node)).to_contain_text("data-db-0")
    await window.go("flow")
    await expect(page.get_by_role("main")).to_contain_text("rebuilt", timeout=WITHIN_MS)
    await window.go("pod/default/db-0")
    story = page.get_by_role("main")
    await expect(story).to_contain_text(f'The volume was rebuilt on node "{node}"; it was on node "{home}"')
    await expect(story).to_contain_text(f"will be rebuilt on {node}: node {home} is out of use")
    await window.go("explain/default/db-0")
    await expect(page.get_by_role("main")).to_contain_text(f"goes to {node}", timeout=WITHIN_MS)
    await up.kubectl("uncordon", home)


async def test_a_dashboard_that_was_killed_is_back_and_browsers_stay_logged_in(up, open_window):
    window = await open_window(up.dashboard)
    window.expected += ["ERR_", "401"]
    status = window.page.get_by_role("status").first
    await expect(status).to_have_text("live")
    await window.page.evaluate("window.isTheSamePage = true")
    before = up.pid("dashboard")
    os.kill(before, signal.SIGKILL)
    await expect(status).to_contain_text("away")
    await expect(status).to_have_text("live", timeout=WITHIN_MS)
    assert await window.page.evaluate("window.isTheSamePage") and up.pid("dashboard") != before
    await expect(cell(window, "node-1")).to_be_visible()


@pytest.mark.slow
async def test_a_cluster_that_is_away_at_the_start_is_told_and_shown_when_it_comes(tmp_path, open_window):
    port = str(free_port())
    start_cluster(tmp_path, "--secure-port", port).stop()
    running = spawn("dashboard", "--kubeconfig", str(tmp_path / "kubeconfig"), "--port", "0", log=tmp_path / "log")
    line = await asyncio.to_thread(running.readline)
    assert line.startswith("ready http://127.0.0.1:"), line
    window = await open_window(line.split()[1])
    notices = window.page.get_by_role("region", name="Notices").locator(".notice")
    await expect(notices.first).to_contain_text("connection refused")
    server = await asyncio.to_thread(start_cluster, tmp_path, "--secure-port", port)
    try:
        assert server.post("/api/v1/nodes", {"metadata": {"name": "a-node"}}).code == 201
        await expect(cell(window, "a-node")).to_be_visible(timeout=WITHIN_MS)
        await expect(notices).to_have_count(1, timeout=WITHIN_MS)  # no scheduler is asked here, which is told last
        await expect(notices).to_contain_text("Not connected to the scheduler")
        await window.page.context.close()  # its stream is cut, and that is no fault of the page
    finally:
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=20) == 0
        server.stop()


def test_the_token_is_the_owners_alone_and_in_no_log(up):
    token = up.dashboard.partition("#token=")[2]
    file = up.folder / "dashboard.token"
    assert (file.read_text().strip(), stat.S_IMODE(file.stat().st_mode)) == (token, 0o600)
    endpoints = json.loads((up.folder / "endpoints.json").read_text())
    assert endpoints["dashboard"] == {"url": up.dashboard.partition("/#")[0]}
    for log in (*Path(up.folder / "logs").iterdir(), up.folder / "up.log"):
        assert token not in log.read_text(errors="replace"), log
