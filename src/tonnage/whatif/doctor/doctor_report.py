"""An examination as a page for people: the worst first, driver by driver, each with what to do about it.

Findings that differ in their object alone are told once, with the first few objects; -o json lists all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from tonnage.printable import assembled, text
from tonnage.whatif.doctor.examination import Examination
from tonnage.whatif.doctor.findings import WORST_FIRST, Finding, Severity
from tonnage.whatif.page import TextPage

_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
_HEADS: Final = {Severity.ERROR: "ERRORS", Severity.WARNING: "WARNINGS", Severity.INFO: "GOOD TO KNOW"}
_NOTHING: Final = "nothing has to be done"
_EXAMPLES: Final = 3


def show(found: Examination, out: TextIO) -> None:
    page = TextPage(out)
    _head(page, found)
    for severity in WORST_FIRST:
        of_severity = [each for each in found.findings if each.severity is severity]
        if not of_severity:
            continue
        page.blank()
        page.say(text(_HEADS[severity], style=_STYLES[severity]))
        driver = None
        for alike in _folded(of_severity):
            if alike[0].driver != driver and (driver is not None or alike[0].driver):
                page.blank()
                page.say(text(alike[0].driver or "the cluster", style="bold underline"), indent=2)
            driver = alike[0].driver
            _finding(page, alike, _STYLES[severity])
    page.blank()
    page.say(text("A CONFIGURATION THAT FITS", style="bold"))
    for line in found.recommended.file.splitlines():
        page.say(text(line), indent=2)


def _head(page: TextPage, found: Examination) -> None:
    version = found.facts.server.version if found.facts.server is not None else ""
    counts = found.counts
    told = ", ".join(
        [
            _counted(counts[Severity.ERROR], "error"),
            _counted(counts[Severity.WARNING], "warning"),
            f"{counts[Severity.INFO]} good to know",
        ]
    )
    what = f"{found.facts.source}{f' ({version})' if version else ''}"
    page.say(assembled((what, "bold"), ": ", (told, _STYLES[found.worst])))
    facts = found.facts
    page.say(
        text(
            f"{_counted(len(facts.nodes), 'node')}, {_counted(len(facts.pods), 'pod')}, "
            f"{_counted(len(facts.claims), 'claim')}, {_counted(len(facts.drivers), 'CSI driver')}, "
            f"{_counted(len(facts.capacities), 'capacity object')}"
        )
    )
    if found.is_partial:
        page.say(text("This was interrupted; what decisions on pods would tell is not complete.", style="bold yellow"))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _folded(findings: Iterable[Finding]) -> list[Sequence[Finding]]:
    """Runs of findings of one name and driver with the same remedy."""
    found: list[list[Finding]] = []
    for each in findings:
        last = found[-1][-1] if found else None
        if last is not None and (last.name, last.driver, last.remedy) == (each.name, each.driver, each.remedy):
            found[-1].append(each)
        else:
            found.append([each])
    return list(found)


def _finding(page: TextPage, alike: Sequence[Finding], style: str) -> None:
    first = alike[0]
    if len(alike) == 1:
        page.say(assembled((first.name, style), "  ", (first.object, "bold")), indent=2)
        page.say(text(first.message), indent=4)
    else:
        page.say(assembled((first.name, style), f"  {len(alike):,} times"), indent=2)
        for each in alike[:_EXAMPLES]:
            page.say(assembled((each.object, "bold"), ": ", each.message), indent=4)
    if len(alike) > _EXAMPLES:
        page.say(text(f"and {len(alike) - _EXAMPLES:,} more like these; -o json lists them"), indent=4)
    if first.remedy != _NOTHING:
        page.say(assembled(("→ ", style), first.remedy), indent=4)
