"""All checks on one cluster, in order, and their findings as one answer.

`show` writes the worst first, driver by driver. Findings that differ only in their object are merged, with the first
few objects; -o json lists all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from tonnage.printable import assembled, text
from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.whatif.doctor import capacity_checks, class_checks, driver_checks, switch
from tonnage.whatif.doctor.facts import NOTHING, WORST_FIRST, Facts, Finding, Severity
from tonnage.whatif.doctor.server import access_findings, server_findings
from tonnage.whatif.explain import DecisionSequence
from tonnage.whatif.page import FittedTable, Page, count_text
from tonnage.whatif.pending.pending import PendingQuestion
from tonnage.whatif.simulate.world import disks_of_objects
from tonnage.whatif.sources import ClusterState, Step, unheard

EXIT_CODES: Mapping[Severity, int] = {Severity.ERROR: 5, Severity.WARNING: 4, Severity.INFO: 0}
"""The exit code by the worst finding. 1 is a failed command, 2 wrong usage."""


@dataclass(slots=True)
class Examination:
    facts: Facts
    findings: Sequence[Finding]
    drivers: Mapping[str, capacity_checks.DriverFigures]
    recommended: switch.Recommendation
    disks: Sequence[Mapping[str, Any]] = ()
    """As in `disk_documents`, with what a newly started scheduler would keep back."""
    is_partial: bool = False
    """The examination was interrupted: findings may be missing."""

    @property
    def counts(self) -> Mapping[Severity, int]:
        return {severity: sum(found.severity is severity for found in self.findings) for severity in WORST_FIRST}

    @property
    def worst(self) -> Severity:
        return next((severity for severity in WORST_FIRST if self.counts[severity]), Severity.INFO)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.worst]

    def document(self) -> dict[str, Any]:
        server = self.facts.server
        found: dict[str, Any] = {
            "source": self.facts.source,
            "summary": {severity.value: count for severity, count in self.counts.items()},
            "findings": [finding.document() for finding in self.findings],
            "drivers": {name: each.document() for name, each in self.drivers.items()},
            "configuration": self.recommended.document(),
            "disks": list(self.disks),
        }
        if server is not None:
            found["server"] = {
                "version": server.version,
                "gates": {name: sign.document() for name, sign in server.gates.items()},
            }
        if self.is_partial:
            found["partial"] = True
        return found


def examine(facts: Facts, state: ClusterState, configuration: Configuration, *, step: Step = unheard) -> Examination:
    """Run every check. `configuration` is Tonnage's. Decisions about pods come last because they take longest
    (`work_of` counts the steps): Ctrl-C leaves a partial answer."""
    figures = capacity_checks.figures_of(facts)
    recommended = switch.recommendation_of(facts, figures)
    found = [
        *server_findings(facts),
        *driver_checks.driver_findings(facts, figures),
        *capacity_checks.capacity_findings(facts, figures),
        *class_checks.class_findings(facts),
        *driver_checks.attach_findings(facts),
        *class_checks.leftover_findings(facts),
        *access_findings(facts),
        switch.configuration_finding(recommended),
    ]
    is_partial, disks = False, []
    if facts.nodes:
        sequence = DecisionSequence(state, configuration, is_default=True)
        disks = disks_of_objects(state.objects, sequence.replay.engine)
        question, comparison = PendingQuestion(state, sequence), switch.SwitchComparison()
        drivers = [name for name, each in figures.items() if each.provisioning is capacity_checks.Provisioning.THIN]
        thin = frozenset(storage_class.name for name in drivers for storage_class in facts.classes_of.get(name, ()))
        try:
            question.decide(step)
            if waiting := question.answer().pods:
                switch.compare_waiting(state, waiting, configuration.profiles, comparison, step, thin)
            switch.compare_running(facts, configuration.profiles, comparison, step)
            question.try_changes()
        except KeyboardInterrupt:
            is_partial = True
        found += [*class_checks.pending_findings(question.answer()), *switch.switch_findings(comparison)]
    found.sort(key=lambda each: (WORST_FIRST.index(each.severity), each.driver, each.name, each.object))
    return Examination(facts, found, figures, recommended, disks, is_partial)


def work_of(facts: Facts) -> int:
    """How often `examine` calls `step`."""
    waiting = sum(not pod.spec.node_name and not pod.is_terminal for pod in facts.pods.values())
    return 2 * waiting + len(switch.pods_with_claims(facts))


_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
_HEADS: Final = {Severity.ERROR: "ERRORS", Severity.WARNING: "WARNINGS", Severity.INFO: "GOOD TO KNOW"}
_EXAMPLES: Final = 3


def show(found: Examination, page: Page) -> None:
    page.title(f"What Tonnage finds in {found.facts.source}", is_partial=found.is_partial)
    _head(page, found)
    for severity in WORST_FIRST:
        of_severity = [finding for finding in found.findings if finding.severity is severity]
        if not of_severity:
            continue
        page.section(severity.value, _HEADS[severity].capitalize())
        page.part(text(_HEADS[severity], style=_STYLES[severity]))
        driver = None
        # Runs of findings with the same name, driver and remedy.
        for _, run in groupby(of_severity, key=lambda each: (each.name, each.driver, each.remedy)):
            alike = list(run)
            if alike[0].driver != driver and (driver is not None or alike[0].driver):
                page.part(text(alike[0].driver or "the cluster", style="bold underline"), indent=2)
            driver = alike[0].driver
            _finding(page, alike, _STYLES[severity])
    page.section("configuration", "A configuration that fits")
    page.part(text("A CONFIGURATION THAT FITS", style="bold"))
    page.code(found.recommended.file, indent=2)
    if page.has_room:
        _show_more(found, page)


def _show_more(found: Examination, page: Page) -> None:
    """Drivers, the server's gates, and the disks."""
    page.section("drivers", "Drivers")
    heads = ("DRIVER", "CAPACITY OBJECTS", "LAYOUT", "POOLS", "PROVISIONING", "REBUILDS VOLUMES")
    rows = []
    for name, each in found.drivers.items():
        told = each.document()
        by = f": {each.evidence}" if each.evidence else ""
        rebuilds = "yes" if told["volumeRebuilding"] else "no"
        counts = f"{len(each.objects):,}", each.layout.value, f"{each.most_pools:,}"
        rows.append((name, *counts, f"{each.provisioning.value}{by}", rebuilds))
    page.table(FittedTable(heads, "n1w1ww", rows))
    page.section("server", "API server")
    if found.facts.server is not None:
        gates = [(name, *sign.document().values()) for name, sign in found.facts.server.gates.items()]
        page.table(FittedTable(("FEATURE GATE", "STATE", "SHOWN BY"), "nnw", gates))
    page.section("disks", "Disks")
    page.disks(("disks-map", "Pools and claims", found.disks))


def _head(page: Page, found: Examination) -> None:
    version = found.facts.server.version if found.facts.server is not None else ""
    counts = found.counts
    told = f"{count_text(counts[Severity.ERROR], 'error')}, {count_text(counts[Severity.WARNING], 'warning')}"
    told += f", {counts[Severity.INFO]} good to know"
    what = f"{found.facts.source}{f' ({version})' if version else ''}"
    page.say(assembled((what, "bold"), ": ", (told, _STYLES[found.worst])))
    facts = found.facts
    known = {"node": facts.nodes, "pod": facts.pods, "claim": facts.claims, "CSI driver": facts.drivers}
    objects = {**known, "capacity object": facts.capacities}
    page.say(text(", ".join(count_text(len(each), noun) for noun, each in objects.items())))
    if found.is_partial:
        page.say(text("This was interrupted; the checks of pods are not complete.", style="bold yellow"))


def _finding(page: Page, alike: Sequence[Finding], style: str) -> None:
    first = alike[0]
    if len(alike) == 1:
        page.say(assembled((first.name, style), "  ", (first.object, "bold")), indent=2)
        page.say(text(first.message), indent=4)
    else:
        page.say(assembled((first.name, style), f"  {len(alike):,} times"), indent=2)
        shown = page.first(alike, _EXAMPLES)
        for finding in shown:
            page.say(assembled((finding.object, "bold"), ": ", finding.message), indent=4)
        if left := len(alike) - len(shown):
            page.say(text(f"and {left:,} more like these; -o json lists them"), indent=4)
    if first.remedy != NOTHING:
        page.say(assembled(("→ ", style), first.remedy), indent=4)
