"""The capacity map in a real browser."""

from __future__ import annotations

from playwright.async_api import expect

from tonnage.testing.builders import node


async def test_a_node_that_comes_is_shown_without_a_reload(window, shown_cluster):
    await expect(window.page.get_by_role("status")).to_have_text("live")
    shown_cluster.put(node("node-1"))
    await expect(window.page.get_by_text("node-1")).to_be_visible()
