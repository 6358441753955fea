"""The other scheduler's decisions, read from the objects it writes and judged before they are applied. No I/O.

A decision shows in several places, and watches may bring any of them first:

    selected-node on a claim of the pod     this node, and a volume is to be created there now
    a volume reserved for a claim           the pod is decided; its node is not known yet
    spec.nodeName of the pod                the pod is bound

At the first sign Tonnage decides on the state before it; a node that is known later is compared with that decision. If
that state is incomplete (`RevisionOrder`), the pod is not judged: it is `unseen`.

    waits ──first sign──► under way ──bound, Running──► forgotten
                             └──its volumes cannot be made──► counted; what follows is another decision

Volumes count as refused by: a removed selected-node; ProvisioningFailed with ResourceExhausted or OutOfRange, or with
any code if Tonnage sees no room either; FailedAttachVolume, unless the volume is still attached elsewhere; attachError;
a pod that failed with VolumeAttachmentLimitExceeded; and a claim without a volume after `stuck_after_s`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tonnage import logs
from tonnage.objects.core_v1 import Event, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import VolumeAttachment
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.engine.attempt import Placement
from tonnage.scheduling.queue.waiting_pods import uid_of
from tonnage.scheduling.volumes.demand import is_delayed
from tonnage.whatif.shadow.judging import Judge, ShadowVerdict, Tally, verdict_of

STUCK_AFTER_S: Final = 120.0
"""After this time a placed pod's claim without a volume counts as stuck. Cloud disks take up to a minute."""
_SETTLED_S: Final = 5.0
"""A younger decision is not counted at the end, whatever its volumes look like."""
_MOST_ENDED: Final = 1000
"""Limit of finished pods that late Events may still concern."""

PROVISIONING_FAILED, FAILED_ATTACH = "ProvisioningFailed", "FailedAttachVolume"
LIMIT_EXCEEDED = "VolumeAttachmentLimitExceeded"
TOLD_BY_EVENTS: Final = (PROVISIONING_FAILED, FAILED_ATTACH)
_NO_ROOM: Final = ("ResourceExhausted", "OutOfRange")
"""A driver's codes for a volume that cannot be created there at any time."""

_log = logs.logger("tonnage.shadow")


@dataclass(slots=True)
class _UnderWay:
    """A pod that the other scheduler has decided about."""

    pod: Pod
    explanation: Explanation | None
    since_s: float
    verdict: ShadowVerdict | None = None
    """None while their node is unknown."""
    placement: Placement | None = None
    refused: set[Key] | None = None
    """Claims with refused volumes, as far as known; None without a refusal."""
    awaits_event: set[Key] = field(default_factory=set)
    """Claims with refused volumes whose Events have not arrived yet."""


class Shadow:
    """Follows one cluster. Objects come in by `changed`, Events by `told`; call `open` when the state is known."""

    def __init__(self, judge: Judge, tally: Tally, *, stuck_after_s: float = STUCK_AFTER_S) -> None:
        self.judge, self.tally = judge, tally
        self._engine, self._clock = judge.engine, judge.engine.clock
        self._storage = judge.engine.cluster.storage
        self._stuck_after_s = stuck_after_s
        self._is_open = False
        self._waiting: dict[str, Pod] = {}
        self._under_way: dict[str, _UnderWay] = {}
        self._ended: OrderedDict[str, _UnderWay] = OrderedDict()
        self._users: dict[Key, dict[str, None]] = {}  # uids of pods that wait or are under way, by claim
        self._begun: set[str] = set()  # pods whose decision came before us, or was not seen
        self._can_judge = True

    def open(self) -> None:
        """The state is known: later changes are news. Decisions under way now are not judged."""
        self._engine.open()
        self._is_open = True
        for pod in self._waiting.values():
            self._note_begun(pod)

    def _note_begun(self, pod: Pod) -> None:
        if any(claim.selected_node and not claim.is_bound for claim in self._claims(pod)):
            self._begun.add(uid_of(pod))

    # -- objects in ---------------------------------------------------------------------------------------------------

    def changed(self, old: Object | None, new: Object | None, *, is_judged: bool = True) -> None:
        """An object was added, changed or removed. It is judged first, and always applied then. Without `is_judged` the
        state before it is incomplete: a decision that it shows is not compared."""
        self._can_judge = is_judged
        try:
            if self._is_open:
                self._judge(old, new)
        except Exception:  # a bug of ours or of a plugin: the next change needs the right state
            about = new or old
            _log.exception("A decision could not be judged", object=about.key if about is not None else "")
        if new is None:
            if old is not None:
                self._engine.delete(old)
        elif old is None:
            self._engine.add(new)
        else:
            self._engine.update(old, new)
        if isinstance(new or old, Pod):
            self._keep_waiting(old, new)

    def _judge(self, old: Object | None, new: Object | None) -> None:
        if isinstance(new, Pod):
            if new.spec.node_name:
                self._placed_or_runs(old if isinstance(old, Pod) else None, new)
        elif isinstance(old, Pod):
            self._gone(old)
        elif isinstance(new, PersistentVolumeClaim):
            self._claim_changed(old if isinstance(old, PersistentVolumeClaim) else None, new)
        elif isinstance(new, PersistentVolume):
            self._volume_changed(old if isinstance(old, PersistentVolume) else None, new)
        elif isinstance(new, VolumeAttachment):
            self._attachment_changed(new)

    def is_lacking(self, old: Object | None, new: Object | None) -> bool:
        """True if a change shows a decision and names unknown objects: their watch may be late."""
        if isinstance(new, Pod):
            was_waiting = isinstance(old, Pod) and not old.spec.node_name
            return bool(new.spec.node_name) and was_waiting and self._lacks(new, new.spec.node_name)
        if isinstance(new, PersistentVolumeClaim) and new.selected_node and not new.is_bound:
            if isinstance(old, PersistentVolumeClaim) and old.selected_node == new.selected_node:
                return False
            pods = [self._waiting[uid] for uid in self._users.get(new.key, ()) if uid in self._waiting]
            return not pods or any(self._lacks(pod, new.selected_node) for pod in pods)
        return False

    def _lacks(self, pod: Pod, node: str) -> bool:
        claims = self._storage.claims
        return node not in self._engine.cluster.row_of or any(claims.get(key) is None for key in pod.claim_keys())

    def _keep_waiting(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert isinstance(pod, Pod)
        uid = uid_of(pod)
        if new is not None and not pod.spec.node_name and not pod.is_terminal:
            self._waiting[uid] = pod
            for key in pod.claim_keys():
                self._users.setdefault(key, {})[uid] = None
            if old is None and not self._can_judge:
                self._note_begun(pod)
        elif self._waiting.pop(uid, None) is not None and uid not in self._under_way:
            self._forget_claims(pod)

    def _forget_claims(self, pod: Pod) -> None:
        for key in pod.claim_keys():
            users = self._users.get(key, {})
            users.pop(uid_of(pod), None)
            if not users:
                self._users.pop(key, None)

    def _claims(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        found = (self._storage.claims.get(key) for key in pod.claim_keys())
        return (claim for claim in found if claim is not None)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _placed_or_runs(self, old: Pod | None, new: Pod) -> None:
        uid = uid_of(new)
        if old is None or uid_of(old) != uid:
            self.tally.unseen += not new.is_terminal  # created with a node, or bound while nobody looked
        elif not old.spec.node_name:
            self._placed(old, new)
        under_way = self._under_way.get(uid)
        if under_way is None or not new.spec.node_name:
            return
        if new.is_terminal:
            self.failed(new)
        if new.is_terminal or new.status.phase == "Running" or not new.claim_keys():
            self._end(under_way)

    def _placed(self, waited: Pod, new: Pod) -> None:
        uid, node = uid_of(new), new.spec.node_name
        if uid in self._begun:
            self._begun.discard(uid)
            self.tally.unseen += 1
            return
        under_way = self._under_way.get(uid)
        if under_way is not None and under_way.verdict is not None and under_way.verdict.theirs == node:
            return
        if under_way is None or under_way.verdict is not None:
            if not self._can_judge:
                self.tally.unseen += 1
                return
            under_way = self._decide(waited)
        self._conclude(under_way, node)

    def _gone(self, old: Pod) -> None:
        uid = uid_of(old)
        self._begun.discard(uid)
        under_way = self._under_way.get(uid)
        if under_way is not None:
            if any(not claim.is_bound for claim in self._claims(old)):
                self.judge.let_go(under_way.placement)
            self._end(under_way)

    def failed(self, pod: Pod) -> None:
        """A pod failed; perhaps its node could not attach one more volume."""
        if pod.status.reason == LIMIT_EXCEEDED:
            self._refused(uid_of(pod), pod.spec.node_name, f"{LIMIT_EXCEEDED}: {pod.status.message}".rstrip(": "))

    # -- storage ------------------------------------------------------------------------------------------------------

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> None:
        if old is not None and old.uid != new.uid:
            old = None
        before, now = (old.selected_node if old is not None else ""), new.selected_node
        if before and before != now and not new.is_bound:
            self._taken_back(new, before)
        if now and now != before:
            self._sign(new.key, now)
        elif new.spec.volume_name and not (old is not None and old.spec.volume_name) and is_delayed(new, self._storage):
            self._sign(new.key, "")

    def _taken_back(self, claim: PersistentVolumeClaim, node: str) -> None:
        """The provisioner removed selected-node from a claim: its volume cannot be created on this node."""
        is_one_meant = False
        for uid in tuple(self._users.get(claim.key, ())):
            if uid in self._begun:
                self.tally.unjudged.add(claim.key)
                self._begun.discard(uid)
            seen_by = f"selected-node {node} was taken back from claim {claim.name}"
            under_way = self._under_way.get(uid)
            if under_way is None:  # another claim of the same decision came first
                self._refused(uid, node, seen_by, claim.key)
                if uid in self._ended:
                    self._ended[uid].awaits_event.add(claim.key)
                continue
            is_older = under_way.verdict is not None and under_way.verdict.theirs != node
            if is_older or uid not in self._waiting:
                continue
            if under_way.verdict is None and not is_one_meant:  # of pods that share the claim, one was sent
                self._conclude(under_way, node)
                is_one_meant = True
            was_told = under_way.refused is not None and claim.key in under_way.refused
            self._refused(uid, node, seen_by, claim.key)
            under_way.awaits_event |= set() if was_told else {claim.key}
            self.judge.let_go(under_way.placement, self._waiting[uid])
            self._end(under_way)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume) -> None:
        owner = new.spec.claim_ref
        if owner is None or (old is not None and old.spec.claim_ref is not None):
            return
        key = f"{owner.namespace}/{owner.name}"
        claim = self._storage.claims.get(key)
        if claim is not None and not claim.is_bound and is_delayed(claim, self._storage):
            self._sign(key, "")

    def _attachment_changed(self, new: VolumeAttachment) -> None:
        error = new.status.attach_error
        volume = self._storage.volumes.get(new.spec.source.persistent_volume_name)
        if error is None or new.status.attached or volume is None or volume.spec.claim_ref is None:
            return
        key = f"{volume.spec.claim_ref.namespace}/{volume.spec.claim_ref.name}"
        for uid in tuple(self._users.get(key, ())):
            self._refused(uid, new.spec.node_name, f"attachError of volume {volume.name}: {error.message}", key)

    # -- events -------------------------------------------------------------------------------------------------------

    def told(self, event: Event) -> None:
        """An Event reports that a volume could not be created or attached."""
        if not self._is_open:
            return
        about, seen_by = event.involved_object, f"{event.reason}: {event.message}"
        if event.reason == FAILED_ATTACH and about.kind == "Pod" and "Multi-Attach" not in event.message:
            under_way = self._under_way.get(about.uid) or self._ended.get(about.uid)
            if under_way is not None and under_way.verdict is not None:
                self._refused(about.uid, under_way.verdict.theirs, seen_by)
        elif event.reason == PROVISIONING_FAILED:
            is_final = any(code in event.message for code in _NO_ROOM)
            self._provisioning_failed(f"{about.namespace}/{about.name}", seen_by, is_final=is_final)

    def _provisioning_failed(self, key: Key, seen_by: str, *, is_final: bool) -> None:
        """Without `is_final` a failure counts only if Tonnage sees no room either; others pass, or end as stuck."""
        for uid in tuple(self._users.get(key, ())):
            before = self._ended.get(uid)
            if before is not None and key in before.awaits_event:  # belongs to a refusal that is already counted
                before.awaits_event.discard(key)
                continue
            under_way, claim = self._under_way.get(uid), self._storage.claims.get(key)
            if claim is None or claim.is_bound:
                continue
            if under_way is None and uid in self._begun and is_final:
                self.tally.unjudged.add(key)
            verdict = under_way.verdict if under_way is not None else None
            if verdict is not None and (is_final or verdict.by_storage):
                self._refused(uid, verdict.theirs, seen_by, key)

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _sign(self, claim: Key, node: str) -> None:
        """A claim shows that its pod is decided, and its node if known."""
        waiting = [uid for uid in self._users.get(claim, ()) if uid in self._waiting and uid not in self._begun]
        for uid in waiting:
            under_way = self._under_way.get(uid)
            if under_way is not None and under_way.verdict is not None:
                if node in ("", under_way.verdict.theirs):
                    continue  # another claim of the same decision
                self.judge.let_go(under_way.placement, self._waiting[uid])
                self._end(under_way)
                under_way = None
            if under_way is None and not self._can_judge:
                self._begun.add(uid)
                continue
            if under_way is None:
                under_way = self._decide(self._waiting[uid])
            if node and len(waiting) == 1:  # with several pods, spec.nodeName will show which was meant
                self._conclude(under_way, node)

    def _decide(self, pod: Pod) -> _UnderWay:
        under_way = _UnderWay(pod, self.judge.decide(pod), self._clock.monotonic())
        self._under_way[uid_of(pod)] = under_way
        return under_way

    def _conclude(self, under_way: _UnderWay, node: str) -> None:
        assert under_way.explanation is not None
        under_way.verdict = verdict = verdict_of(under_way.explanation, node)
        under_way.explanation = None  # it is as large as the cluster
        self.tally.decided(verdict)
        under_way.placement = self.judge.follow(under_way.pod, verdict)

    def _refused(self, uid: str, node: str, seen_by: str, claim: Key = "") -> None:
        """A volume was refused. A pod counts once per decision, and so does each of its claims."""
        under_way = self._under_way.get(uid) or self._ended.get(uid)
        if under_way is None or under_way.verdict is None or under_way.verdict.theirs != node:
            return
        if under_way.refused is None:
            under_way.refused = {claim} - {""}
            self.tally.volumes_refused(under_way.verdict, seen_by, under_way.refused)
        elif claim and claim not in under_way.refused:
            self.tally.volumes += bool(under_way.refused)  # the first refusal of a pod counts, with or without a claim
            under_way.refused.add(claim)

    def _end(self, under_way: _UnderWay) -> None:
        uid = uid_of(under_way.pod)
        self._under_way.pop(uid, None)
        self._ended.pop(uid, None)
        self._ended[uid] = under_way
        under_way.placement = under_way.explanation = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)
        if uid not in self._waiting:
            self._forget_claims(under_way.pod)

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Call it once a second: expires what ends by the clock, and finds stuck claims."""
        now_s = self._clock.monotonic()
        self._engine.tick(now_s)
        for under_way in self._under_way.values():
            if now_s - under_way.since_s >= self._stuck_after_s and under_way.refused is None:
                self._stuck(under_way, f"after {self._stuck_after_s:g} s")

    def close(self) -> None:
        """The end: pods without their volumes count as stuck if Tonnage sees no room on the node either."""
        now_s = self._clock.monotonic()
        for under_way in self._under_way.values():
            verdict = under_way.verdict
            if verdict is not None and verdict.by_storage and now_s - under_way.since_s >= _SETTLED_S:
                self._stuck(under_way, "at the end")

    def _stuck(self, under_way: _UnderWay, when: str) -> None:
        for late in self._claims(under_way.pod):
            if not late.is_bound and under_way.verdict is not None:
                seen_by = f"claim {late.name} is still without a volume {when}"
                self._refused(uid_of(under_way.pod), under_way.verdict.theirs, seen_by, late.key)
