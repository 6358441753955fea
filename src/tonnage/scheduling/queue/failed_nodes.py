"""Nodes that failed a pod after it was decided to go there, and for how long others are preferred to them.

    failed once: 15 s · twice: 30 s · 1 min · from then on 2 min.   No failure for ten minutes: forgotten

Where what a node and its driver say is not true, the best-scored node would be chosen, and fail, for ever. So it is
passed over for a while, by this pod and if any other node fits. A volume that could not be attached counts for all pods
of the controller: they are made anew with other uids, and often with other claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tonnage.backoff import exponential_s
from tonnage.clock import Clock, rfc3339
from tonnage.objects.core_v1 import Pod
from tonnage.objects.storage_v1 import attachment_name
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.queue.queued_pod import uid_of

FIRST_S: Final = 15.0
"""Longer than the longest backoff of a pod (10 s), or it would be over when the pod is tried next."""
MAX_S: Final = 120.0
FORGOTTEN_AFTER_S: Final = 600.0


@dataclass(slots=True)
class NodeFailure:
    """What became of one pod, or of the pods of one controller, on one node."""

    times: int
    why: str
    """The last failure, in a few words."""
    until_s: float
    """Until when the node is passed over, by the clock's `monotonic()`."""
    until: datetime
    """The same, for people."""

    @property
    def told(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"failed the pod {times} after the decision, passed over until {rfc3339(self.until)}: {self.why}"


class FailedNodes:
    """Failures by pod or controller, and node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, dict[str, NodeFailure]] = {}

    def pod_failed(self, pod: Pod, node_name: str, why: str) -> NodeFailure:
        """A pod did not get to the node that it was sent to."""
        return self._failed(uid_of(pod), node_name, why)

    def pod_gone(self, pod: Pod, storage: Storage) -> None:
        """A pod with a node is gone. If a volume could not be attached there, its successors are to know."""
        controller = pod.metadata.controller
        if controller is not None and (refusal := refused_attachment(pod, storage)):
            self._failed(controller.uid, pod.spec.node_name, refusal)

    def _failed(self, whose: str, node_name: str, why: str) -> NodeFailure:
        by_node = self._failures.setdefault(whose, {})
        times = by_node[node_name].times + 1 if node_name in by_node else 1
        while_s, clock = exponential_s(FIRST_S, times - 1, max_s=MAX_S), self._clock
        failure = NodeFailure(times, why, clock.monotonic() + while_s, clock.now() + timedelta(seconds=while_s))
        by_node[node_name] = failure
        return failure

    def passed_over(self, pod: Pod) -> Mapping[str, str]:
        """The nodes that others are preferred to now, for this pod; each with why, in a sentence."""
        if not self._failures:
            return {}
        now_s, controller = self._clock.monotonic(), pod.metadata.controller
        found: dict[str, NodeFailure] = {}
        for whose in (uid_of(pod), controller.uid if controller is not None else ""):
            for node_name, failure in self._failures.get(whose, {}).items():
                known = found.get(node_name)
                if failure.until_s > now_s and (known is None or known.until_s < failure.until_s):
                    found[node_name] = failure
        return {node_name: failure.told for node_name, failure in found.items()}

    def listed(self) -> Iterator[tuple[str, str, NodeFailure]]:
        """Uid of the pod or controller, node, and failure, of all that are passed over now."""
        now_s = self._clock.monotonic()
        for whose, by_node in self._failures.items():
            for node_name, failure in by_node.items():
                if failure.until_s > now_s:
                    yield whose, node_name, failure

    def remember(self, whose: str, node_name: str, times: int, why: str, until: datetime) -> None:
        """Know what another scheduler of the same cluster knows."""
        left_s = (until - self._clock.now()).total_seconds()
        failure = NodeFailure(times, why, self._clock.monotonic() + left_s, until)
        self._failures.setdefault(whose, {})[node_name] = failure

    def expire(self, now_s: float) -> None:
        """Forget what is long past, so that nothing stays behind of pods that are gone."""
        for whose, by_node in list(self._failures.items()):
            left = {name: each for name, each in by_node.items() if now_s <= each.until_s + FORGOTTEN_AFTER_S}
            if left:
                self._failures[whose] = left
            else:
                del self._failures[whose]

    def __len__(self) -> int:
        return sum(map(len, self._failures.values()))


def refused_attachment(pod: Pod, storage: Storage) -> str:
    """Why a volume of a pod could not be attached to its node, as far as VolumeAttachments say; else empty."""
    for name in pod.claim_names():
        claim = storage.claims.get(f"{pod.namespace}/{name}")
        volume = storage.volumes.get(claim.spec.volume_name) if claim is not None else None
        if volume is None or volume.spec.csi is None:
            continue
        source = volume.spec.csi
        found = storage.attachments.get(attachment_name(source.volume_handle, source.driver, pod.spec.node_name))
        if found is not None and not found.status.attached and found.status.attach_error is not None:
            return f"volume {volume.name} could not be attached: {found.status.attach_error.message}"
    return ""
