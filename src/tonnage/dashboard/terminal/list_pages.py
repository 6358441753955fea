"""Pages in words: what is wrong now, waiting pods by cause, and the flow: what happened to each pod, newest first.

The first page has the line, the troubles, and the last hour as sparklines. The words are those of `tonnage status` and
of `tonnage explain --pending` and `--pod`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from rich.text import Text

from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.dashboard.questions.asking import Asking, QuestionLimit
from tonnage.dashboard.status import overview, troubles
from tonnage.dashboard.status.keeper import StatusKeeper, show_trouble, verdict
from tonnage.dashboard.terminal import lines_view
from tonnage.dashboard.terminal.lines_view import PageOfLines, ScreenLine, cell, matches, name_width, plain, row
from tonnage.dashboard.wire import Collections, LaneRow, PodRow, PodStep
from tonnage.scheduling.decision.explain import Explanation
from tonnage.whatif import explain_report, sources
from tonnage.whatif.page import count_text, time_text
from tonnage.whatif.pending.pending import PendingAnswer, PendingGroup, PendingQuestion, nearest_misses


def pending_lines(
    answer: PendingAnswer | None, collections: Collections, *, width: int, search: str = ""
) -> list[ScreenLine]:
    """Waiting pods by cause. Without an answer, or with one from before they came: waiting pods with
    the scheduler's message."""
    if answer is None or not answer.pods:
        return _waiting_lines(collections, width, search)
    count = len(answer.pods)
    found = [lines_view.heading(f"{count:,} pod{' is' if count == 1 else 's are'} pending")]
    for group in answer.groups:
        lines = _group_lines(group, width, search)
        if lines:
            found += [plain(""), *lines]
    if answer.is_partial:
        found.append(plain("there are more: not all were examined", "dim"))
    return found


def _group_lines(group: PendingGroup, width: int, search: str) -> list[ScreenLine]:
    wanted = [each for each in group.pods if matches(search, each.key, each.workload, group.message)]
    if not wanted:
        return []
    page = PageOfLines(width)
    page.plain(group.message, "" if group.pods[0].fits else "bold red")
    for miss in nearest_misses(group):
        page.plain(miss, "dim", indent=2)
    for each in group.helps[:3]:
        page.plain(f"{each.text}: would let {len(each.pods):,} in", "green", indent=2)
    found = page.lines
    for pod in wanted:
        told = f"→ {pod.node}" if pod.node else pod.workload
        found.append(ScreenLine(row(Text(" "), cell(pod.key, 40), cell(told, max(width - 44, 0), "dim")), pod.key))
    return found


def _waiting_lines(collections: Collections, width: int, search: str) -> list[ScreenLine]:
    waiting: Mapping[str, PodRow] = {
        key: pod
        for key, pod in sorted(collections.of(PodRow).items())
        if pod.state == "waiting" and not pod.node and pod.phase == "Pending" and matches(search, key, pod.message)
    }
    if not waiting:
        return [plain("no pod is pending", "green")]
    found = [lines_view.heading(f"{len(waiting):,} pod{' waits' if len(waiting) == 1 else 's wait'}; working out why")]
    for key, pod in waiting.items():
        found.append(ScreenLine(row(cell(key, 34), cell(pod.message, max(width - 35, 0), "dim")), key))
    return found


def explanation_lines(explanation: Explanation, weights: Mapping[str, int], *, width: int) -> list[ScreenLine]:
    page = PageOfLines(width)
    explain_report.print_explanation(explanation, weights, page)
    return page.lines


MOST_S: Final = 10.0
"""Time limit for deciding all waiting pods and trying remedies; the answer is partial after it."""


async def pending_answer(cluster: ShownCluster, asking: Asking) -> PendingAnswer:
    """Why pods wait, computed in a thread."""
    state = await cluster.state(with_workloads=True)

    def answer(limit: QuestionLimit) -> PendingAnswer:
        question = PendingQuestion(state, asking.sequence(state, lambda sentence: None))
        limit.begin(MOST_S)
        with suppress(sources.OutOfTime):
            question.decide(limit.check)
            question.try_changes(limit.check)
        return question.answer()

    return await asking.keep(answer)


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
    """When and what happened to the pod last. Bookkeeping after that is on the lane's own page."""
    steps = lane.steps[: lane.headline + 1] or lane.steps
    text = cell(_steps(steps), max(width - name_width - 10, 10), "dim" if lane.done else "")
    return row(cell(lines_view.local_time(steps[-1].at), 8), cell(lane.pod, name_width, "bold"), text)


def _steps(steps: tuple[PodStep, ...]) -> str:
    """The steps in words with the time between them, last first, so that cutting drops the oldest."""
    parts = []
    for number in range(len(steps) - 1, -1, -1):
        step = steps[number]
        place = f" {step.node}" if step.node else ""
        gap = f" +{time_text(max((step.at - steps[number - 1].at).total_seconds(), 0))}" if number else ""
        parts.append(f"{step.kind}{place}{gap}")
    return " ← ".join(parts)


def lane_lines(collections: Collections, uid: str, *, width: int) -> list[ScreenLine]:
    lane = collections.of(LaneRow).get(uid)
    if lane is None:
        return [plain("it is not there any more", "dim")]
    page = PageOfLines(width)
    page.heading(lane.pod)
    for number, step in enumerate(lane.steps):
        gap = (step.at - lane.steps[number - 1].at).total_seconds() if number else 0.0
        after = f"+{time_text(max(gap, 0))}" if number else ""
        source = f" ({step.source})" if step.source else ""
        lead = row(cell(lines_view.local_time(step.at), 8), cell(after, 8, "dim"), cell(step.kind, 12, "bold"), Text())
        page.say(plain(f"{step.text}{source}").text, lead.cell_len, lead=lead)
    return page.lines


SPAN: Final = timedelta(hours=1)
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_OPENED: Final = ("Node", "Pod")
"""Kinds that Enter opens."""


def now_lines(keeper: StatusKeeper, *, width: int, search: str = "") -> list[ScreenLine]:
    if keeper.looked_at is None:
        return [plain("looking", "dim")]
    page = PageOfLines(width)
    page.heading(" · ".join(overview.overview_texts(keeper.overview)))
    page.part(verdict(keeper))
    for each, more in troubles.folded(keeper.found):
        if not matches(search, each.headline, each.meaning, each.kind):
            continue
        page.blank()
        first = len(page.lines)
        show_trouble(keeper, each, page)
        if each.object.partition(" ")[0] in _OPENED:
            page.lines[first] = ScreenLine(page.lines[first].text, each.object)
        page.more(more, "of this kind", 9)
    for sentence in keeper.unseen:
        page.plain(sentence, "dim")
    return [*page.lines, plain(""), *_history_lines(keeper, width)]


def _history_lines(keeper: StatusKeeper, width: int) -> Iterator[ScreenLine]:
    samples = [sample for sample in keeper.log.samples() if keeper.looked_at and sample.at >= keeper.looked_at - SPAN]
    if not samples:
        return
    yield lines_view.heading("the last hour")
    name_width, room = min(20, width // 4), max(min(60, width // 2), 10)
    for name in samples[-1].classes:
        last = samples[-1].classes[name]
        drawn = sparkline(samples, lambda each, name=name: each.classes[name].free if name in each.classes else 0, room)  # type: ignore[misc]
        yield _line(
            f"{name}, free",
            drawn,
            f"{lines_view.bytes_text(last.free)} of {lines_view.bytes_text(last.total)}",
            name_width,
            width,
        )
    refused = sum(sample.refused for sample in samples)
    for name, read, told in (
        ("pods pending", lambda each: each.pending, f"{samples[-1].pending:,} now"),
        ("refusals", lambda each: each.refused, f"{refused:,} in all"),
        ("troubles", lambda each: each.troubles, f"{samples[-1].troubles:,} now"),
    ):
        yield _line(name, sparkline(samples, read, room), told, name_width, width)
    if keeper.log.ended:
        last_ended = keeper.log.ended[-1]
        age = count_text(max(int((keeper.looked_at - last_ended.until).total_seconds() // 60), 0), "minute")  # type: ignore[operator]
        yield plain(f"ended {age} ago: {last_ended.headline}", "dim")


def _line(name: str, drawn: str, told: str, name_width: int, width: int) -> ScreenLine:
    rest = max(width - name_width - len(drawn) - 3, 0)
    return ScreenLine(row(cell(name, name_width), cell(drawn, len(drawn), "cyan"), cell(told, rest)))


def sparkline(samples: Sequence[overview.Sample], read: Callable[[overview.Sample], int], width: int) -> str:
    """The values over time in `width` signs: the highest of each stretch, against the highest of all."""
    size = -(-len(samples) // width)
    highest = [max(map(read, samples[at : at + size])) for at in range(0, len(samples), size)]
    top = max(highest) or 1
    return "".join(_LEVELS[-(-value * (len(_LEVELS) - 1) // top)] for value in highest)
