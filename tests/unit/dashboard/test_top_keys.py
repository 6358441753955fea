"""`tonnage top` played without a terminal: what keys do, what stays under the cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.filled_cluster import FilledCluster
from tonnage.clock import SystemClock
from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.status.keeper import StatusKeeper
from tonnage.dashboard.terminal.app import Top
from tonnage.dashboard.terminal.lines_view import LinesView, in_ascii, is_ascii_alone
from tonnage.dashboard.wire import NodeRow, NoticeRow
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, storage_class


class Screen:
    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> str:
        """The screen after these keys, as text."""
        await self.pilot.press(*keys)
        return await self.text()

    async def text(self) -> str:
        self.app._draw()
        await self.pilot.pause()
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(each.text for each in strip).rstrip() for strip in strips)


@asynccontextmanager
async def screen_of(cluster: FilledCluster, size: tuple[int, int] = (80, 24), page: str = "m") -> AsyncIterator[Screen]:
    """A screen that shows the map; with an empty `page`, as it starts."""
    status = StatusKeeper(cluster)
    await status.look()
    app = Top(cluster, Asking(), status)
    async with app.run_test(size=size) as pilot:
        await pilot.press(*page)
        yield Screen(app, pilot)


def cluster_of_nodes(count: int) -> FilledCluster:
    cluster = FilledCluster(clock=SystemClock())
    cluster.put(*(node(f"node-{number}") for number in range(1, count + 1)))
    return cluster


async def test_the_keys_are_shown_and_every_page_keeps_to_eighty_by_twenty_four():
    async with screen_of(cluster_of_nodes(100)) as screen:
        for key in ("n", "m", "p", "f"):
            lines = (await screen.press(key)).splitlines()
            assert len(lines) == 24
            for shown in ("now", "map", "pending", "flow", "search", "sort", "back", "quit"):
                assert shown in lines[-1]


async def test_enter_opens_what_the_cursor_is_on_and_escape_goes_back():
    async with screen_of(cluster_of_nodes(3)) as screen:
        assert "node-2   no zone   takes pods" in await screen.press("down", "enter")
        assert "node-1" in await screen.press("escape")


async def test_the_cursor_stays_on_its_node_when_others_come_before_it():
    cluster = cluster_of_nodes(2)
    async with screen_of(cluster) as screen:
        await screen.press("down")
        assert screen.app.query_one(LinesView).key == "node-2"
        cluster.collections.put("nodes", "a-1", NodeRow(name="a-1"))
        await screen.text()
        assert screen.app.query_one(LinesView).key == "node-2"


async def test_the_cursor_at_the_end_of_a_long_list_is_seen():
    async with screen_of(cluster_of_nodes(300)) as screen:
        assert "node-300" in await screen.press("end")
        assert "node-300" not in await screen.press("home")


async def test_letters_of_a_search_are_letters_and_an_empty_search_shows_all():
    async with screen_of(cluster_of_nodes(30)) as screen:
        shown = await screen.press("slash", "2", "9", "enter")
        assert "node-29" in shown and "node-28" not in shown
        assert "/q" in await screen.press("slash", "backspace", "backspace", "q", "enter")
        assert "node-2 " in await screen.press("escape")


async def test_a_pod_that_waits_is_told_by_cause_and_explained_in_full():
    cluster = cluster_of_nodes(1)
    cluster.put(pod("shop/big", cpu="999"))
    async with screen_of(cluster, size=(120, 40)) as screen:
        await screen.press("p")
        shown = await screen.text()
        while "wait for" not in shown and "waits for" not in shown:
            shown = await screen.text()
        assert "shop/big" in shown
        shown = await screen.press("enter")
        while "Insufficient cpu" not in shown:
            shown = await screen.text()
        assert "NodeResourcesFit" in shown


async def test_what_cannot_be_read_is_told_above_the_page():
    cluster = cluster_of_nodes(1)
    cluster.collections.put("notices", "pods", NoticeRow(text="pods is forbidden"))
    async with screen_of(cluster) as screen:
        assert "pods: pods is forbidden" in await screen.text()


async def test_a_question_mark_tells_the_keys_and_what_signs_mean():
    async with screen_of(cluster_of_nodes(3)) as screen:
        shown = await screen.press("question_mark")
        assert "sort the map by name, fullness, trouble" in shown and "kept back: promised to a pod" in shown
        assert "kept back: promised" not in await screen.press("escape")
        await screen.press("question_mark")
        assert "no zone" in await screen.press("m")


async def test_back_from_a_node_the_cursor_is_on_it_again():
    async with screen_of(cluster_of_nodes(100)) as screen:
        await screen.press(*["down"] * 60, "enter")
        assert "node-61" in await screen.press("escape")
        assert screen.app.query_one(LinesView).key == "node-61"


async def test_a_locale_without_utf_8_gets_ascii_alone(monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    cluster = cluster_of_nodes(40)  # more than a screen shows
    cluster.put(node("knoten-ü", unschedulable=True), storage_class(), capacity("fast", "node-1", "100Gi"))
    async with screen_of(cluster) as screen:
        for keys in (["m"], ["enter"], ["question_mark"], ["p"], ["f"]):
            assert (await screen.press(*keys)).isascii()
        shown = await screen.press("m")
        assert "knoten-?" in shown and "! cordoned" in shown and "....." in shown


@pytest.mark.parametrize(
    ("environ", "is_so"),
    [
        ({}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),  # Python's own addition
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "en_GB.utf8"}, False),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "POSIX"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, False),
    ],
)
def test_characters_are_those_of_the_locale(environ: dict[str, str], is_so: bool):
    assert is_ascii_alone(environ) is is_so
    assert in_ascii("a█→日") == "a#>??"


async def test_a_narrow_terminal_keeps_names_and_what_is_wrong():
    cluster = FilledCluster(clock=SystemClock())
    cluster.put(node("storage-rack-7-shelf-12", unschedulable=True))
    async with screen_of(cluster, size=(60, 20)) as screen:
        shown = await screen.text()
        assert "storage-rack-7-shel" in shown and "cordoned" in shown
    async with screen_of(cluster, size=(200, 60)) as screen:
        assert "storage-rack-7-shelf-12" in await screen.text()


async def test_no_line_of_a_page_lies_under_the_scroll_bar():
    cluster = cluster_of_nodes(30)
    cluster.put(*(node(f"cordoned-{number}", unschedulable=True) for number in range(30)))
    async with screen_of(cluster, size=(60, 20)) as screen:
        for key in ("n", "m"):
            await screen.press(key)
            view = screen.app.query_one(LinesView)
            assert view.show_vertical_scrollbar
            room = view.scrollable_content_region.width
            assert max(line.text.cell_len for line in view._lines) <= room


async def test_how_to_leave_is_shown_at_sixty_columns():
    async with screen_of(cluster_of_nodes(3), size=(60, 20)) as screen:
        keys = (await screen.text()).splitlines()[-1]
        assert "help" in keys and "quit" in keys


async def test_headings_and_errors_have_their_own_style():
    async with screen_of(cluster_of_nodes(3)) as screen:
        await screen.text()
        heading, first = (screen.app.query_one(LinesView).render_line(number) for number in (0, 1))
        assert next(iter(heading)).style.bold and next(iter(first)).style.reverse


@pytest.mark.parametrize("width", [80, 60])
async def test_the_first_screen_is_what_is_wrong_and_enter_leads_to_it(width: int):
    cluster = cluster_of_nodes(3)
    cluster.put(node("node-2", taints=["node.kubernetes.io/not-ready:NoSchedule"]), storage_class())
    cluster.put(capacity(node="node-1", pools=["60Gi", "40Gi"]))
    async with screen_of(cluster, (width, 40), page="") as screen:
        shown = await screen.text()
        assert "2 nodes ready, 1 not" in shown and "1 error" in shown
        assert "ERROR    node-2 is not ready" in shown
        assert "kubectl describe node node-2" in shown
        assert "fast, free" in shown and "█" in shown and "100Gi of 100Gi" in shown
        assert all(len(line) <= width for line in shown.splitlines())
        shown = await screen.press("down", "down", "enter")
        assert "NotReady" in shown or "not-ready" in shown
        assert "no room" in await screen.press("escape") or "map" in await screen.text()


async def test_a_headline_goes_on_beside_its_severity_and_a_long_name_in_the_next_line():
    short, long = "a-node-with-a-name-of-some-length", "a-node-with-a-name-of-many-letters-as-clouds-give-them-" * 2
    cluster = cluster_of_nodes(1)
    cluster.put(node(short, unschedulable=True), node(long, unschedulable=True))
    async with screen_of(cluster, size=(50, 24), page="") as screen:
        lines = (await screen.press("n")).splitlines()
    first = next(number for number, line in enumerate(lines) if short in line)
    assert lines[first].startswith("INFO     a-node") and lines[first + 1].startswith("         ")
    assert long in "".join(line.strip() for line in lines)
