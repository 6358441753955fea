"""`tonnage top`: what is wrong now, map, pending pods and flow of a cluster in a terminal, kept up to date.

The page is redrawn at most twice a second, to spare slow ssh connections.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input, Static

from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.status.keeper import StatusKeeper
from tonnage.dashboard.terminal import lines_view, list_pages
from tonnage.dashboard.terminal.lines_view import LinesView, PageOfLines, ScreenLine, cell, in_ascii, plain, row
from tonnage.dashboard.terminal.map_page import FREE, PROMISED, SORTS, USED, map_lines, node_lines
from tonnage.dashboard.wire import NodeRow, NoticeRow, PodRow
from tonnage.errors import TonnageError
from tonnage.objects.meta import Key
from tonnage.printable import printable
from tonnage.whatif.page import count_text
from tonnage.whatif.pending.pending import PendingAnswer

_KEYS: Final = (
    ("n, m, p, f", "now: what is wrong, worst first; map, pending, flow"),
    ("up, down, j, k", "one line; page up, page down, home, end: further"),
    ("enter", "more of the line under the cursor: a node, a pod, a lane"),
    ("escape", "back; in a search: show all again"),
    ("/", "search nodes, zones, claims, pods and words; enter keeps what was found"),
    ("s", "sort the map by name, fullness, trouble"),
    ("q", "leave"),
)
_SIGNS: Final = (
    (USED * 3, "used by volumes, or by what else is in a pool"),
    (PROMISED * 3, "kept back: promised to a pod, not used yet"),
    (FREE * 3, "free"),
    ("3/16", "attach slots used, of how many"),
    ("▲", "trouble: cordoned, NotReady, stale figures, no slot or no room left"),
    ("→", "volumes on their way to this node"),
)


def help_lines(width: int) -> list[ScreenLine]:
    page = PageOfLines(width)
    for title, style, entries in (("keys", "bold", _KEYS), ("on the map", "", _SIGNS)):
        page.heading(title)
        for sign, words in entries:
            lead = row(cell("", 1), cell(sign, 16, style), Text())
            page.say(Text(words), lead.cell_len, lead=lead)
        page.blank()
    page.heading("pending and flow")
    page.plain("Pods that wait stand below what they wait for, with the nearest miss and what would help.", indent=2)
    page.plain("A lane shows the newest step first, with its time since the step before.", indent=2)
    return page.lines


DRAW_S: Final = 0.5
REST: Final = 4
"""Pause after a redraw, in multiples of its duration: four fifths of the time remain for keys."""
ASK_S: Final = 3.0
SCROLL_BAR: Final = 1
"""Columns of the scroll bar: lines end before it, whether there is one or not."""


class Top(App[None]):
    ENABLE_COMMAND_PALETTE = False
    TITLE = "tonnage top"
    CSS = """
    #head { height: 1; background: $panel; }
    #notice { height: auto; max-height: 3; color: $warning; }
    #search { display: none; height: 1; border: none; padding: 0; }
    LinesView { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "page('now')", "now"),
        Binding("m", "page('map')", "map"),
        Binding("p", "page('pending')", "pending"),
        Binding("f", "page('flow')", "flow"),
        Binding("question_mark", "help", "help", key_display="?"),  # these are seen at 60 columns
        Binding("q", "quit", "quit"),
        Binding("slash", "search", "search", key_display="/"),
        Binding("s", "sort", "sort"),
        Binding("escape", "leave", "back"),
    ]

    def __init__(self, cluster: ShownCluster, asking: Asking, status: StatusKeeper) -> None:
        super().__init__()
        self._cluster, self._asking, self._status = cluster, asking, status
        self._page = "now"
        self._opened = ""
        self._search = ""
        self._sort = SORTS[0]
        self._pending: PendingAnswer | None = None
        self._explained: list[ScreenLine] = []
        self._drawn: tuple[object, ...] = ()
        self._helps = False
        self._rests_until = 0.0
        self.is_ascii_alone = lines_view.is_ascii_alone(os.environ)

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="notice")
        yield LinesView(is_ascii_alone=self.is_ascii_alone)
        yield Input(id="search", placeholder="search; enter ends, escape clears")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.query_one(LinesView).focus()
        self.set_interval(DRAW_S, self._draw_in_time)
        self.run_worker(self._ask(), name="why pods wait")
        self._draw(from_top=True)

    def on_resize(self) -> None:
        self._draw()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _draw_in_time(self) -> None:
        """Redraw changes, unless the last redraw was slow: keys come before counting thousands of nodes."""
        if time.monotonic() >= self._rests_until:
            self._draw()

    def _draw(self, *, from_top: bool = False, at: str = "") -> None:
        width = self.size.width
        state = (self._cluster.collections.revision, self._page, self._opened, self._search, self._sort, width,
                 id(self._pending), id(self._explained), self._helps, self._status.looked_at)  # fmt: skip
        if state == self._drawn and not from_top:
            return
        self._drawn = state
        began = time.monotonic()
        self.query_one("#head", Static).update(self._head(width))
        # Errors come first; there is room for two.
        notices = sorted(
            self._cluster.collections.of(NoticeRow).items(), key=lambda each: (each[1].severity == "info", each[0])
        )
        told = "\n".join(f"{name}: {row.text}" for name, row in notices[:2])
        self.query_one("#notice", Static).update(Text("\n".join(map(self._shown, told.splitlines()))))
        self.query_one("#notice").display = bool(told)
        self.query_one(LinesView).show(self._lines(width - SCROLL_BAR), from_top=from_top, at=at)
        ended = time.monotonic()
        self._rests_until = ended + REST * (ended - began)

    def _head(self, width: int) -> Text:
        waiting = sum(pod.state == "waiting" for pod in self._cluster.collections.of(PodRow).values())
        nodes = len(self._cluster.collections.of(NodeRow))
        waits = f"{count_text(waiting, 'pod')} {'waits' if waiting == 1 else 'wait'}"
        parts = f" {self._page}   {count_text(nodes, 'node')}, {waits}"
        parts += f"   sorted by {self._sort}" if self._page == "map" and not self._opened else ""
        parts += f"   /{self._search}" if self._search else ""
        head = Text(self._shown(" keys and signs" if self._helps else parts), style="bold")
        right = self._shown(self._cluster.source)
        if head.cell_len + len(right) + 2 <= width:
            head.append(right.rjust(width - head.cell_len - 1))
        return head

    def _shown(self, text: str) -> str:
        return in_ascii(printable(text)) if self.is_ascii_alone else printable(text)

    def _lines(self, width: int) -> list[ScreenLine]:
        if self._helps:
            return help_lines(width)
        rows = self._cluster.collections
        if self._opened:
            opened: dict[str, Callable[[], list[ScreenLine]]] = {
                "map": lambda: node_lines(rows, self._opened, now=self._cluster.clock.now(), width=width),
                "pending": lambda: self._explained or [plain("working it out", "dim")],
                "flow": lambda: list_pages.lane_lines(rows, self._opened, width=width),
            }
            return opened[self._page]()
        if self._page == "now":
            return list_pages.now_lines(self._status, width=width, search=self._search)
        if self._page == "pending":
            return list_pages.pending_lines(self._pending, rows, width=width, search=self._search)
        if self._page == "flow":
            return list_pages.flow_lines(rows, width=width, search=self._search)
        return map_lines(rows, width=width, search=self._search, sort=self._sort)

    # -- answers ------------------------------------------------------------------------------------------------------

    async def _ask(self) -> None:
        """Compute why pods wait, while somebody looks."""
        while True:
            if self._page == "pending" and not self._opened:
                try:
                    self._pending = await list_pages.pending_answer(self._cluster, self._asking)
                except TonnageError as exc:
                    self.notify(printable(exc.message), severity="warning", markup=False)
            await asyncio.sleep(ASK_S if self._page == "pending" else DRAW_S)

    async def _explain(self, pod: Key) -> None:
        try:
            state, asking = await self._cluster.state(), self._asking
            found = await asking.answer(lambda limit: asking.explained(state, pod, lambda sentence: None))
            self._explained = list_pages.explanation_lines(*found, width=self.size.width - SCROLL_BAR)
        except TonnageError as exc:
            self._explained = [plain(exc.message, "red")]
        self._draw()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def on_lines_view_opened(self, message: LinesView.Opened) -> None:
        if self._opened or self._helps:
            return
        self._opened = message.key
        if self._page == "now":  # a trouble leads to its node, or to why its pod waits
            kind, _, self._opened = message.key.partition(" ")
            self._page = "map" if kind == "Node" else "pending"
        if self._page == "pending":
            self._explained = []
            self.run_worker(self._explain(self._opened), name="explanation", exclusive=False)
        self._draw(from_top=True)

    def action_help(self) -> None:
        self._helps = not self._helps
        self._draw(from_top=True)

    def action_page(self, page: str) -> None:
        self._page, self._opened, self._helps = page, "", False
        self._draw(from_top=True)

    def action_leave(self) -> None:
        field, came_from = self.query_one("#search", Input), self._opened
        if field.display:
            field.value = ""
            self._end_search()
        elif self._helps:
            self._helps, came_from = False, ""
        elif self._opened:
            self._opened = ""
        else:
            self._search = ""
        self._draw(from_top=True, at=came_from)

    def action_sort(self) -> None:
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self._draw()

    def action_search(self) -> None:
        field = self.query_one("#search", Input)
        field.display = True
        field.value = self._search
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._search = event.value
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._end_search()

    def _end_search(self) -> None:
        self.query_one("#search", Input).display = False
        self.query_one(LinesView).focus()

    def check_action(self, action: str, parameters: tuple[Any, ...]) -> bool | None:
        """While a search is typed, letters are text and not commands."""
        is_typed = isinstance(self.focused, Input)
        return not (is_typed and action in ("page", "sort", "search", "help", "quit"))
