"""What Tonnage would decide about a pod that another scheduler places, the comparison, and the tally.

`Judge` is an engine that follows another scheduler's decisions. It decides about a pod before the other's decision is
applied, then counts the pod on the other's node with what a scheduler keeps back there: the next pod is judged by what
is left, not by figures that are not refreshed yet.

    explanation = judge.decide(pod)                     # on the state without the other's decision
    verdict = verdict_of(explanation, theirs="node-2")
    placement = judge.follow(pod, verdict)              # the pod is on its way there
    tally.decided(verdict)

Equal scores are no disagreement: a scheduler chooses between them at random. No I/O.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from tonnage.clock import Clock, rfc3339
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, changed
from tonnage.printable import text
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer
from tonnage.scheduling.engine.attempt import EngineSettings, Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.whatif.page import FittedTable, Page, count_text

STORAGE_PLUGINS: Final = frozenset({"NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"})
_SCORING: Final = "VolumeBinding"
"""The plugin whose scores come from the gate StorageCapacityScoring."""
_TOLD_SCORES: Final = 3


@dataclass(frozen=True, slots=True)
class ShadowVerdict:
    """A decision of the other scheduler beside ours; `ours` is empty if Tonnage would not place the pod."""

    pod: str
    theirs: str
    ours: str
    agreed: bool
    tie: bool = False
    """They differ, and both nodes have equal scores."""
    refused: bool = False
    by_storage: bool = False
    by_scoring: bool = False
    """They differ only by StorageCapacityScoring: with the gate off, no node is better than theirs."""
    why: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "theirs": self.theirs or None,
            "ours": self.ours or None,
            "why": self.why,
            "theirsRefused": self.refused,
            "byStorageCapacityScoring": self.by_scoring,
        }


def verdict_of(explanation: Explanation, theirs: str) -> ShadowVerdict:
    """Compare our decision, made before theirs was applied, with their node; empty means none."""
    ours = explanation.node if explanation.schedulable else ""
    verdict = partial(ShadowVerdict, explanation.pod, theirs, ours)
    if theirs == ours:
        return verdict(agreed=True)
    by_name = {answer.name: answer for answer in explanation.nodes}
    there, here = by_name.get(theirs), by_name.get(ours)
    if not theirs:
        return verdict(agreed=False, why=f"{ours} fits ({explanation.message})")
    if there is not None and here is not None and there.feasible and there.total >= here.total:
        return verdict(agreed=True, tie=True)
    is_refused = there is None or not there.feasible
    by_storage = there is not None and is_refused and there.rejected_by in STORAGE_PLUGINS
    why, by_scoring = _why(explanation, theirs, there, here), _is_by_scoring(explanation, there, here)
    return verdict(agreed=False, refused=is_refused, by_storage=by_storage, by_scoring=by_scoring, why=why)


def _is_by_scoring(explanation: Explanation, there: NodeAnswer | None, here: NodeAnswer | None) -> bool:
    """True if no node beats theirs without the scores of VolumeBinding, which scores nothing with the gate off."""
    if there is None or here is None or not there.feasible:
        return False
    best = max(answer.total - answer.scores.get(_SCORING, 0) for answer in explanation.nodes if answer.feasible)
    is_parted = there.scores.get(_SCORING, 0) < here.scores.get(_SCORING, 0)
    return is_parted and there.total - there.scores.get(_SCORING, 0) >= best


def _why(explanation: Explanation, theirs: str, there: NodeAnswer | None, here: NodeAnswer | None) -> str:
    """Why not their node, and why ours."""
    if there is None:
        told = f"{theirs} is a node that is not known"
    elif not there.feasible:
        miss = f" ({there.miss.told})" if there.miss is not None else ""
        told = f"{theirs} is refused by {there.rejected_by}: {', '.join(there.reasons)}{miss}"
    elif here is None:
        told = f"{theirs} fits"
    else:
        told = f"{theirs} scores {there.total}, {here.name} {here.total}{_apart(there, here)}"
    if explanation.held_back:
        return f"{told}; the pod would not be tried: {explanation.held_back}"
    if here is None:
        return f"{told}; no node fits: {explanation.message}"
    if there is None or not there.feasible:
        return f"{told}; {here.name} fits ({explanation.message})"
    return told


def _apart(there: NodeAnswer, here: NodeAnswer) -> str:
    """The scores that differ between two nodes, largest difference first."""
    gaps = {name: here.scores[name] - there.scores.get(name, 0) for name in here.scores}
    telling = sorted((name for name in gaps if gaps[name]), key=lambda name: (-abs(gaps[name]), name))
    parts = [f"{name} {there.scores.get(name, 0)} against {here.scores[name]}" for name in telling[:_TOLD_SCORES]]
    return f" ({', '.join(parts)})" if parts else ""


class Judge:
    """An engine that decides beside another scheduler. The first profile judges pods whose scheduler name no profile
    has: users seldom configure the other scheduler's name. `seed` breaks ties."""

    def __init__(
        self,
        profiles: Iterable[ResolvedProfile],
        *,
        clock: Clock,
        seed: int = 0,
        implies_namespaces: bool = False,
    ) -> None:
        self.engine = Engine(
            profiles,
            clock=clock,
            rng=random.Random(seed),
            settings=EngineSettings(takes_any_pod=True, implies_namespaces=implies_namespaces),
        )

    def decide(self, pod: Pod) -> Explanation:
        """Our decision about a waiting pod. Its nomination is ignored: the other scheduler wrote it after deciding."""
        return self.engine.explain(changed(pod, status={"nominated_node_name": ""}))

    def follow(self, pod: Pod, verdict: ShadowVerdict) -> Placement | None:
        """Count the pod on the other's node, with what Tonnage would keep back for it. None if Tonnage refuses that
        node: then only the objects count."""
        if verdict.refused or not verdict.theirs:
            return None
        engine = self.engine
        engine.queue.nominator.expect(pod, verdict.theirs)  # a pod goes to its nominated node if it fits there
        queued = engine.queue.take_nowait(pod)
        if queued is None:
            return None
        placement = engine.attempt(queued).placement
        if placement is not None and placement.node == verdict.theirs:
            engine.done(pod)
            return placement
        if placement is not None:
            engine.withdraw(placement)
        engine.requeue(queued, pod, nomination="")
        return None

    def let_go(self, placement: Placement | None, pod: Pod | None = None) -> None:
        """The pod did not get to its node. `pod` is its waiting version; None if it is gone or elsewhere."""
        if placement is None:
            return
        self.engine.withdraw(placement)
        if placement.queued is not None and pod is not None:
            self.engine.requeue(placement.queued, pod, nomination="")


NOWHERE: Final = "nowhere"
MOST_KEPT: Final = 1000
"""How many differences and refusals are kept in full; of more, only the number."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod on a node where volumes could not be created or attached; `claims` grows as they become known."""

    verdict: ShadowVerdict
    seen_by: str
    claims: set[Key]

    @property
    def is_avoided(self) -> bool:
        """True if Tonnage would not have chosen that node: it refuses the node, or has a better one."""
        return not self.verdict.agreed

    @property
    def tonnage(self) -> str:
        if not self.is_avoided:
            return "would have sent it there too"
        if not self.verdict.ours:
            return "would have left it pending"
        return f"would have sent it to {self.verdict.ours}"

    def document(self) -> dict[str, Any]:
        return {
            "pod": self.verdict.pod,
            "node": self.verdict.theirs,
            "seenBy": self.seen_by,
            "claims": sorted(self.claims),
            "avoided": self.is_avoided,
            "tonnage": self.tonnage,
            "why": self.verdict.why,
        }


@dataclass(slots=True)
class Tally:
    """Counts since the start. `unseen`: pods that got a node and could not be judged, because they were not seen
    waiting or the state at that moment was incomplete."""

    since: datetime
    most_kept: int = MOST_KEPT
    decisions: int = 0
    agreed: int = 0
    ties: int = 0
    differing: int = 0
    by_scoring: int = 0
    """How many of the differences come only from StorageCapacityScoring."""
    refused: int = 0
    volumes: int = 0
    """Refused volumes of these pods; a pod may have several."""
    avoided: int = 0
    unjudged: set[Key] = field(default_factory=set)
    """Claims with refused volumes after decisions that could not be judged."""
    unseen: int = 0
    say: Callable[[str, str], object] = lambda kind, sentence: None
    """Called at once with every kept difference and refusal."""
    differences: list[ShadowVerdict] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def decided(self, verdict: ShadowVerdict) -> None:
        self.decisions += 1
        if verdict.agreed:
            self.agreed += 1
            self.ties += verdict.tie
            return
        self.differing += 1
        self.by_scoring += verdict.by_scoring
        if len(self.differences) < self.most_kept:
            self.differences.append(verdict)
            sent = f"{verdict.pod} went to {verdict.theirs}, Tonnage would send it to {verdict.ours or NOWHERE}"
            self.say("differs", f"{sent}: {verdict.why}")

    def volumes_refused(self, verdict: ShadowVerdict, seen_by: str, claims: set[Key]) -> None:
        """A pod was placed where volumes are refused; `claims` grows as more become known."""
        refusal = Refusal(verdict, seen_by, claims)
        self.refused += 1
        self.volumes += max(len(claims), 1)
        self.avoided += refusal.is_avoided
        if len(self.refusals) < self.most_kept:
            self.refusals.append(refusal)
            self.say("refused", f"{verdict.pod} on {verdict.theirs}: {seen_by}; Tonnage {refusal.tonnage}")

    def document(self, until: datetime) -> dict[str, Any]:
        """The answer for scripts; see docs/reference/json.md."""
        return {
            "since": rfc3339(self.since),
            "until": rfc3339(until),
            "decisions": self.decisions,
            "agreed": self.agreed,
            "ties": self.ties,
            "differences": [difference.document() for difference in self.differences],
            "differencesByStorageCapacityScoring": self.by_scoring,
            "differencesLeftOut": self.differing - len(self.differences),
            "volumesRefused": {
                "theirs": self.refused,
                "volumes": self.volumes,
                "notJudged": len(self.unjudged),
                "wouldHaveBeenAvoided": self.avoided,
                "refusals": [refusal.document() for refusal in self.refusals],
                "refusalsLeftOut": self.refused - len(self.refusals),
            },
            "unseen": self.unseen,
        }


MOST_ROWS: Final = 40


def counts(tally: Tally) -> str:
    """The counts in a line, for progress."""
    told = f"{tally.decisions:,} decisions, {tally.agreed:,} agreed, {tally.differing:,} differed"
    return f"{told}, {tally.refused:,} with volumes refused" if tally.refused else told


def show(tally: Tally, until: datetime, page: Page) -> None:
    page.say(text(_headline(tally, until), style="bold"))
    if tally.by_scoring:
        come = "comes" if tally.by_scoring == 1 else "come"
        told = f"{tally.by_scoring:,} of {count_text(tally.differing, 'difference')} {come} from StorageCapacityScoring"
        fix = "--feature-gates StorageCapacityScoring=false"
        page.say(text(f"{told}, which kube-scheduler has off by default; without it: {fix}"))
    if tally.unseen:
        page.say(
            text(
                f"{count_text(tally.unseen, 'pod')} got a node but cannot be judged: not everything before that"
                f" was seen"
            )
        )
    if tally.differences:
        page.blank()
        show_differences(tally, page, ("THEIRS", "OURS"), _JSON)
    page.part(text(_refused(tally), style="bold red" if tally.refused else ""))
    if tally.unjudged:
        told = count_text(len(tally.unjudged), "more volume")
        page.say(text(f"{told} could not be created after a decision that was not judged"))
    if tally.refusals:
        page.blank()
        _refusals(tally, page)


def _headline(tally: Tally, until: datetime) -> str:
    span = _span(until - tally.since)
    if not tally.decisions:
        return f"No pod was placed in {span}"
    told = f"{count_text(tally.decisions, 'decision')} in {span}: {tally.agreed:,} agreed"
    if tally.ties:
        told += f", {tally.ties:,} of them between nodes that are equally good"
    return f"{told}; {tally.differing:,} differed"


def _refused(tally: Tally) -> str:
    if not tally.refused:
        return "No pod was seen that was sent to a node where its volumes could not be created"
    sent = f"The other scheduler sent {count_text(tally.refused, 'pod')} where {count_text(tally.volumes, 'volume')}"
    sent += " could not be made"
    if not tally.avoided:
        return f"{sent}; Tonnage would have done the same"
    return f"{sent}; Tonnage would not have sent {tally.avoided:,} of them there"


def show_differences(tally: Tally, page: Page, heads: tuple[str, str], more: str) -> None:
    """The first rows, with `heads` for theirs and ours, and the number of further rows."""
    shown = page.first(tally.differences, MOST_ROWS)
    rows = [(each.pod, each.theirs or NOWHERE, each.ours or NOWHERE, each.why) for each in shown]
    page.table(FittedTable(("POD", *heads, "WHY"), "nwww", rows))
    page.more(tally.differing - len(shown), f"more{more}")


def _refusals(tally: Tally, page: Page) -> None:
    shown = page.first(tally.refusals, MOST_ROWS)
    rows = [(refusal.verdict.pod, refusal.verdict.theirs, refusal.seen_by, refusal.tonnage) for refusal in shown]
    page.table(FittedTable(("POD", "SENT TO", "SEEN BY", "TONNAGE"), "nwww", rows))
    page.more(tally.refused - len(shown), f"more{_JSON}")


_JSON: Final = f"; -o json has the first {MOST_ROWS * 25:,}"


def _span(span: timedelta) -> str:
    seconds = max(int(span.total_seconds()), 0)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"
