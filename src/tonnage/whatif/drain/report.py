"""A preview for people: the answer in a sentence, then who moves, who is stuck, and what becomes of the data.

Pods of a StatefulSet keep their names and are told one by one; others get new ones, so they are told by their workload,
as many as go the same way. Long lists are cut; JSON has all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from rich.text import Text

from tonnage.printable import assembled, text
from tonnage.quantity import Quantity
from tonnage.whatif.drain.outcome import DrainOutcome, Move, Stuck, VolumeMove
from tonnage.whatif.drain.preview import Preview
from tonnage.whatif.page import FittedTable, TableColumn, TextPage, named

MAX_ROWS: Final = 50


def show(preview: Preview, out: TextIO) -> None:
    page, outcome = TextPage(out), preview.outcome
    for line in _headline(preview):
        page.say(line)
    _moves("MOVES", outcome.moves, page, is_one_by_one=preview.is_one_by_one)
    _moves("PREEMPTED", outcome.preempted, page, is_one_by_one=preview.is_one_by_one)
    _stuck(outcome.stuck, page, is_one_by_one=preview.is_one_by_one)
    _budgets(outcome, page)
    _rebuilt(outcome, page)
    _left_behind(outcome, page)
    for lines in (_notes(outcome), _order(preview), _one_more(preview)):
        for number, line in enumerate(lines):
            if not number:
                page.blank()
            page.say(line)


def size(size_bytes: int | None) -> str:
    return str(Quantity.from_bytes(size_bytes)) if size_bytes is not None else "unknown"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _headline(preview: Preview) -> Iterable[Text]:
    outcome, how = preview.outcome, ", one after the other" if preview.is_one_by_one else ""
    yield assembled("draining ", (named(preview.nodes), "bold"), how)
    if preview.is_partial:
        yield text("partial: it was interrupted, and this is what is known so far", style="bold yellow")
    if not preview.is_drained:
        return
    told = [count(len(outcome.moves), "pod moves", "pods move")]
    if outcome.preempted:
        told.append(f"{len(outcome.preempted)} elsewhere {'makes' if len(outcome.preempted) == 1 else 'make'} room")
    if outcome.lost:
        told.append(f"{len(outcome.lost)} {'is' if len(outcome.lost) == 1 else 'are'} lost")
    told.append(f"{size(outcome.bytes_rebuilt)} rebuilt" if outcome.bytes_rebuilt else "nothing is rebuilt")
    if outcome.holds:
        yield assembled(("it holds", "bold green"), f": {', '.join(told)}, nobody is stuck")
    else:
        stuck = count(len(outcome.stuck), "pod is", "pods are")
        yield assembled(("it does not hold", "bold red"), f": {stuck} stuck; {', '.join(told)}")


def _label(pod: str, workload: str) -> str:
    return pod if not workload or workload.startswith("StatefulSet/") else workload


def _volumes(volumes: Sequence[VolumeMove]) -> str:
    words = {"rebuild": "rebuilt", "reattach": "reattached", "stays": "stays"}
    return ", ".join(f"{each.claim} {size(each.size_bytes)} {words[each.action]}" for each in volumes) or "-"


def _target(move: Move) -> str:
    return f"{move.target} (or {named(move.equally_good)})" if move.equally_good else move.target


def _moves(head: str, moves: Sequence[Move], page: TextPage, *, is_one_by_one: bool) -> None:
    if not moves:
        return
    groups: dict[tuple[str, ...], int] = {}
    for each in moves:
        row = (_label(each.pod, each.workload), each.source, _target(each), _volumes(each.volumes), each.step)
        groups[row] = groups.get(row, 0) + 1
    during = [TableColumn("DURING")] if is_one_by_one else []
    table = FittedTable([*during, TableColumn(head), TableColumn("FROM"), TableColumn("TO"), TableColumn("VOLUMES")])
    for (label, source, target, volumes, step), number in list(groups.items())[:MAX_ROWS]:
        cells = [label if number == 1 else f"{label} ×{number}", source, target, volumes]
        table.add(*([step] if is_one_by_one else []), *cells)
    _print(table, len(groups), page)


def _stuck(stuck: Sequence[Stuck], page: TextPage, *, is_one_by_one: bool) -> None:
    if not stuck:
        return
    groups: dict[tuple[str, ...], int] = {}
    for each in stuck:
        why = f"{each.message}; it runs again when {each.step} is back" if each.comes_back else each.message
        row = (_label(each.pod, each.workload), each.source, why, _volumes(each.volumes), each.step)
        groups[row] = groups.get(row, 0) + 1
    during = [TableColumn("DURING")] if is_one_by_one else []
    table = FittedTable(
        [*during, TableColumn("STUCK"), TableColumn("FROM"), TableColumn("WHY"), TableColumn("VOLUMES")]
    )
    for (label, source, why, volumes, step), number in list(groups.items())[:MAX_ROWS]:
        cells: list[str | Text] = [label if number == 1 else f"{label} ×{number}", source, text(why, "red"), volumes]
        table.add(*([step] if is_one_by_one else []), *cells)
    _print(table, len(groups), page)


def _budgets(outcome: DrainOutcome, page: TextPage) -> None:
    if not outcome.budgets:
        return
    table = FittedTable([TableColumn("BUDGET"), TableColumn("KEEPS"), TableColumn("WHY")])
    for each in outcome.budgets[:MAX_ROWS]:
        table.add(each.name, named(each.pods), each.why)
    _print(table, len(outcome.budgets), page)


def _rebuilt(outcome: DrainOutcome, page: TextPage) -> None:
    found = outcome.rebuilt()
    if not found:
        return
    table = FittedTable(
        [
            TableColumn("REBUILT", is_number=True),
            TableColumn("FROM"),
            TableColumn("TO"),
            TableColumn("VOLUMES", is_number=True),
        ]
    )
    for source, target, size_bytes, volumes in found[:MAX_ROWS]:
        table.add(size(size_bytes), source, target, f"{volumes:,}")
    _print(table, len(found), page)


def _left_behind(outcome: DrainOutcome, page: TextPage) -> None:
    if not outcome.left_behind:
        return
    table = FittedTable(
        [
            TableColumn("STAYS BEHIND"),
            TableColumn("ON"),
            TableColumn("SIZE"),
            TableColumn("WHAT"),
            TableColumn("USED BY"),
        ]
    )
    for each in outcome.left_behind[:MAX_ROWS]:
        name = each.claim or each.volume or "-"
        told = size(each.size_bytes) if each.size_bytes is not None else "-"
        table.add(name, each.node, told, each.what, named(each.pods) or "nobody")
    _print(table, len(outcome.left_behind), page)


def _print(table: FittedTable, rows: int, page: TextPage) -> None:
    page.blank()
    page.table(table)
    if rows > MAX_ROWS:
        page.say(text(f"… and {rows - MAX_ROWS:,} more (-o json has all)", style="dim"))


def _notes(outcome: DrainOutcome) -> Iterable[Text]:
    for each in outcome.lost[:MAX_ROWS]:
        yield assembled((each.pod, "bold"), f" on {each.source}: {each.message}")
    if outcome.lost_data:
        ends = [f"{each.pod} ({each.what} {each.volume})" for each in outcome.lost_data]
        yield text(f"data that ends with its pod: {named(ends)}", style="yellow")
    if outcome.daemons:
        pods = [pod for pod, _ in outcome.daemons]
        told = "1 pod stays on its node" if len(pods) == 1 else f"{len(pods):,} pods stay on their nodes"
        yield text(f"{told}: {named(pods)}", style="dim")
    if outcome.waiting_before:
        waiting = count(len(outcome.waiting_before), "pod had", "pods had")
        yield text(f"{waiting} no node before: {named(outcome.waiting_before)}", style="dim")
    if flags := outcome.flags():
        yield text(f"kubectl drain asks for {' '.join(flags)}", style="dim")


def _order(preview: Preview) -> Iterable[Text]:
    found = preview.order
    if found is None or len(preview.nodes) < 2:
        return
    tried = f"{count(found.tried, 'order')} tried" + ("" if found.is_complete else ", not all")
    if found.cost == preview.outcome.cost:
        yield text(f"the order is as good as any that was found ({tried})")
        return
    stuck, size_bytes = found.cost
    yield assembled(
        "a better order: ",
        (" ".join(found.best), "bold green"),
        f", {stuck} stuck and {size(size_bytes)} rebuilt ({tried})",
    )


def _one_more(preview: Preview) -> Iterable[Text]:
    found = preview.one_more
    tried = f"{count(found.tried, 'failure')} tried" + (f", {found.not_tried:,} not" if found.not_tried else "")
    if found.failures:
        yield assembled(("if one more node fails meanwhile it does not hold", "bold red"), f" ({tried}):")
        for each in found.failures[:MAX_ROWS]:
            when = f" while {named(each.drained)} is drained" if preview.is_one_by_one else ""
            pods = [pod.pod for pod in each.stuck]
            yield text(f"  without {each.node}{when}: {named(pods)} stuck: {each.stuck[0].message}")
    elif found.is_complete and found.tried:
        yield assembled(("it holds if any one more node fails meanwhile", "green"), f" ({tried})")
    elif found.tried:
        yield text(f"it holds if one of the nodes with the most pods fails meanwhile ({tried})")
