"""Pods: one word for everything their containers are going through.

READY, STATUS and RESTARTS come from one walk over the container statuses (`Progress`). The rules and their order mirror
upstream's printPod, because scripts grep for these words.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tonnage.apiserver.tables.cells import NONE, Cell, age, condition_status
from tonnage.objects.document import Doc, dig


@dataclass(slots=True)
class Progress:
    """A pod's progress. `restarted_at` is when the last restarted container ended."""

    status: str
    ready: int = 0
    total: int = 0
    restarts: int = 0
    restarted_at: str = ""

    def count(self, container: Doc) -> None:
        """Add one container's restarts."""
        self.restarts += container.get("restartCount", 0)
        # RFC 3339 in UTC with whole seconds sorts as text.
        finished_at = dig(container, "lastState", "terminated", "finishedAt") or ""
        self.restarted_at = max(self.restarted_at, finished_at)


def progress(pod: Doc) -> Progress:
    """Walk the init containers and, unless one of them still blocks the pod, the containers."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    conditions = status.get("conditions", ())
    sidecars = {found["name"] for found in spec.get("initContainers", ()) if found.get("restartPolicy") == "Always"}

    word = status.get("reason") or status.get("phase", "")
    if any(found.get("type") == "PodScheduled" and found.get("reason") == "SchedulingGated" for found in conditions):
        word = "SchedulingGated"
    made = Progress(word, total=len(spec.get("containers", ())) + len(sidecars))

    # Restarts of init containers count only while they are being run; those of sidecars count for good.
    of_sidecars = Progress("")
    initializing = False
    for position, container in enumerate(status.get("initContainerStatuses", ())):
        made.count(container)
        is_sidecar = container["name"] in sidecars
        if is_sidecar:
            of_sidecars.count(container)
        state = container.get("state", {})
        terminated = state.get("terminated")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if is_sidecar and container.get("started"):
            made.ready += bool(container.get("ready"))
            continue
        waiting_for = dig(state, "waiting", "reason")
        if terminated is not None:
            made.status = f"Init:{_ended(terminated)}"
        elif waiting_for and waiting_for != "PodInitializing":
            made.status = f"Init:{waiting_for}"
        else:
            made.status = f"Init:{position}/{len(spec.get('initContainers', ()))}"
        initializing = True
        break

    if not initializing or condition_status(conditions, "Initialized") == "True":
        made.restarts, made.restarted_at = of_sidecars.restarts, of_sidecars.restarted_at
        _containers(made, status)
    _deletion(made, pod)
    return made


def _containers(made: Progress, status: Doc) -> None:
    """The first container has the last word, so they are walked backwards."""
    has_running = False
    failure = ""
    for container in reversed(status.get("containerStatuses", ())):
        made.count(container)
        state = container.get("state", {})
        terminated = state.get("terminated")
        if waiting_for := dig(state, "waiting", "reason"):
            made.status = waiting_for
        elif terminated is not None:
            made.status = _ended(terminated)
            if terminated.get("exitCode", 0) != 0:
                failure = made.status
        elif container.get("ready") and "running" in state:
            has_running = True
            made.ready += 1
    if made.status != "Completed":
        return
    # One container is done; what the pod is depends on the others.
    if has_running and condition_status(status.get("conditions"), "Ready") == "True":
        made.status = "Running"
    elif failure:
        made.status = failure
    elif has_running:
        made.status = "NotReady"


def _ended(terminated: Doc) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _deletion(made: Progress, pod: Doc) -> None:
    if dig(pod, "metadata", "deletionTimestamp") is None:
        return
    if dig(pod, "status", "reason") == "NodeLost":
        made.status = "Unknown"
    elif dig(pod, "status", "phase") not in ("Succeeded", "Failed"):
        made.status = "Terminating"


# -- cells -----------------------------------------------------------------------------------------------------------


def ready(pod: Doc, now: datetime) -> Cell:
    made = progress(pod)
    return f"{made.ready}/{made.total}"


def status(pod: Doc, now: datetime) -> Cell:
    return progress(pod).status


def restarts(pod: Doc, now: datetime) -> Cell:
    made = progress(pod)
    if made.restarts and made.restarted_at:
        return f"{made.restarts} ({age(made.restarted_at, now)} ago)"
    return str(made.restarts)


def ip(pod: Doc, now: datetime) -> Cell:
    """The podIP of older kubelets, which write no podIPs, comes first."""
    addresses = [dig(pod, "status", "podIP"), *(found["ip"] for found in dig(pod, "status", "podIPs") or ())]
    return next((str(address) for address in addresses if address), NONE)


def readiness_gates(pod: Doc, now: datetime) -> Cell:
    gates = dig(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    conditions = dig(pod, "status", "conditions")
    passed = sum(condition_status(conditions, gate["conditionType"]) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


_COMPLETED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def completed(pod: Doc) -> list[Doc]:
    """The row condition of an ended pod: kubectl can hide such rows."""
    phase = dig(pod, "status", "phase")
    if phase not in _COMPLETED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]
