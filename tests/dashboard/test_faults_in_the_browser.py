"""Faults, in a real browser: asked first, set, seen by everybody, ended; and not there for a real cluster."""

from __future__ import annotations

from pathlib import Path

from dashboard_window import Opened, Serve, Window
from playwright.async_api import expect

from support.filled_cluster import FilledCluster
from tonnage.faults import FAULT_FILE_NAME, Fault, FaultFile
from tonnage.objects.core_v1 import Node
from tonnage.objects.meta import ObjectMeta


async def test_a_fault_is_set_after_asking_and_ended(
    shown_cluster: FilledCluster, serve: Serve, open_window: Opened, tmp_path: Path
):
    file = FaultFile(tmp_path / FAULT_FILE_NAME)
    shown_cluster.put(Node(metadata=ObjectMeta(name="node-1")))
    window = await open_window(await serve(shown_cluster, data_dir=tmp_path))
    page = window.page
    await page.get_by_role("link", name="Faults").click()
    await page.get_by_label("What", exact=True).select_option("slow")
    await page.get_by_label("How many seconds").fill("2")
    await page.get_by_label("Nodes", exact=True).fill("node-1")
    await page.keyboard.press("Enter")
    set_it, dialog = page.get_by_role("button", name="Set the fault …"), page.get_by_role("dialog")
    # It asks; Enter by habit and Escape change nothing, and the focus does not leave the dialog.
    await set_it.click()
    await expect(dialog).to_contain_text("on the node node-1: every call takes this much longer (2 seconds)")
    await expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(set_it).to_be_focused()
    assert file.all() == ()
    await set_it.click()
    await dialog.get_by_role("button", name="Set the fault").click()
    held = page.get_by_label("Faults that are set").get_by_role("listitem")
    await expect(held).to_contain_text(["slow 2 seconds on node-1"])
    assert file.all() == (Fault("slow", "node-1", 2),)
    # What the command line sets is seen too.
    file.put(Fault("dead"))
    await expect(held).to_have_count(2)
    await page.get_by_role("button", name="End it: dead on every node").click()
    await dialog.get_by_role("button", name="End it").click()
    await expect(held).to_have_count(1)
    assert file.all() == (Fault("slow", "node-1", 2),)


async def test_a_real_cluster_has_no_faults(window: Window):
    await expect(window.page.get_by_role("link", name="What if")).to_be_visible()
    await expect(window.page.get_by_role("link", name="Faults")).to_have_count(0)
    await window.go("faults")
    await expect(window.page.locator("main")).to_contain_text("Faults are for clusters of tonnage up alone")
