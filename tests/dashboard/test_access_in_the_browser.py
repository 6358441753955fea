"""Getting in, in a real browser: the token of the address, the form, two browsers, a server that comes back."""

from __future__ import annotations

from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from dashboard_window import TOKEN
from playwright.async_api import expect

from tonnage.dashboard.server import attempts
from tonnage.dashboard.server.program import DashboardSettings, shown
from tonnage.testing.builders import node


async def test_the_token_leaves_the_address_at_once_and_is_sent_in_no_url(window):
    asked: list[str] = []
    window.page.on("request", lambda each: asked.append(each.url))
    await window.page.goto("about:blank")
    await window.page.goto(window.address)
    await expect(window.page.get_by_role("status")).to_have_text("live")
    assert TOKEN not in window.page.url
    assert asked and not any(TOKEN in url.partition("#")[0] for url in asked)
    await window.page.reload()  # the cookie is enough
    await expect(window.page.get_by_role("status")).to_have_text("live")


async def test_without_a_token_the_page_asks_for_it(serve, open_window, shown_cluster):
    shown_cluster.put(node("node-1"))
    address = (await serve(shown_cluster)).partition("#")[0]
    window = await open_window(address)
    window.expected += ["401"]
    page = window.page
    field = page.get_by_label("Token")
    await expect(field).to_be_focused()
    await field.fill("wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_have_text("This is not the token of this dashboard.")
    await expect(page.get_by_text("node-1")).to_have_count(0)
    await field.fill(TOKEN)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_have_text("live")
    await expect(field).to_have_count(0)


async def test_a_wrong_token_in_the_address_asks_too_and_many_are_told_to_wait(
    serve, open_window, shown_cluster, monkeypatch
):
    monkeypatch.setattr(attempts, "EVERY_S", 3600.0)
    address = (await serve(shown_cluster)).partition("#")[0]
    window = await open_window(f"{address}#token=wrong")
    window.expected += ["401", "429"]
    page = window.page
    for each in range(11):
        await page.get_by_label("Token").fill(f"wrong-{each}")
        async with page.expect_response("**/login"):
            await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("alert")).to_have_text("too many wrong tokens were shown: wait a little")


async def test_two_browsers_see_the_same_changes(serve, open_window, shown_cluster):
    address = await serve(shown_cluster)
    first, second = await open_window(address), await open_window(address)
    shown_cluster.put(node("node-1"))
    for window in (first, second):
        await expect(window.page.get_by_role("main")).to_contain_text("node-1")
    shown_cluster.remove(node("node-1"))
    for window in (first, second):
        await expect(window.page.get_by_role("main")).not_to_contain_text("node-1")


async def test_a_server_that_comes_back_is_followed_again_without_a_reload(open_window, shown_cluster):
    async with AsyncExitStack() as later:
        async with shown(shown_cluster, DashboardSettings(port=0, token=TOKEN)) as address:
            port = urlsplit(address).port
            window = await open_window(address)
            window.expected += ["ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE"]
            page = window.page
            status = page.get_by_role("status")
            await expect(status).to_have_text("live")
            await page.evaluate("window.isTheSamePage = true")
        await expect(status).to_contain_text("server is away")
        shown_cluster.put(node("node-1"))
        settings = DashboardSettings(port=port or 0, token=TOKEN)
        await later.enter_async_context(shown(shown_cluster, settings))
        await expect(status).to_have_text("live", timeout=20_000)
        await expect(page.get_by_role("main")).to_contain_text("node-1")
        assert await page.evaluate("window.isTheSamePage")
        await page.context.close()


async def test_a_server_that_comes_back_with_another_token_asks_for_it(open_window, shown_cluster):
    async with AsyncExitStack() as later:
        async with shown(shown_cluster, DashboardSettings(port=0, token=TOKEN)) as address:
            port = urlsplit(address).port
            window = await open_window(address)
            window.expected += ["ERR_", "401"]
            page = window.page
            await expect(page.get_by_role("status")).to_have_text("live")
        await later.enter_async_context(shown(shown_cluster, DashboardSettings(port=port or 0, token="another" * 4)))
        await expect(page.get_by_label("Token")).to_be_visible(timeout=20_000)
        await page.get_by_label("Token").fill("another" * 4)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("status")).to_have_text("live", timeout=20_000)
        await page.context.close()


async def test_the_printed_address_may_be_pasted_over_a_page_that_is_open(serve, open_window, shown_cluster):
    address = await serve(shown_cluster)
    window = await open_window(address.partition("#")[0])
    window.expected += ["401"]
    page = window.page
    await expect(page.get_by_label("Token")).to_be_visible()
    for _ in ("at the form", "when logged in"):
        await page.evaluate("address => { location.href = address }", address)  # a new fragment, and no new page
        await expect(page).not_to_have_url(address)
        await expect(page.get_by_role("status")).to_have_text("live")
        assert TOKEN not in page.url
