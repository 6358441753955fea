"""The flow: what happened to each pod, the newest first; Enter opens all steps of one.

12:03:05  shop/db-0   created, +0.1s decided node-2, +0.8s provisioned, +0.3s started
"""

from __future__ import annotations

from functools import partial

from rich.text import Text

from tonnage.dashboard.terminal.lines import ScreenLine, cell, heading, local_time, matches, name_width, plain, row
from tonnage.dashboard.wire.collections import Collections
from tonnage.dashboard.wire.rows import LaneRow, PodStep
from tonnage.whatif.html.amounts import time_text


def flow_lines(collections: Collections, *, width: int, search: str = "") -> list[ScreenLine]:
    lanes = collections.of(LaneRow)
    found = [
        (uid, lane)
        for uid, lane in lanes.items()
        if lane.steps and matches(search, lane.pod, *(step.node for step in lane.steps))
    ]
    found.sort(key=lambda each: each[1].steps[-1].at, reverse=True)
    if not found:
        return [plain("nothing has happened yet" if not search else f"nothing is called {search}", "dim")]
    longest = name_width((lane.pod for _, lane in found), width // 2)
    return [ScreenLine(partial(_lane, lane, width, longest), uid) for uid, lane in found]


def _lane(lane: LaneRow, width: int, name_width: int) -> Text:
    told = cell(_steps(lane.steps), max(width - name_width - 10, 10), "dim" if lane.done else "")
    return row(cell(local_time(lane.steps[-1].at), 8), cell(lane.pod, name_width, "bold"), told)


def _steps(steps: tuple[PodStep, ...]) -> str:
    """The steps in words with the time between them, the last first: that is what is cut last."""
    parts = []
    for number in range(len(steps) - 1, -1, -1):
        step = steps[number]
        place = f" {step.node}" if step.node else ""
        gap = f" +{time_text(max((step.at - steps[number - 1].at).total_seconds(), 0))}" if number else ""
        parts.append(f"{step.kind}{place}{gap}")
    return " ← ".join(parts)


def lane_lines(collections: Collections, uid: str) -> list[ScreenLine]:
    """Every step of one pod."""
    lane = collections.of(LaneRow).get(uid)
    if lane is None:
        return [plain("it is not there any more", "dim")]
    found = [heading(lane.pod)]
    for number, step in enumerate(lane.steps):
        gap = (step.at - lane.steps[number - 1].at).total_seconds() if number else 0.0
        after = f"+{time_text(max(gap, 0))}" if number else ""
        found.append(
            ScreenLine(
                row(cell(local_time(step.at), 8), cell(after, 8, "dim"), cell(step.kind, 12, "bold"), _told(step))
            )
        )
    return found


def _told(step: PodStep) -> Text:
    source = f" ({step.source})" if step.source else ""
    return plain(f"{step.text}{source}").text
