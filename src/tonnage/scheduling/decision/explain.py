"""Why there, why not there: a decision with everything it was made from.

`explain` decides as the scheduler would and then tells, for every node, who refused it and why, or how it scored. The
answer is plain data (`Explanation.document`), in the form the command line promises to scripts.

Two kinds of pods get a fuller answer than the scheduler needs. One that is held back before it is queued (scheduling
gates) is told so, with what would be decided otherwise. One that is nominated to a node where it fits goes there
without anybody else being asked; the others are asked here, for the account.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.diagnosis import NOBODY
from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision
from tonnage.scheduling.framework import Code, PreEnqueuePlugin
from tonnage.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from tonnage.scheduling.plugins.volume_binding import Notes, VolumeBinding
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount
from tonnage.scheduling.volumes.explain.nearest_miss import Miss
from tonnage.scheduling.volumes.explain.volume_account import VolumeAccount


@dataclass(slots=True)
class NodeAnswer:
    """One node's part in a decision. `scores` are weighted, as they were added up to `total`."""

    name: str
    feasible: bool
    rejected_by: str = ""
    reasons: tuple[str, ...] = ()
    unresolvable: bool = False
    scores: dict[str, int] = field(default_factory=dict)
    total: int = 0

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "feasible": self.feasible,
            "rejectedBy": self.rejected_by,
            "reasons": list(self.reasons),
            "unresolvable": self.unresolvable,
            "scores": self.scores,
            "total": self.total,
        }


@dataclass(slots=True)
class Explanation:
    """The answer for one pod. `node` is where it goes, or would go if it were not `held_back`; empty for nowhere."""

    pod: str
    node: str
    message: str
    nodes: list[NodeAnswer]
    volumes: dict[str, NodeAccount] = field(default_factory=dict)
    """By node, where the bytes of each of the pod's claims come from there, or why they do not; {} without claims."""
    held_back: str = ""
    """Why the pod is not tried at all; empty when it is."""

    @property
    def schedulable(self) -> bool:
        return bool(self.node) and not self.held_back

    def miss_on(self, node: NodeAnswer) -> Miss | None:
        """How near a node that was refused for its storage came; None for other refusals."""
        account = self.volumes.get(node.name)
        if account is None or node.feasible:
            return None
        if node.rejected_by == NodeVolumeLimits.name:
            return account.slot_miss
        return account.room_miss if node.rejected_by == VolumeBinding.name else None

    def document(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "schedulable": self.schedulable,
            "node": self.node if self.schedulable else None,
            "message": f"not tried: {self.held_back}; otherwise: {self.message}" if self.held_back else self.message,
            "nodes": [answer.document() for answer in self.nodes],
            "volumes": {name: account.document() for name, account in self.volumes.items()},
        }


def explain(
    decider: Decider,
    cluster: Cluster,
    pod: PodInfo,
    nominated: Iterable[tuple[str, PodInfo]] = (),
    *,
    pre_enqueue: Iterable[PreEnqueuePlugin] = (),
) -> Explanation:
    """Decide and account for it. Nodes come best first, refused ones after, each group by name; of equally good ones
    the chosen comes first. `pre_enqueue` are the plugins that may hold the pod back.
    """
    return explained(decider, cluster, pod, nominated, pre_enqueue=pre_enqueue)[0]


def explained(
    decider: Decider,
    cluster: Cluster,
    pod: PodInfo,
    nominated: Iterable[tuple[str, PodInfo]] = (),
    *,
    pre_enqueue: Iterable[PreEnqueuePlugin] = (),
) -> tuple[Explanation, Decision]:
    """The same, with the decision itself, for those who are going to act on it."""
    expected = tuple(nominated)
    decision = considered = decider.decide(cluster, pod, expected, diagnose=True)
    chosen, message = decision.node, _message(decision)
    if decision.fits and decision.diagnosis is None:
        considered = decider.decide(cluster, _without_nomination(pod), expected, diagnose=True)
        message = f"fits on {chosen}, the node it is nominated to; {_message(considered)}"
    answers = {row: NodeAnswer(cluster.name(row), False) for row in cluster.row_of.values()}
    _tell_refusals(considered, answers)
    _tell_scores(decider, considered, answers)
    ordered = sorted(
        answers.values(), key=lambda each: (not each.feasible, -each.total, each.name != chosen, each.name)
    )
    held = (plugin.pre_enqueue(pod) for plugin in pre_enqueue)
    held_back = next((status.message for status in held if not status.is_success), "")
    volumes = _volumes(considered, [each.name for each in ordered])
    return Explanation(pod.key, chosen, message, ordered, volumes, held_back), decision


def _without_nomination(pod: PodInfo) -> PodInfo:
    status = msgspec.structs.replace(pod.pod.status, nominated_node_name="")
    return PodInfo(msgspec.structs.replace(pod.pod, status=status))


def _tell_refusals(decision: Decision, answers: dict[int, NodeAnswer]) -> None:
    diagnosis = decision.diagnosis
    if diagnosis is None:
        return
    for row, answer in answers.items():
        if diagnosis.refusal is not None:
            answer.rejected_by, answer.reasons = diagnosis.refusal.plugin, diagnosis.refusal.reasons
            answer.unresolvable = diagnosis.refusal.code is Code.UNRESOLVABLE
        elif diagnosis.first[row] != NOBODY:
            answer.rejected_by, answer.reasons = diagnosis.rejected_by(row), diagnosis.reasons_of(row)
            answer.unresolvable = bool(diagnosis.final[row])


def _tell_scores(decider: Decider, decision: Decision, answers: dict[int, NodeAnswer]) -> None:
    if not decision.fits:
        return
    cycle = decision.cycle
    for row in cycle.feasible.tolist():
        answers[row].feasible = True
    if len(cycle.feasible) == 1:
        return  # a single feasible node is never scored
    totals = np.zeros(len(cycle.feasible), dtype=np.int64)
    for name, weight, scores in decider.scores(cycle):
        weighted = weight * scores
        totals += weighted
        for row, score in zip(cycle.feasible.tolist(), weighted.tolist(), strict=True):
            answers[row].scores[name] = score
    for row, total in zip(cycle.feasible.tolist(), totals.tolist(), strict=True):
        answers[row].total = total


def _volumes(decision: Decision, names: Iterable[str]) -> dict[str, NodeAccount]:
    """What VolumeBinding had to judge, node by node; nothing when a claim is missing or the pod has none."""
    notes = decision.cycle.state.get(VolumeBinding.name)
    if not isinstance(notes, Notes):
        return {}
    cluster = decision.cycle.cluster
    accounts = VolumeAccount(notes.fit, notes.demand).by_row()
    return {name: accounts[cluster.row_of[name]] for name in names}


def _message(decision: Decision) -> str:
    if decision.fits:
        return f"fits on {decision.feasible} of {decision.cycle.cluster.count} nodes"
    if decision.error is not None:
        return decision.error.message
    return decision.diagnosis.message() if decision.diagnosis is not None else ""
