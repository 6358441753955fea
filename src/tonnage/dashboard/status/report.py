"""A status as text, for `tonnage status` and `tonnage top`: the line, then the troubles, worst first.

3 nodes ready, 1 not · pools 42% full, largest free pool 80Gi · 1 pod pending · 0 volumes on their way

ERROR    node-2 is not ready                                                                     for 12m
         Kubelet stopped posting node status. It has 4 pods.
         kubectl describe node node-2
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from rich.text import Text

from tonnage.clock import rfc3339
from tonnage.dashboard.status.keeper import StatusKeeper
from tonnage.dashboard.status.overview import overview_texts
from tonnage.dashboard.status.sight import Trouble
from tonnage.dashboard.status.troubles import folded
from tonnage.printable import assembled, text
from tonnage.whatif.doctor.facts import Severity
from tonnage.whatif.page import TextPage, count_text, time_text

STYLES: Final[Mapping[str, str]] = {
    Severity.ERROR.value: "bold red",
    Severity.WARNING.value: "bold yellow",
    Severity.INFO.value: "bold cyan",
}
INDENT: Final = 9


def show(keeper: StatusKeeper, page: TextPage) -> None:
    page.say(text(keeper.server, style="dim"))
    page.say(text(" · ".join(overview_texts(keeper.overview)), style="bold"))
    for each, more in folded(keeper.found):
        page.blank()
        show_trouble(keeper, each, page)
        if more:
            page.more(more, f"of this kind; -o json lists {'it' if more == 1 else 'them'}", INDENT)
    page.blank()
    page.say(verdict(keeper))
    for sentence in keeper.unseen:
        page.say(text(sentence, style="dim"))


def show_trouble(keeper: StatusKeeper, found: Trouble, page: TextPage) -> None:
    assert keeper.looked_at is not None
    age = age_text(keeper, found, keeper.looked_at)
    word = (found.severity.upper() + " " * INDENT)[:INDENT]
    page.say(assembled((word, STYLES[found.severity]), (found.headline, "bold"), (f", {age}", "dim")))
    page.say(text(found.meaning), indent=INDENT)
    page.say(text(keeper.command_of(found), style="cyan"), indent=INDENT)


def age_text(keeper: StatusKeeper, found: Trouble, now: datetime) -> str:
    """`for 12m`; `for 12m or longer` if it was there at the first look."""
    began = keeper.log.began(found)
    age_s = max(int((now - began.since).total_seconds()), 0)
    if began.is_older:
        return f"for {time_text(age_s)} or longer" if age_s else "seen now"
    return f"for {time_text(age_s)}"


def verdict(keeper: StatusKeeper) -> Text:
    """The last line: how much is wrong, or since when nothing is."""
    counted = {each: sum(found.severity == each for found in keeper.found) for each in STYLES}
    errors, warnings = counted[Severity.ERROR.value], counted[Severity.WARNING.value]
    if errors or warnings:
        told = [count_text(errors, "error")] if errors else []
        told += [count_text(warnings, "warning")] if warnings else []
        return text(", ".join(told), style=STYLES[Severity.ERROR.value if errors else Severity.WARNING.value])
    since = keeper.log.fine_since
    is_new = since is None or keeper.looked_at is None or (keeper.looked_at - since).total_seconds() < 1
    when = "" if is_new or since is None else f" since {rfc3339(since)}"
    soon = "; a pending pod counts after 30 s" if keeper.overview.pending else ""
    return text(f"Nothing is wrong{' that can be seen' if keeper.unseen else ''}{when}{soon}.", style="bold green")
