"""Getting in, in a real browser: the token of the address, the form, two browsers, a server that comes back."""

from __future__ import annotations

from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from aiohttp import web
from dashboard_window import TOKEN
from playwright.async_api import expect

from tonnage.dashboard.server import access
from tonnage.dashboard.server.program import DashboardSettings, shown
from tonnage.faults import FaultFile
from tonnage.listener import listening
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
    monkeypatch.setattr(access, "EVERY_S", 3600.0)
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


ATTACKS = """async ({target, address}) => {
    const told = {};
    const said = promise => promise.then(answer => `${answer.type} ${answer.status}`, error => error.name);
    const post = {method: "POST", body: JSON.stringify({kind: "dead"}), credentials: "include"};
    told.read = await said(fetch(`${target}/api/v1/state`, {credentials: "include"}));
    told.blind = await said(fetch(`${target}/api/v1/state`, {credentials: "include", mode: "no-cors"}));
    told.write = await said(fetch(`${target}/api/v1/faults`, {...post, mode: "no-cors"}));
    told.header = await said(fetch(`${target}/api/v1/faults`, {...post, headers: {"X-Tonnage-Dashboard": "1"}}));
    told.stream = await new Promise(done => {
        const source = new EventSource(`${target}/api/v1/changes`, {withCredentials: true});
        source.onopen = () => done("open");
        source.onerror = () => { source.close(); done("error"); };
    });
    const loaded = (name, attributes) => new Promise(done => {
        const element = Object.assign(document.createElement(name), attributes);
        element.onload = () => done("loaded");
        element.onerror = () => done("error");
        document.body.append(element);
    });
    told.script = await loaded("script", {src: `${target}/js/api.js`, type: "module"});
    told.image = await loaded("img", {src: `${target}/icon.svg`});
    const frame = document.createElement("iframe");
    frame.src = address;
    const framed = new Promise(done => { frame.onload = done; });
    document.body.append(frame);
    await framed;
    try { told.frame = frame.contentDocument === null ? "closed" : "open"; } catch { told.frame = "closed"; }
    return told;
}"""


async def test_a_page_of_another_port_of_this_host_gets_nothing_with_the_cookie(
    serve, open_window, shown_cluster, tmp_path
):
    """The same site to a browser, which sends the cookie, Strict or not: what stops it is Origin and Sec-Fetch."""
    shown_cluster.put(node("node-1"))
    address = await serve(shown_cluster, data_dir=tmp_path)
    window = await open_window(address)
    await expect(window.page.get_by_role("status")).to_have_text("live")

    async def evil(request: web.BaseRequest) -> web.Response:
        return web.Response(text="<!doctype html><body>evil", content_type="text/html")

    async with listening(evil, host="127.0.0.1", port=0, tls=None, grace_s=0) as listener:
        page = await window.page.context.new_page()
        await page.goto(f"http://127.0.0.1:{listener.port}/")
        target = address.partition("/#")[0]
        told = await page.evaluate(ATTACKS, {"target": target, "address": target + "/"})
        assert told.pop("blind") in ("opaque 0", "TypeError") and told.pop("write") in ("opaque 0", "TypeError")
        assert told == {
            "read": "TypeError",
            "header": "TypeError",
            "stream": "error",
            "script": "error",
            "image": "error",
            "frame": "closed",
        }
        await page.close()
    assert not FaultFile(tmp_path / "faults.json").all()


WAYS = """() => new Promise(done => setTimeout(() => done(  // later: what a test evaluates may evaluate itself
    ["innerHTML", "eval", "policy", "src", "timer"].map(way => {
        try {
            if (way === "innerHTML") document.createElement("p").innerHTML = "<b>x</b>";
            if (way === "eval") eval("window.hit = 1");
            if (way === "policy") trustedTypes.createPolicy("mine", {createHTML: text => text});
            if (way === "src") document.createElement("script").src = "/js/main.js";
            if (way === "timer") setTimeout("window.hit = 1");
            return `${way} was taken`;
        } catch (error) {
            return error.name;
        }
    })
)))"""


async def test_no_text_becomes_a_script_whoever_sets_it(window):
    """Were a view to set markup by mistake: the browser itself refuses it, by Trusted Types and the policy."""
    await expect(window.page.get_by_role("status")).to_have_text("live")
    window.expected += ["Content Security", "Trusted"]
    assert await window.page.evaluate(WAYS) == ["TypeError", "EvalError", "TypeError", "TypeError", "TypeError"]
    assert await window.page.evaluate("window.hit === undefined")
