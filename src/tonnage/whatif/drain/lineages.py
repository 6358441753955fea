"""Who came after whom: a pod that had to go is followed through its successors to the last one."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.attempt import Attempt
from tonnage.scheduling.framework import Status
from tonnage.whatif.simulate.world import World


class Lineages:
    """Watches a world, and knows who went, who came instead, and which nodes were as good as the chosen one."""

    def __init__(self) -> None:
        self.gone_count = 0
        self._next: dict[str, str] = {}
        self._gone: set[str] = set()
        self._equally_good: dict[str, tuple[str, ...]] = {}

    # -- what a world tells its watcher -------------------------------------------------------------------------------

    def decided(self, number: int, attempt: Attempt) -> None:
        found = attempt.explanation
        if found is None or attempt.placement is None:
            return
        chosen = attempt.placement.node
        open_to = [each for each in found.nodes if each.feasible and not each.passed_over]
        best = next((each.total for each in open_to if each.name == chosen), None)
        others = (each.name for each in open_to if each.total == best and each.name != chosen)
        self._equally_good[attempt.pod.uid] = tuple(sorted(others))

    def running(self, pod: Pod, since_s: float) -> None:
        pass

    def gone(self, pod: Pod, why: str) -> None:
        self._gone.add(pod.uid)
        self.gone_count += 1

    def failed(self, pod: PodInfo, node: str, status: Status) -> None:
        pass

    def replaced(self, old: Pod, new: Pod) -> None:
        self._next[old.uid] = new.uid

    # -- what is asked afterwards -------------------------------------------------------------------------------------

    def is_gone(self, pod: Pod) -> bool:
        return pod.uid in self._gone

    def equally_good(self, pod: Pod) -> tuple[str, ...]:
        """The other nodes that a pod's scheduler liked as much as the one it chose, if that was asked for."""
        return self._equally_good.get(pod.uid, ())

    def last(self, pod: Pod, world: World, by_uid: Mapping[str, Pod]) -> tuple[Pod | None, str]:
        """Who came last in a pod's place, and why that does not run; an empty reason when it does."""
        uid = pod.uid
        while uid in self._next:
            uid = self._next[uid]
        last = by_uid.get(uid)
        if last is None:
            before = world.controllers.waits_for(pod)
            if before:
                return None, f"its StatefulSet makes it again when {before} runs, and that one does not"
            return None, "nobody has made another in its place"
        if not last.spec.node_name:
            return last, world.scheduler.why.get(last.uid, "") or "the scheduler has not tried to place it"
        if last.status.phase == "Running":
            return last, ""
        return last, f"it was sent to {last.spec.node_name} and does not run there: its volumes do not come"
