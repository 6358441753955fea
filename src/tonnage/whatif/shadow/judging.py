"""What Tonnage would have decided about a pod that another scheduler places, and how the two compare. No I/O.

`Judge` is an engine that follows somebody else's decisions: it is shown the cluster as it changes, is asked about a pod
before the other's decision is applied, and then counts the pod where the other has sent it. What a scheduler keeps back
for a pod on its way is kept back on the other's node too, so that the next pod is judged as Tonnage would: by what is
left, and not by figures that are not refreshed yet.

    explanation = judge.decide(pod)                     # on the state without the other's decision
    verdict = verdict_of(explanation, theirs="node-2")
    placement = judge.follow(pod, verdict)              # the pod is on its way there

Nodes that score alike are no disagreement: a scheduler tosses between them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tonnage.clock import Clock
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.settings import EngineSettings
from tonnage.scheduling.plugins.registry import ForeignPlugins

STORAGE_PLUGINS: Final = frozenset({"NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"})
"""Who refuses a node because of a pod's volumes."""
_SCORING: Final = "VolumeBinding"
"""Whose scores are those of the gate StorageCapacityScoring."""
_TOLD_SCORES: Final = 3


@dataclass(frozen=True, slots=True)
class ShadowVerdict:
    """One decision of the other scheduler beside ours; `ours` is empty where Tonnage would have let the pod wait."""

    pod: str
    theirs: str
    ours: str
    agreed: bool
    tie: bool = False
    """They differ, and theirs is as good as ours."""
    refused: bool = False
    """Tonnage refuses their node."""
    by_storage: bool = False
    """…because of the pod's volumes."""
    by_scoring: bool = False
    """They differ by StorageCapacityScoring alone: with the gate off, theirs is as good as any."""
    why: str = ""
    """Why the two differ; empty where they agree."""

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
    """Compare a decision of ours, made before theirs was applied, with the node they chose; empty is nowhere."""
    ours = explanation.node if explanation.schedulable else ""
    if theirs == ours:
        return ShadowVerdict(explanation.pod, theirs, ours, agreed=True)
    by_name = {each.name: each for each in explanation.nodes}
    there, here = by_name.get(theirs), by_name.get(ours)
    if not theirs:
        why = f"{ours} fits ({explanation.message})"
        return ShadowVerdict(explanation.pod, theirs, ours, agreed=False, why=why)
    if there is not None and here is not None and there.feasible and there.total >= here.total:
        return ShadowVerdict(explanation.pod, theirs, ours, agreed=True, tie=True)
    is_refused = there is None or not there.feasible
    by_storage = there is not None and is_refused and there.rejected_by in STORAGE_PLUGINS
    why = _why(explanation, theirs, there, here)
    return ShadowVerdict(
        explanation.pod,
        theirs,
        ours,
        agreed=False,
        refused=is_refused,
        by_storage=by_storage,
        by_scoring=_is_by_scoring(explanation, there, here),
        why=why,
    )


def _is_by_scoring(explanation: Explanation, there: NodeAnswer | None, here: NodeAnswer | None) -> bool:
    """Whether their node would be as good as any if nodes were not scored by free storage. With the gate off
    VolumeBinding scores nothing, and all other scores are what they are."""
    if there is None or here is None or not there.feasible:
        return False
    best = max(each.total - each.scores.get(_SCORING, 0) for each in explanation.nodes if each.feasible)
    is_parted = there.scores.get(_SCORING, 0) < here.scores.get(_SCORING, 0)
    return is_parted and there.total - there.scores.get(_SCORING, 0) >= best


def _why(explanation: Explanation, theirs: str, there: NodeAnswer | None, here: NodeAnswer | None) -> str:
    """Why not there, and why where Tonnage would have sent it."""
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
    """The scores that part two nodes, the furthest apart first."""
    gaps = {name: here.scores[name] - there.scores.get(name, 0) for name in here.scores}
    telling = sorted((name for name in gaps if gaps[name]), key=lambda name: (-abs(gaps[name]), name))
    parts = [f"{name} {there.scores.get(name, 0)} against {here.scores[name]}" for name in telling[:_TOLD_SCORES]]
    return f" ({', '.join(parts)})" if parts else ""


class Judge:
    """One engine that decides along with another scheduler.

    Pods that no profile is asked to place are judged by the first: who looks on has seldom given their scheduler's
    name. Ties are broken by `seed`.
    """

    def __init__(
        self,
        profiles: Iterable[ResolvedProfile],
        *,
        clock: Clock,
        seed: int = 0,
        foreign: ForeignPlugins | None = None,
        implies_namespaces: bool = False,
    ) -> None:
        self.engine = Engine(
            profiles,
            clock=clock,
            rng=random.Random(seed),
            foreign=foreign,
            settings=EngineSettings(takes_any_pod=True, implies_namespaces=implies_namespaces),
        )

    def decide(self, pod: Pod) -> Explanation:
        """What Tonnage would do with a pod that waits, in this state. Where the other expects it does not count: that
        is written when the other has decided."""
        return self.engine.explain(_with_nomination(pod, ""))

    def follow(self, pod: Pod, verdict: ShadowVerdict) -> Placement | None:
        """Count the pod where the other has sent it, with what Tonnage would keep back for it there.

        None where Tonnage would not have sent it: then only what the cluster comes to show counts.
        """
        if verdict.refused or not verdict.theirs:
            return None
        engine = self.engine
        engine.queue.expected.nominate(pod, verdict.theirs)  # a pod goes where it is nominated, if it fits there
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
        """The pod did not get there after all; `pod` is how it waits now, None when it is gone or elsewhere."""
        if placement is None:
            return
        self.engine.withdraw(placement)
        if placement.queued is not None and pod is not None:
            self.engine.requeue(placement.queued, pod, nomination="")


def _with_nomination(pod: Pod, node: str) -> Pod:
    if pod.status.nominated_node_name == node:
        return pod
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, status=status)
