"""What holds in every view: hostile names stay text, everybody can use it, nothing scrolls sideways.

The views are those of views.js: a new one is covered by being there.
"""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from dashboard_window import Window
from playwright.async_api import Page, expect
from shown_objects import CREATED, HOSTILE, hostile_objects, ordinary_objects

from tonnage.dashboard.wire import NoticeRow
from tonnage.faults import Fault, FaultFile
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Event
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import claim, pod_with, volume

ABOUT = {"explain": ["shop", "db-0"], "pod": ["shop", "db-0"]}
"""What a view is opened with that shows one thing."""


async def views_of(page: Page) -> list[str]:
    return await page.evaluate("import('/js/views.js').then(main => Object.keys(main.VIEWS))")  # type: ignore[no-any-return]


async def go(window: Window, view: str, *about: str) -> None:
    parts = [view, *(about or ABOUT.get(view, ()))]
    await window.page.evaluate("parts => { location.hash = '#/' + parts.map(encodeURIComponent).join('/') }", parts)
    title = await window.page.evaluate(
        """([view, ...rest]) => import('/js/views.js').then(({VIEWS}) =>
            (rest.length && VIEWS[view].titleOf?.(...rest)) || VIEWS[view].title)""",
        parts,
    )
    await expect(window.page).to_have_title(f"{title} · Tonnage")
    await settled(window.page)


async def settled(page: Page) -> None:
    """Until what was asked is answered and drawn."""
    await expect(page.locator("main [aria-busy='true']")).to_have_count(0)
    await page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def overflow(page: Page) -> int:
    """How much wider the page is than its window."""
    return await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")  # type: ignore[no-any-return]


@pytest.fixture
def embedded(tmp_path: Any) -> dict[str, Any]:
    """Settings of a dashboard of an embedded cluster, with a fault: so the view of faults is listed as well."""
    FaultFile(tmp_path / "faults.json").put(Fault("slow", "node-1", 2.0))
    return {"data_dir": tmp_path}


async def test_hostile_names_are_text_in_every_view(serve, open_window, shown_cluster, embedded):
    shown_cluster.put(*hostile_objects())
    for number, text in enumerate(HOSTILE):
        shown_cluster.collections.put("notices", text, NoticeRow(text=f"{number} {text}", hint=text))
    window = await open_window(await serve(shown_cluster, **embedded))
    page = window.page
    dialogs: list[str] = []
    page.on("dialog", lambda each: dialogs.append(each.message))
    for view in await views_of(page):
        for about in [(text, text) for text in HOSTILE[:3]] if view in ABOUT else [()]:
            await go(window, view, *about)
            made = await page.evaluate(
                """() => document.querySelectorAll(
                    "body script, [onerror], [onload], img, iframe, object, embed, [href^='javascript:']").length"""
            )
            assert (view, made) == (view, 0)
            for width in (360, 1280):
                await page.set_viewport_size({"width": width, "height": 800})
                await settled(page)
                assert (view, width, await overflow(page)) == (view, width, 0)
    assert await page.evaluate("window.hit === undefined") and not dialogs


async def test_hostile_events_labels_and_addresses_are_text_in_every_view(serve, open_window, shown_cluster, embedded):
    """Beside names: what may be any text on a real server too, and what a link from elsewhere can say."""
    pairs = {f"example.org/k{number}": text for number, text in enumerate(HOSTILE)}
    shown_cluster.put(*ordinary_objects())
    shown_cluster.put(
        node("node-1", labels=pairs | {"topology.kubernetes.io/zone": HOSTILE[0]}, annotations=pairs),
        pod_with("db-1", "data-db-1", namespace="shop", metadata=CREATED | {"labels": pairs, "annotations": pairs}),
    )
    for number, text in enumerate(HOSTILE):
        about = {"kind": "Pod", "namespace": "shop", "name": "db-1", "uid": "shop-db-1"}
        said = {"reason": text, "message": text, "type": text, "action": text, "reportingComponent": text}
        at = {"eventTime": "2026-11-15T02:00:01.000000Z", "firstTimestamp": "2026-11-15T02:00:01Z"}
        for reason in (text, "FailedScheduling", "ProvisioningFailed"):
            meta = {"name": f"e{number}-{reason[:20]}", "namespace": "shop", "uid": f"e{number}{reason}"}
            doc = {
                "metadata": meta,
                "involvedObject": about,
                **said,
                **at,
                "reason": reason,
                "source": {"component": text},
            }
            shown_cluster.model.heard(convert(Event, doc))
    window = await open_window(await serve(shown_cluster, **embedded))
    window.expected += ["404", "422"]  # of pods that are not there, and of labels that are none
    page = window.page
    dialogs: list[str] = []
    page.on("dialog", lambda each: dialogs.append(each.message))
    links = [f"#/{view}" for view in await views_of(page)]
    links += [f"#/{part}/{text}?q={text}" for part in ("pod/shop", "explain", "map", "pending") for text in HOSTILE[:3]]
    links += [f"#{text}" for text in HOSTILE[:3]] + ["#/javascript:alert(1)", "#/__proto__/constructor", "#/%", "#/%ff"]
    for link in (*links, "#/pod/shop/db-1", "#/explain/shop/db-1"):
        await page.evaluate("link => { location.hash = link }", link)
        await settled(page)
        made = await page.evaluate(
            """() => document.querySelectorAll(
                "body script, [onerror], [onload], img, iframe, object, embed, [href^='javascript:']").length"""
        )
        assert (link, made) == (link, 0)
    assert await page.evaluate("window.hit === undefined && Object.prototype.hit === undefined") and not dialogs


async def test_everybody_can_use_every_view(serve, open_window, shown_cluster, embedded):
    shown_cluster.put(*ordinary_objects())
    window = await open_window(await serve(shown_cluster, **embedded))
    found = []
    for view in await views_of(window.page):
        await go(window, view)
        found += await violations(window.page, f"{view}, light")
        await window.page.emulate_media(color_scheme="dark")
        found += await violations(window.page, f"{view}, dark", only_colours=True)
        await window.page.emulate_media(color_scheme="light")
    assert not found


async def test_everybody_can_use_the_map_with_an_open_node_on_every_screen(serve, open_window, shown_cluster):
    shown_cluster.put(*ordinary_objects())
    shown_cluster.put(volume("pv-small", "1Gi", on="node-1", claim="shop/small"), claim("small", volume="pv-small"))
    window = await open_window(await serve(shown_cluster))
    found = []
    for level in ("Overview", "Tiles", "Detail"):
        await window.page.get_by_role("button", name=level, exact=True).click()
        for width in (390, 1280):
            await window.page.set_viewport_size({"width": width, "height": 800})
            for scheme in ("light", "dark"):
                await window.page.emulate_media(color_scheme=scheme)
                await go(window, "map", "node", "node-1")
                found += await violations(window.page, f"{level}, {width}, {scheme}")
    assert not found


async def test_everybody_can_log_in(serve, open_window, shown_cluster):
    window = await open_window((await serve(shown_cluster)).partition("#")[0])
    window.expected += ["401"]
    await expect(window.page.get_by_label("Token")).to_be_focused()
    assert not await violations(window.page, "login")


async def violations(page: Page, view: str, *, only_colours: bool = False) -> list[str]:
    """What axe finds; what is not about colours is the same in light and in dark.

    A page loads axe once, and elements are listed of violations alone: each is half a megabyte between two processes.
    """
    rules = {"rules": {"label-content-name-mismatch": {"enabled": True}}}
    options = {"resultTypes": ["violations"], **({"runOnly": ["color-contrast"]} if only_colours else rules)}
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(Axe().axe_script)
    result = await page.evaluate("options => axe.run(options)", options)
    assert result["passes"]
    return [
        f"{view}: {each['id']}: {each['help']}: {found['html'][:200]}: {found.get('failureSummary', '')[:300]}"
        for each in result["violations"]
        for found in each["nodes"]
    ]


async def test_nothing_scrolls_sideways_on_a_telephone_and_nothing_is_lost_on_a_wall(
    serve, open_window, shown_cluster, embedded
):
    shown_cluster.put(*ordinary_objects())
    window = await open_window(await serve(shown_cluster, **embedded))
    for view in await views_of(window.page):
        await go(window, view)
        for width, height in ((360, 640), (3840, 2160)):
            await window.page.set_viewport_size({"width": width, "height": height})
            await settled(window.page)
            assert (view, width, await overflow(window.page)) == (view, width, 0)


async def test_every_view_is_reached_by_the_keyboard_and_the_focus_stays_on_its_link(
    serve, open_window, shown_cluster, embedded
):
    shown_cluster.put(*ordinary_objects())
    window = await open_window(await serve(shown_cluster, **embedded))
    page = window.page
    await expect(page.get_by_role("status")).to_have_text("live")
    await page.keyboard.press("Tab")
    await expect(page.get_by_text("Skip to content")).to_be_focused()
    links = page.get_by_role("navigation").get_by_role("link")
    for number in range(await links.count()):
        await page.keyboard.press("Tab")
        await expect(links.nth(number)).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(links.nth(number)).to_have_attribute("aria-current", "page")
        await expect(links.nth(number)).to_be_focused()
    await page.keyboard.press("Shift+Tab")
    for _ in range(await links.count() - 1):
        await page.keyboard.press("Shift+Tab")
    await expect(page.get_by_text("Skip to content")).to_be_focused()
    where = page.url
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()
    assert page.url == where


async def test_an_address_that_names_no_view_shows_the_landing_page(window):
    await expect(window.page.get_by_role("status")).to_have_text("live")
    for fragment in ("#/%E0%A4%A", "#/constructor", "#/__proto__/x", "#/nothing", "#main"):
        await window.go("pending")
        await expect(window.page).to_have_title("Pending · Tonnage")
        await window.page.evaluate("fragment => { location.hash = fragment }", fragment)
        await expect(window.page).to_have_title("Now · Tonnage")


async def test_names_that_every_object_inherits_are_names_like_others(serve, open_window, shown_cluster):
    """A node may be called constructor; a zone, which is a label's value, toString."""
    shown_cluster.put(*ordinary_objects())
    shown_cluster.put(node("constructor", labels={"topology.kubernetes.io/zone": "toString"}))
    window = await open_window(await serve(shown_cluster))
    await expect(window.page.get_by_role("main")).to_contain_text("toString")
    await go(window, "explain", "shop", "db-1")
    await window.page.get_by_role("button", name="constructor").first.click()
    await expect(window.page.locator(".node-panel h3")).to_contain_text("constructor")
    await go(window, "what-if", "constructor")
    await expect(window.page.get_by_role("main")).to_contain_text("nothing is changed")


async def test_an_address_cannot_lead_to_another_path_of_the_server(window):
    asked: list[str] = []
    await expect(window.page.get_by_role("status")).to_have_text("live")  # the page itself has read the state by then
    window.page.on("request", lambda each: asked.append(each.url))
    for fragment in ("#/pod/../state", "#/pod/%2e%2e/state", "#/explain/./..", "#/explain/..%2f../state"):
        await window.page.evaluate("fragment => { location.hash = fragment }", fragment)
        await settled(window.page)
    window.expected += ["422"]
    assert not [each for each in asked if each.endswith("/state")]


async def test_back_leads_to_where_one_was_and_a_new_view_begins_at_its_top(serve, open_window, shown_cluster):
    shown_cluster.put(*ordinary_objects(), *(node(f"extra-{number}") for number in range(60)))
    window = await open_window(await serve(shown_cluster), viewport={"width": 700, "height": 500})
    page = window.page
    await page.get_by_role("button", name="Detail").click()
    await expect(page.locator(".cell.detail").first).to_be_visible()
    await page.evaluate("scrollTo(0, 1234)")
    await page.wait_for_function("scrollY === 1234")
    await go(window, "pod")
    await expect(page).to_have_title("shop/db-0 · Tonnage")
    assert await page.evaluate("scrollY") == 0
    await page.go_back()
    await page.wait_for_function("scrollY === 1234")
    await expect(page).to_have_title("Map · Tonnage")


async def test_the_keyboard_goes_on_in_the_view_that_a_link_led_to(serve, open_window, shown_cluster):
    shown_cluster.put(*ordinary_objects())
    window = await open_window(await serve(shown_cluster))
    await go(window, "pending")
    link = window.page.get_by_role("link", name="shop/db-1").first
    await link.focus()
    await window.page.keyboard.press("Enter")
    await expect(window.page.locator("#main")).to_be_focused()
    await window.page.keyboard.press("Tab")
    assert await window.page.evaluate("document.querySelector('main').contains(document.activeElement)")


async def test_what_is_chosen_is_seen_in_windows_high_contrast(serve, open_window, shown_cluster):
    shown_cluster.put(*ordinary_objects())
    window = await open_window(await serve(shown_cluster), forced_colors="active")
    current, other = window.page.locator("nav a[aria-current]"), window.page.locator("nav a:not([aria-current])").first
    ground = "element => getComputedStyle(element).backgroundColor"
    await expect(window.page.locator(".block[data-claim]").first).to_be_visible()
    assert await current.evaluate(ground) != await other.evaluate(ground)
    assert await window.page.locator(".block[data-claim]").first.evaluate(ground) == "rgb(0, 114, 178)"
