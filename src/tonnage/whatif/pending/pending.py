"""Every pod of a cluster that waits, decided in the queue's order, grouped by cause, with what would help the most.

    question = PendingQuestion(state, sequence)
    question.decide(step)          one after the other, each after those before it are assumed
    question.try_changes(step)     what might help, tried
    question.answer()              at any time: what is known so far

To explain a pod node by node costs far more than the decision, so a pod that is like one before it shares its
explanation (`causes.py`); for JSON, which tells all of each, nobody shares.
`summary` is what the dashboard's page shows of an answer: `PendingAnswer.document` is megabytes on a large cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tonnage.behaviour.workloads.pod_states import makers_of, workload_of
from tonnage.clock import rfc3339
from tonnage.keyed import grouped
from tonnage.objects.core_v1 import BETA_ZONE, ZONE, Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.printable import assembled, text
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.volumes.explain.refusal_notes import half_made_in
from tonnage.whatif.explain import DecisionSequence, PodState, state_of, undecided
from tonnage.whatif.explain_report import preemption_sentence
from tonnage.whatif.knobs import Remedy, merged
from tonnage.whatif.page import FittedTable, Page, named
from tonnage.whatif.pending import causes
from tonnage.whatif.pending.causes import MOST_EXPLAINED_NODES, CauseOfPod, Likeness, NodePlaces, PendingCause, cause_of
from tonnage.whatif.pending.changes import ChangeProposals, Waiting
from tonnage.whatif.pending.trials import MOST_PAIRED, Trials
from tonnage.whatif.sources import ClusterState, Step, unheard

_EPOCH = datetime.fromtimestamp(0, UTC)
_NEVER_TRIED = frozenset((causes.FITS, causes.ASSUMED, causes.TERMINATING, causes.FOREIGN, causes.NOBODY))
_NEVER_REFUSED = _NEVER_TRIED | {causes.GATED}


@dataclass(frozen=True, slots=True)
class PendingPod:
    """One pod that has no node yet."""

    pod: Pod
    workload: str
    """Whose pod it is, as it is asked for; empty for one that nobody made."""
    state: PodState
    refusals: CauseOfPod
    node: str = ""
    explanation: Explanation | None = None
    """Its own, or that of a pod that is alike; None for one that fits, or that nobody tries."""

    @property
    def key(self) -> Key:
        return self.pod.key

    @property
    def cause(self) -> PendingCause:
        return self.refusals.cause

    @property
    def fits(self) -> bool:
        return self.cause.kind in (causes.FITS, causes.ASSUMED, causes.TERMINATING)


@dataclass(frozen=True, slots=True)
class PendingGroup:
    cause: PendingCause
    pods: tuple[PendingPod, ...]
    message: str
    helps: tuple[Remedy, ...]
    """What lets some of them in, the most of them first."""

    @property
    def nearest_miss(self) -> tuple[str, str]:
        """A node and how near it came, of the first pod that can tell. Without one, no node and kube-scheduler's words;
        nothing at all for pods that nobody refused."""
        if self.cause.kind in _NEVER_REFUSED:
            return "", ""
        for pod in self.pods:
            nearest = next(iter(pod.refusals.nodes), None)
            if nearest is not None and nearest.miss is not None:
                return nearest.name, nearest.miss.told
        return "", next((each.explanation.message for each in self.pods if each.explanation is not None), "")

    def helped_by(self, change: Remedy) -> int:
        """How many of them a change lets in."""
        return len({pod.key for pod in self.pods}.intersection(change.pods))

    def whom_helps(self, change: Remedy) -> str:
        count = self.helped_by(change)
        return "it" if len(self.pods) == 1 else "all of them" if count == len(self.pods) else f"{count:,} of them"


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    pods: Sequence[PendingPod]
    """In the order in which they were decided on."""
    groups: Sequence[PendingGroup]
    """The largest first; every pod is in one of them."""
    helps: Sequence[Remedy]
    is_partial: bool = False

    def document(self) -> list[dict[str, Any]]:
        """One entry for each pod, as `explain` has it, with its cause and what would let it in."""
        group_of = {pod.key: group for group in self.groups for pod in group.pods}
        return [self._entry(pod, group_of[pod.key]) for pod in self.pods]

    def _entry(self, each: PendingPod, group: PendingGroup) -> dict[str, Any]:
        message = group.message if not each.node else f"is on its way to {each.node}"
        explanation = each.explanation
        found = explanation.document() if explanation is not None else undecided(each.key, each.node, message)
        return {
            **found,
            "state": each.state.value,
            "workload": each.workload or None,
            "cause": {**group.cause.document(), "message": group.message},
            "wouldHelp": [_helped(remedy) for remedy in self.helps if each.key in remedy.pods],
        }


@dataclass(slots=True)
class PendingQuestion:
    """Asks about the pods of one cluster that wait. Any step may be interrupted."""

    state: ClusterState
    sequence: DecisionSequence
    explains_all: bool = False
    _decided: list[PendingPod] = field(default_factory=list)
    _helps: list[Remedy] = field(default_factory=list)
    _alike: dict[Hashable, PendingPod] = field(default_factory=dict)
    _explained_nodes: int = 0
    _is_whole: bool = False

    @property
    def count(self) -> int:
        return len(self._waiting())

    def _waiting(self) -> list[Pod]:
        """In the order of the queue: the most important first, of equals the oldest."""
        found = [each for each in self.state.pods.values() if not each.spec.node_name and not each.is_terminal]
        found.sort(key=lambda pod: (pod.metadata.creation_timestamp or _EPOCH, pod.key))
        sort_key = next(iter(self.sequence.replay.engine.profiles.values())).sort_key
        return sorted(found, key=lambda pod: sort_key(PodInfo(pod), 0.0))

    def decide(self, step: Step = unheard) -> None:
        """Decide on every pod that waits; `step` is told of each."""
        makers = makers_of((*self.state.objects, *self.state.workloads))
        places = self._places()
        classes = {each.key: each.class_name for each in self.state.by_kind.all(PersistentVolumeClaim)}
        likeness = Likeness(self.sequence.replay.engine)
        for pod in self._waiting():
            self._decided.append(self._decided_on(pod, workload_of(pod, makers), classes, places, likeness))
            step(1)

    def _decided_on(
        self, pod: Pod, workload: str, classes: dict[Key, str], places: NodePlaces, likeness: Likeness
    ) -> PendingPod:
        state, node = state_of(pod, self.state.memory)

        def because(kind: str, about: str = "", **more: Any) -> PendingPod:
            return PendingPod(pod, workload, state, CauseOfPod(PendingCause(kind, about)), **more)

        if state is PodState.ASSUMED:
            return because(causes.ASSUMED, node=node)
        if state is PodState.TERMINATING:
            return because(causes.TERMINATING)
        if not self.sequence.is_ours(pod):
            return because(causes.FOREIGN, pod.spec.scheduler_name)
        if self.sequence.nobody_schedules(pod):
            return because(causes.NOBODY, pod.spec.scheduler_name, explanation=self.sequence.decide(pod))
        if held_back := self.sequence.held_back(pod):
            return because(causes.GATED, held_back, explanation=self.sequence.decide(pod))
        if not self.explains_all:
            sent_to, message, diagnosis = self.sequence.quickly_decide(pod)
            if sent_to:
                return because(causes.FITS, node=sent_to)
            info = PodInfo(pod)
            known = likeness.of(info, workload, message, diagnosis)
            alike = next((self._alike[hashable] for hashable in known if hashable in self._alike), None)
            if alike is not None:
                return PendingPod(pod, workload, state, alike.refusals, explanation=alike.explanation)
            nearly = likeness.nearly(info, message, diagnosis)
            alike = self._alike.get(nearly) if self._explained_nodes >= MOST_EXPLAINED_NODES else None
            if alike is not None:
                refusals = alike.refusals._replace(needs=likeness.needs(info, alike.refusals))
                return PendingPod(pod, workload, state, refusals, explanation=alike.explanation)
        explanation = self.sequence.decide(pod)
        if explanation.node:
            return because(causes.FITS, node=explanation.node, explanation=explanation)
        cause = cause_of(PodInfo(pod), explanation, classes, places, lambda: self.sequence.explain_tolerant(pod))
        made = PendingPod(pod, workload, state, cause, explanation=explanation)
        self._explained_nodes += len(explanation.nodes)
        if not self.explains_all and explanation.preemption is None:
            self._alike.update(dict.fromkeys(known, made))
            self._alike.setdefault(nearly, made)
        return made

    def _places(self) -> NodePlaces:
        nodes = self.state.by_kind.of(Node)
        zones = {
            name: node.metadata.labels.get(ZONE) or node.metadata.labels.get(BETA_ZONE, "")
            for name, node in nodes.items()
        }
        profile = next(iter(self.sequence.replay.engine.profiles.values()))
        order = {each.name: number for number, each in enumerate(profile.pipeline.filter)}
        return NodePlaces(zones, order, nodes)

    def try_changes(self, step: Step = unheard) -> None:
        """Try what might help the pods that wait; `step` is told of each try, and of 0 now and then within one."""
        tried = [pending_pod for pending_pod in self._decided if pending_pod.cause.kind not in _NEVER_TRIED]
        waiting = [Waiting(each.pod, each.explanation) for each in tried if each.explanation is not None]
        trials = Trials(self.sequence, waiting, step)
        for change in ChangeProposals(waiting, self.sequence.replay).all():
            found = trials.tried(change)
            if found is not None:
                self._helps.append(found)
            step(1)
        self._helps = merged(self._helps, lambda each: (each.rank, each.pattern, tuple(sorted(each.pods))))
        self._try_pairs(trials, {each.key: each for each in waiting})
        self._is_whole = True

    def _try_pairs(self, trials: Trials, waiting: dict[Key, Waiting]) -> None:
        """Two changes at once, for a pod of each cause that no single one helps."""
        helped = {key for found in self._helps for key in found.pods}
        asked: set[PendingCause] = set()
        for each in self._decided:
            if each.key not in waiting or each.key in helped or each.cause in asked or len(asked) >= MOST_PAIRED:
                continue
            asked.add(each.cause)
            found = trials.tried_in_pairs(waiting[each.key])
            if found is not None:
                self._helps.append(found)
                helped.update(found.pods)

    def answer(self) -> PendingAnswer:
        helps = sorted(self._helps, key=lambda each: (-len(each.pods), each.rank, each.amount, each.text))
        by_cause = grouped((pod.cause, pod) for pod in self._decided)
        groups = [self._group(cause, pods, helps) for cause, pods in by_cause.items()]
        groups.sort(key=lambda group: (group.pods[0].fits, -len(group.pods), group.message))
        return PendingAnswer(self._decided, groups, helps, is_partial=not self._is_whole)

    def _group(self, cause: PendingCause, pods: Sequence[PendingPod], helps: Sequence[Remedy]) -> PendingGroup:
        needs: Counter[str] = Counter()
        for pod in pods:
            needs.update(pod.refusals.needs)
        owners = list(dict.fromkeys(pod.workload for pod in pods if pod.workload))
        is_owned = all(pod.workload for pod in pods)
        where = causes.common_place([pod.refusals for pod in pods], self._places().zone_of)
        message = causes.sentence(cause, len(pods), owners if is_owned else (), needs, where)
        told = (half_made_in(pod.explanation.message) for pod in pods if pod.explanation is not None)
        stuck = list(dict.fromkeys(filter(None, told)))
        if stuck:
            more = f" {len(stuck) - 1:,} more are stuck in the same way." if len(stuck) > 1 else ""
            message = f"{message}. {stuck[0]}{more}"
        keys = {pod.key for pod in pods}
        helping = (each for each in helps if keys.intersection(each.pods))
        ordered = sorted(helping, key=lambda each: -len(keys.intersection(each.pods)))
        return PendingGroup(cause._replace(where=where), tuple(pods), message, tuple(ordered))


_MOST_GROUPS, _MOST_OWNERS, _MOST_HELPS = 20, 8, 8
_INDENT = 2


def print_pending(answer: PendingAnswer, page: Page) -> None:
    """Write the answer; one that was interrupted says so elsewhere."""
    count, fitting = len(answer.pods), sum(pod.fits for pod in answer.pods)
    alone = sum(pod.cause.kind == causes.NOBODY for pod in answer.pods)
    if not count:
        page.say(text("no pod is pending", style="bold green"))
        return
    told = [f"{fitting:,} already {'fits' if fitting == 1 else 'fit'} and should start soon"] if fitting else []
    left = count - fitting - alone
    told += [f"{alone:,} {'has' if alone == 1 else 'have'} no scheduler"] if alone else []
    told += [f"{left:,} {'does' if left == 1 else 'do'} not fit"] if left else []
    if len(told) == 1:
        number, _, rest = told[0].partition(" ")
        page.say(assembled((f"{number} pending {'pod' if count == 1 else 'pods'}", "bold"), f" {rest}"))
    else:
        page.say(assembled((f"{count:,} pods are pending", "bold"), f": {', '.join(told)}"))
    for group in answer.groups[:_MOST_GROUPS]:
        page.blank()
        _print_group(group, page)
    hidden = answer.groups[_MOST_GROUPS:]
    page.more(sum(len(each.pods) for each in hidden), f"pods that wait for {len(hidden):,} more causes")
    if answer.helps:
        page.part(text("What would help, each tried by itself", style="bold"))
        rows = [(f"{len(each.pods):,}", each.text) for each in answer.helps[:_MOST_HELPS]]
        page.table(FittedTable(("PODS", "CHANGE"), "1w", rows))
    elif left and not answer.is_partial:
        page.part(text("No single change that was tried would help.", style="dim"))


def _print_group(group: PendingGroup, page: Page) -> None:
    page.say(text(group.message, style="" if group.pods[0].fits else "bold red"))
    by_owner = grouped((pod.workload, pod) for pod in group.pods)
    owned = {name: pods for name, pods in by_owner.items() if name}
    for name, pods in list(owned.items())[:_MOST_OWNERS]:
        page.say(text(f"{name} ({len(pods):,}): {_names(pods)}"), indent=_INDENT)
    if len(owned) > _MOST_OWNERS:
        hidden = sum(len(pods) for pods in list(owned.values())[_MOST_OWNERS:])
        page.say(text(f"… and {hidden:,} pods of {len(owned) - _MOST_OWNERS:,} more workloads"), indent=_INDENT)
    if "" in by_owner:
        bare = by_owner[""]
        kind = "bare pod" if len(bare) == 1 else f"bare pods ({len(bare):,})"
        page.say(text(f"{kind}: {_names(bare)}"), indent=_INDENT)
    for line in nearest_misses(group):
        page.say(text(line, style="dim"), indent=_INDENT)
    for pod in group.pods:
        if pod.explanation is not None and pod.explanation.preemption is not None:
            page.say(text(f"{pod.key}: {preemption_sentence(pod.explanation.preemption)}"), indent=_INDENT)
    if group.helps:
        best = group.helps[0]
        page.say(text(f"{best.text}: would let {group.whom_helps(best)} in", style="green"), indent=_INDENT)


def _names(pods: list[PendingPod]) -> str:
    return named([f"{pod.key} → {pod.node}" if pod.node else pod.key for pod in pods])


def nearest_misses(group: PendingGroup) -> list[str]:
    """The nearest miss of the first pod that has one; kube-scheduler's words where there is none."""
    name, miss = group.nearest_miss
    if not miss:
        return []
    return [f"nearest miss on {name}: {miss}" if name else miss]


def summary(answer: PendingAnswer) -> dict[str, Any]:
    """The causes, the most common first, and the changes that let pods in, the most of them first."""
    return {
        "partial": answer.is_partial,
        "decided": len(answer.pods),
        "groups": [_group(group) for group in answer.groups],
        "wouldHelp": [_helped(each) for each in answer.helps],
    }


def _helped(remedy: Remedy) -> dict[str, Any]:
    return {"change": remedy.text, "pods": len(remedy.pods)}


def _group(group: PendingGroup) -> dict[str, Any]:
    node, miss = group.nearest_miss
    found: dict[str, Any] = {
        "cause": group.cause.document(),
        "message": group.message,
        "fits": group.pods[0].fits,
        "pods": [_pod(pod) for pod in group.pods],
        "wouldHelp": [{"change": each.text, "pods": group.helped_by(each)} for each in group.helps],
    }
    if miss:
        found["nearestMiss"] = {"node": node, "told": miss}
    return found


def _pod(each: PendingPod) -> dict[str, Any]:
    found: dict[str, Any] = {"pod": each.key, "state": each.state.value}
    if each.pod.metadata.creation_timestamp is not None:
        found["since"] = rfc3339(each.pod.metadata.creation_timestamp)
    if each.workload:
        found["workload"] = each.workload
    if each.node:
        found["node"] = each.node
    if each.explanation is not None and each.explanation.preemption is not None:
        found["preemption"] = preemption_sentence(each.explanation.preemption)
    return found
