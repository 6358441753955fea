"""All checks on one cluster, in order, and what came of them as one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tonnage.scheduling.configuration.configuration import Configuration
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.whatif.decision_sequence import DecisionSequence
from tonnage.whatif.disk_documents import disks_of_objects
from tonnage.whatif.doctor.access_checks import access_findings
from tonnage.whatif.doctor.attach_checks import attach_findings
from tonnage.whatif.doctor.capacity_checks import capacity_findings
from tonnage.whatif.doctor.class_checks import class_findings
from tonnage.whatif.doctor.driver_checks import driver_findings
from tonnage.whatif.doctor.facts import Facts
from tonnage.whatif.doctor.figures import DriverFigures, figures_of
from tonnage.whatif.doctor.findings import WORST_FIRST, Finding, Severity
from tonnage.whatif.doctor.leftover_checks import leftover_findings
from tonnage.whatif.doctor.pending_checks import pending_findings
from tonnage.whatif.doctor.recommendation import Recommendation, configuration_finding, recommendation_of
from tonnage.whatif.doctor.server_checks import server_findings
from tonnage.whatif.doctor.switch import (
    SwitchComparison,
    compare_running,
    compare_waiting,
    pods_with_claims,
    switch_findings,
)
from tonnage.whatif.pending.pending import PendingQuestion
from tonnage.whatif.sources import ClusterState

EXIT_CODES: Mapping[Severity, int] = {Severity.ERROR: 5, Severity.WARNING: 4, Severity.INFO: 0}
"""By the worst that was found. 1 is left for a command that failed, 2 for one that was asked wrongly."""


@dataclass(slots=True)
class Examination:
    """What was found."""

    facts: Facts
    findings: Sequence[Finding]
    drivers: Mapping[str, DriverFigures]
    recommended: Recommendation
    disks: Sequence[Mapping[str, Any]] = ()
    """As `disk_documents` has them, with what a scheduler that starts now would keep back."""
    is_partial: bool = False
    """It was interrupted: what is here holds, and something may be missing."""
    counts: Mapping[Severity, int] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = {each: sum(found.severity is each for found in self.findings) for each in WORST_FIRST}

    @property
    def worst(self) -> Severity:
        return next((each for each in WORST_FIRST if self.counts[each]), Severity.INFO)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.worst]

    def document(self) -> dict[str, Any]:
        server = self.facts.server
        found: dict[str, Any] = {
            "source": self.facts.source,
            "summary": {severity.value: count for severity, count in self.counts.items()},
            "findings": [each.document() for each in self.findings],
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


def examine(
    facts: Facts,
    state: ClusterState,
    configuration: Configuration,
    *,
    foreign: ForeignPlugins | None = None,
    step: Callable[[float], object] = lambda amount: None,
) -> Examination:
    """Every check on a state and the facts read off it; `configuration` is Tonnage's.

    Decisions on pods come last, for they take longest (`work_of` says how many steps): Ctrl-C leaves a partial answer.
    """
    figures = figures_of(facts)
    recommended = recommendation_of(facts, figures)
    found = [
        *server_findings(facts),
        *driver_findings(facts, figures),
        *capacity_findings(facts, figures),
        *class_findings(facts),
        *attach_findings(facts),
        *leftover_findings(facts),
        *access_findings(facts),
        configuration_finding(recommended),
    ]
    is_partial, disks = False, []
    if facts.nodes:
        sequence = DecisionSequence(state, configuration, is_default=True, foreign=foreign)
        disks = disks_of_objects(state.objects, sequence.replay.engine.held)
        question, comparison = PendingQuestion(state, sequence), SwitchComparison()
        try:
            question.decide(step)
            if waiting := question.answer().pods:
                compare_waiting(state, waiting, comparison, step)
            compare_running(facts, configuration.profiles, comparison, step, foreign)
            question.try_changes()
        except KeyboardInterrupt:
            is_partial = True
        found += [*pending_findings(question.answer()), *switch_findings(comparison)]
    found.sort(key=lambda each: (WORST_FIRST.index(each.severity), each.driver, each.name, each.object))
    return Examination(facts, found, figures, recommended, disks, is_partial)


def work_of(facts: Facts) -> int:
    """How many steps an examination tells of."""
    waiting = sum(not each.spec.node_name and not each.is_terminal for each in facts.pods.values())
    return 2 * waiting + len(pods_with_claims(facts))
