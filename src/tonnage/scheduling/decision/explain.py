"""A decision with everything it was made from, as plain data in the form that scripts rely on.

A node that failed the pod after an earlier decision is shown with the reason and without a score. A pod blocked before
it is queued is marked, with what would be decided otherwise. For a pod that fits its nominated node, the other nodes
are judged too, for the account.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.answers import NOBODY
from tonnage.scheduling.decision.nominated_room import Holder, HolderOf, held_sentence, holders_by_node
from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision
from tonnage.scheduling.framework import Code, Plugin, PreEnqueuePlugin, RowAccount


@dataclass(slots=True)
class NodeAnswer:
    """One node's part in a decision. `scores` are weighted and add up to `total`."""

    name: str
    feasible: bool
    rejected_by: str = ""
    reasons: tuple[str, ...] = ()
    unresolvable: bool = False
    scores: dict[str, int] = field(default_factory=dict)
    total: int = 0
    passed_over: str = ""
    """Why other nodes are preferred for a while although it fits; it is then not scored."""
    held_by: tuple[Holder, ...] = ()
    """The nominated pods because of which the node is refused."""
    miss: Any = None
    """How near a refused node came, if the plugin that refused it can say; see `Plugin.nearest_miss`."""

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "feasible": self.feasible,
            "rejectedBy": self.rejected_by,
            "reasons": list(self.reasons),
            "unresolvable": self.unresolvable,
            "scores": self.scores,
            "total": self.total,
            **({"passedOver": self.passed_over} if self.passed_over else {}),
            **({"heldBy": [holder.document() for holder in self.held_by]} if self.held_by else {}),
            **({"nearestMiss": self.miss.told} if self.miss is not None else {}),
        }


@dataclass(frozen=True, slots=True)
class PreemptionAnswer:
    """Where preemption would make room for a pod that fits nowhere, and its victims."""

    node: str
    victims: tuple[str, ...]
    """The most important first."""
    budget_violations: int = 0
    """How many victims violate a PodDisruptionBudget."""

    def document(self) -> dict[str, Any]:
        return {"node": self.node, "victims": list(self.victims), "budgetViolations": self.budget_violations}


@dataclass(slots=True)
class Explanation:
    """The answer for one pod. `node`: where it goes, or would go if it were not `held_back`; empty for nowhere."""

    pod: str
    node: str
    message: str
    nodes: list[NodeAnswer]
    volumes: Mapping[str, RowAccount] = field(default_factory=dict)
    """By node, where the bytes of the pod's claims come from, or why there are none; {} without claims."""
    held_back: str = ""
    """Why the pod is not tried at all; empty if it is."""
    preemption: PreemptionAnswer | None = None
    """The victims if the pod fits nowhere; None if preemption does not help."""

    @property
    def schedulable(self) -> bool:
        return bool(self.node) and not self.held_back

    def document(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "schedulable": self.schedulable,
            "node": self.node if self.schedulable else None,
            "message": f"not tried: {self.held_back}; otherwise: {self.message}" if self.held_back else self.message,
            "nodes": [answer.document() for answer in self.nodes],
            "volumes": {name: account.document() for name, account in self.volumes.items()},
            **({"heldBack": self.held_back} if self.held_back else {}),
            **({"preemption": self.preemption.document()} if self.preemption is not None else {}),
        }


def explanation_of(
    decider: Decider,
    decision: Decision,
    nominated: Sequence[tuple[str, PodInfo]] = (),
    *,
    pre_enqueue: Iterable[PreEnqueuePlugin] = (),
    passed_over: Mapping[str, str] = MappingProxyType({}),
    holder_of: HolderOf = lambda pod: Holder(pod.key),
) -> Explanation:
    """Account for a decision that was made with `diagnose`, on a cluster that has not changed since.

    `pre_enqueue`: plugins that may block the pod. `passed_over`: nodes chosen only if no other fits, with the reasons.
    `holder_of`: the known facts of a pod's nomination.

    Nodes come best first, refused ones last, each group by name; among equals the chosen node comes first.
    """
    pod, cluster = decision.cycle.pod, decision.cycle.cluster
    considered = decision
    chosen, message = decision.node, _message(decision)
    if decision.fits and decision.diagnosis is None:
        status = msgspec.structs.replace(pod.pod.status, nominated_node_name="")
        unbiased = PodInfo(msgspec.structs.replace(pod.pod, status=status))
        considered = decider.decide(cluster, unbiased, nominated, passed_over=passed_over, diagnose=True)
        message = f"fits on {chosen}, the node it is nominated to; {_message(considered)}"
    answers = {row: NodeAnswer(cluster.name(row), False) for row in cluster.row_of.values()}
    _tell_refusals(considered, answers)
    held_room = holders_by_node(considered.diagnosis, holder_of)
    for name, holders in held_room.items():
        answers[cluster.row_of[name]].held_by = holders
    if held_room and not considered.fits:
        message = f"{message} {held_sentence(held_room)}"
    _tell_scores(decider, considered, answers)
    for row in considered.passed_over:
        answers[row].feasible, answers[row].passed_over = True, passed_over[cluster.name(row)]
    accounts = _accounts(decider, considered)
    _tell_misses(decider, considered, answers, accounts)
    ordered = sorted(
        answers.values(),
        key=lambda each: (not each.feasible, bool(each.passed_over), -each.total, each.name != chosen, each.name),
    )
    held = (plugin.pre_enqueue(pod) for plugin in pre_enqueue)
    held_back = next((status.message for status in held if not status.is_success), "")
    volumes = {answer.name: accounts[cluster.row_of[answer.name]] for answer in ordered} if accounts else {}
    return Explanation(pod.key, chosen, message, ordered, volumes, held_back)


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


def _plugins(decider: Decider) -> Iterator[Plugin]:
    yield from decider.pipeline.pre_filter
    yield from decider.pipeline.filter


def accounts_of(decider: Decider, decision: Decision) -> dict[str, RowAccount]:
    """By node name, the account of the plugin that has one; empty if none applies to the pod."""
    found, cluster = _accounts(decider, decision), decision.cycle.cluster
    return {name: found[row] for name, row in sorted(cluster.row_of.items()) if row in found}


def _accounts(decider: Decider, decision: Decision) -> Mapping[int, RowAccount]:
    """By row, the account of the plugin that has one: of the existing plugins, VolumeBinding."""
    if decision.cycle.cluster.count:
        for plugin in _plugins(decider):
            if (found := plugin.account(decision.cycle)) is not None:
                return found
    return {}


def _tell_misses(
    decider: Decider, decision: Decision, answers: Mapping[int, NodeAnswer], accounts: Mapping[int, RowAccount]
) -> None:
    by_name = {plugin.name: plugin for plugin in _plugins(decider)}
    for row, answer in answers.items():
        plugin = by_name.get(answer.rejected_by)
        if plugin is not None and not answer.feasible:
            answer.miss = plugin.nearest_miss(decision.cycle, row, accounts.get(row))


def _message(decision: Decision) -> str:
    cluster = decision.cycle.cluster
    if decision.fits:
        told = f"fits on {decision.feasible} of {cluster.count} nodes"
        if decision.passed_over:
            names = sorted(map(cluster.name, decision.passed_over))
            told += f", of which {', '.join(names)} failed it and {'is' if len(names) == 1 else 'are'} ignored"
        return told
    if decision.error is not None:
        return decision.error.message
    return decision.diagnosis.told() if decision.diagnosis is not None else ""
