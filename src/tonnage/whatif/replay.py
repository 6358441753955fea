"""Decisions in sequence, with the scheduler's memory, on virtual time: a race as a script that can be run again.

    apply, delete ──► objects (replay_objects.py) ──► cluster ──► schedule: decide, reserve, assume ──► explanation
                                                         ▲            fail_binding: that decision is undone
    advance ──► clock ──► what is held for a while goes ─┘            restart: memory is lost, objects are kept

Every answer comes from the code that the live scheduler runs. What it would write on its way to a binding (claims with
their node, volumes with their claim) is assumed in memory and not written to the objects: what the world then shows is
for whoever holds the script to say. A pod that is applied with a node is bound, and no longer assumed.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation, explained
from tonnage.scheduling.engine.profiles import Assembled, assemble
from tonnage.scheduling.engine.reserving import reserve, unreserve
from tonnage.scheduling.engine.snapshot import Snapshot, clock_of, snapshot_of
from tonnage.scheduling.framework import Cycle
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.scheduling.queue.queued_pod import uid_of
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.whatif.replay_objects import ReplayObjects


class ReplayError(TonnageError):
    """A step that cannot be taken in the state the replay is in."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A decision that stands and is not seen in the API yet."""

    pod: PodInfo
    profile: Assembled
    cycle: Cycle
    node: str


class Replay:
    """One cluster and one scheduler, moved by steps.

    `profiles` are the scheduler's; with `takes_any_pod`, pods that ask for another scheduler are placed by the first of
    them. Ties are broken by `seed`, alike at every run. Time starts at the last instant the objects tell of, or else at
    a fixed one.
    """

    def __init__(
        self,
        objects: Iterable[Object],
        profiles: Sequence[ResolvedProfile],
        *,
        foreign: ForeignPlugins | None = None,
        takes_any_pod: bool = False,
        seed: int = 0,
    ) -> None:
        found = list(objects)
        self.clock = clock_of(found)
        self.objects = ReplayObjects(self.clock)
        self.objects.load(found)
        self.profiles = profiles
        self._foreign = foreign
        self._takes_any_pod = takes_any_pod
        self._seed = seed
        self._start()

    def _start(self) -> None:
        """A scheduler as it is after its start: it knows the objects and nothing else."""
        self._snapshot: Snapshot = snapshot_of(self.objects, self.clock)
        self._holds = (self.cluster.view(Reservations), self.cluster.view(Ledger))
        self._assumed: dict[str, Placement] = {}
        self._assembled = {
            each.scheduler_name: assemble(each, random.Random(self._seed), self._foreign) for each in self.profiles
        }

    @property
    def cluster(self) -> Cluster:
        return self._snapshot.cluster

    def pod(self, key: Key) -> Pod:
        """A pod as the objects have it. Raises ReplayError when there is none."""
        found = self.objects.get("Pod", key)
        if not isinstance(found, Pod):
            count = len(self._snapshot.pods)
            raise ReplayError(
                f'there is no pod "{key}" among the {count} there are now',
                hint="give it with the manifests or in an apply step before this one",
            )
        return found

    # -- decisions ----------------------------------------------------------------------------------------------------

    def schedule(self, key: Key) -> Explanation:
        """Decide on a pod, reserve, assume. Raises ReplayError for one that a scheduler would not take up."""
        pod = self.pod(key)
        self._check_waiting(pod)
        profile = self._profile_of(pod)
        info = PodInfo(pod)
        explanation, decision = explained(
            profile.decider,
            self.cluster,
            info,
            self._snapshot.nominator.ahead_of(info),
            pre_enqueue=profile.rules.pre_enqueue,
        )
        if not explanation.schedulable:
            return explanation
        status = reserve(profile.reserve, decision.cycle, decision.node)
        if not status.is_success:
            told = f'{explanation.message}; Reserve plugin "{status.plugin}" refused {decision.node}: {status.message}'
            return dataclasses.replace(explanation, node="", message=told)
        self.cluster.put_pod(info, decision.node)
        self._snapshot.nominator.remove(pod)
        self._assumed[info.uid] = Placement(info, profile, decision.cycle, decision.node)
        return explanation

    def fail_binding(self, key: Key) -> str:
        """Undo a pod's last decision: give back what was kept for it; the node it was sent to.

        Raises ReplayError when there is no decision that could fail.
        """
        pod = self.pod(key)
        placement = self._assumed.get(uid_of(pod))
        if placement is None:
            found = f"it is bound to {pod.spec.node_name}" if pod.spec.node_name else "it has not been sent to a node"
            raise ReplayError(
                f"the binding of pod {key} cannot fail: {found}",
                hint="schedule it first, and fail it before it is bound",
            )
        self._take_back(placement)
        self._snapshot.put(pod)
        return placement.node

    def _check_waiting(self, pod: Pod) -> None:
        placement = self._assumed.get(uid_of(pod))
        problem = hint = ""
        if placement is not None:
            problem = f"is placed already: it was sent to {placement.node}"
            hint = "a fail_binding step undoes that"
        elif pod.is_terminal:
            problem, hint = f"has ended ({pod.status.phase})", "delete it, and apply it anew"
        elif pod.spec.node_name:
            problem, hint = f"is placed already: it is bound to {pod.spec.node_name}", "delete it, and apply it anew"
        elif pod.metadata.is_terminating:
            problem, hint = "is being deleted; a scheduler passes it over", "leave out its metadata.deletionTimestamp"
        if problem:
            raise ReplayError(f"pod {pod.key} {problem}", hint=hint)

    def _profile_of(self, pod: Pod) -> Assembled:
        found = self._assembled.get(pod.spec.scheduler_name)
        if found is not None:
            return found
        if self._takes_any_pod:
            return self._assembled[self.profiles[0].scheduler_name]
        raise ReplayError(
            f"pod {pod.key} asks for schedulerName {pod.spec.scheduler_name}, and no profile has that name",
            hint=f"the profiles are {', '.join(self._assembled)}",
        )

    def _take_back(self, placement: Placement) -> None:
        unreserve(placement.profile.reserve, placement.cycle, placement.node)
        del self._assumed[placement.pod.uid]
        self.cluster.remove_pod(placement.pod.uid)

    # -- the world ----------------------------------------------------------------------------------------------------

    def apply(self, new: Object) -> str:
        """Create an object or replace the one of its name: `created`, `configured` or `unchanged`, as kubectl says.

        Raises ReplayError for a pod that would leave the node it is bound to.
        """
        if isinstance(new, Pod):
            self._check_stays(new)
        before, now = self.objects.put(new)
        if before is now:
            return "unchanged"
        if before is not None and before.uid != now.uid:
            self._gone(before)
            before = None
        if isinstance(now, Pod):
            self._pod_changed(now)
        else:
            self._snapshot.put(now)
        return "created" if before is None else "configured"

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; `namespace` is empty for kinds that have none. Raises ReplayError when it is not there."""
        key = f"{namespace}/{name}" if namespace else name
        found = self.objects.remove(kind, key)
        if found is None:
            raise ReplayError(f"there is no {kind} {key} to delete")
        self._gone(found)

    def advance(self, seconds: float) -> datetime:
        """Move time on, and let go of what was held until then; the time it is now."""
        self.clock.advance(seconds)
        for each in self._holds:
            each.expire(self.clock.monotonic())
        return self.clock.now()

    def restart(self) -> list[tuple[Key, str]]:
        """Lose all memory and start again from the objects; the pods that were assumed, each with its node."""
        forgotten = [(each.pod.key, each.node) for each in self._assumed.values()]
        self._start()
        return forgotten

    def _check_stays(self, new: Pod) -> None:
        before = self.objects.get("Pod", new.key)
        if not isinstance(before, Pod) or new.uid not in ("", before.uid):
            return
        if before.spec.node_name and new.spec.node_name != before.spec.node_name:
            told = f"cannot be bound to {new.spec.node_name} as well" if new.spec.node_name else "cannot be unbound"
            raise ReplayError(
                f"pod {new.key} is bound to {before.spec.node_name} and {told}", hint="delete it, and apply it anew"
            )

    def _pod_changed(self, pod: Pod) -> None:
        """The informer's word on a pod. Bound where it was sent, an assumed one is confirmed; elsewhere it is moved."""
        uid = uid_of(pod)
        placement = self._assumed.get(uid)
        if placement is not None and pod.spec.node_name == placement.node:
            del self._assumed[uid]
        elif placement is not None and (pod.spec.node_name or pod.is_terminal):
            self._take_back(placement)
        elif placement is not None:
            self._snapshot.pods[pod.key] = pod  # still on its way: what was decided stands
            return
        self._snapshot.put(pod)
        if pod.is_terminal:
            self._tell_gone(uid)

    def _gone(self, old: Object) -> None:
        if not isinstance(old, Pod):
            self._snapshot.remove(old)
            return
        placement = self._assumed.get(uid_of(old))
        if placement is not None:  # its binding finds no pod, and fails
            self._take_back(placement)
        self._snapshot.remove(old)
        self._tell_gone(uid_of(old))

    def _tell_gone(self, uid: str) -> None:
        """Nobody waits any more for what was kept back for a pod."""
        for each in self._holds:
            each.pod_gone(uid)
