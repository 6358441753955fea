"""A pod's status as its kubelet writes it: strategic patches of differences, None if there are none.

    creating ──► running ──► terminated            rejected: Failed at once, before anything ran

Others' conditions stay: a strategic patch merges by type. Ready and ContainersReady are the kubelet's: if somebody
overwrites them, it writes them again after ten seconds, as upstream's status manager does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Final, Literal

from tonnage.behaviour.nodes.kubelet_admission import PREEMPTED, PREEMPTING
from tonnage.behaviour.workloads.pod_states import REJECTED
from tonnage.clock import rfc3339
from tonnage.node.pods.containers import has_passed, kept_running, readiness_delay_s, startup_delay_s, unready
from tonnage.objects.core_v1 import Container, Pod
from tonnage.objects.document import Doc

Step = Literal["creating", "running", "terminated"]

OURS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""The conditions that a kubelet owns."""
_TELLING: Final = ("containerStatuses", "initContainerStatuses", "message")


def came_at(pod: Pod, *, now: datetime) -> datetime:
    """When a pod came to its node: bound, or first seen there."""
    scheduled = pod.condition("PodScheduled")
    bound_at = None if scheduled is None or not scheduled.is_true else scheduled.last_transition_time
    return bound_at or pod.status.start_time or now


def creating_patch(pod: Pod, *, host_ip: str, now: datetime, seen_at: datetime | None = None) -> Doc | None:
    if pod.status.start_time is not None:
        return None
    return _patch(pod, "creating", phase="Pending", host_ip=host_ip, pod_ip="", now=now, seen_at=seen_at)


def running_patch(pod: Pod, *, host_ip: str, pod_ip: str, now: datetime, seen_at: datetime | None = None) -> Doc | None:
    """The pod's containers run. Also restores what others overwrote, such as a Ready that was removed."""
    pod_ip = pod.status.pod_ip or pod_ip
    wanted = _patch(pod, "running", phase="Running", host_ip=host_ip, pod_ip=pod_ip, now=now, seen_at=seen_at)
    shown = {condition.type: (condition.status, condition.reason) for condition in pod.status.conditions}
    says = {each["type"]: (each["status"], each.get("reason") or "") for each in wanted["status"]["conditions"]}
    is_same = all(shown.get(type_) == said for type_, said in says.items())
    runs = [
        {"name": container_status.name, "ready": container_status.ready, "started": container_status.started}
        for container_status in pod.status.container_statuses
        if container_status.state.running is not None
    ]
    flags = [{field: statuse[field] for field in ("name", "ready", "started")} for statuse in _statuses(wanted)]
    if pod.status.phase == "Running" and is_same and runs == flags:
        return None
    return wanted


def terminated_patch(pod: Pod, *, now: datetime) -> Doc | None:
    """The pod is being deleted and its containers have ended; the phase stays, because the pod is about to go."""
    if all(container_status.state.running is None for container_status in pod.status.container_statuses):
        return None
    return _patch(pod, "terminated", phase=pod.status.phase, now=now)


def ended_patch(pod: Pod, *, exit_code: int, now: datetime) -> Doc:
    """The pod's containers have ended by themselves, and so has the pod."""
    patch = _patch(pod, "terminated", phase="Failed" if exit_code else "Succeeded", now=now)
    for container in _statuses(patch):
        container["state"]["terminated"] |= {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}
    why = {"reason": "PodFailed" if exit_code else "PodCompleted", "message": None}
    for condition in patch["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition |= {"status": "False", **why}
        elif condition["type"] == "Initialized":
            condition |= why
    return patch


def restarted_patch(pod: Pod, *, exit_code: int, now: datetime) -> Doc:
    patch = _patch(pod, "running", phase="Running", now=now)
    for container in _statuses(patch):
        was = next(statuse for statuse in pod.status.container_statuses if statuse.name == container["name"])
        since = was.state.running.started_at if was.state.running is not None else None
        ended = {
            "exitCode": exit_code,
            "reason": "Error",
            "startedAt": rfc3339(since or now),
            "finishedAt": rfc3339(now),
        }
        container["restartCount"] = was.restart_count + 1
        container["lastState"] = {"terminated": ended}
        container["state"] = {"running": {"startedAt": rfc3339(now)}}
    return patch


def rejected_patch(pod: Pod, *, reason: str, message: str) -> Doc:
    """The pod cannot run here: Failed, so that its controller makes another. Only the QoS class stays."""
    shown = {condition.type for condition in pod.status.conditions}
    return {
        "metadata": {"uid": pod.uid},
        "status": {
            "phase": "Failed",
            "reason": reason,
            "message": f"{REJECTED}{message}",
            "conditions": [{"$patch": "delete", "type": each} for each in OURS if each in shown],
            "containerStatuses": None,
            "initContainerStatuses": None,
            "startTime": None,
            "hostIP": None,
            "hostIPs": None,
        },
    }


def preempted_patch(pod: Pod, *, now: datetime) -> Doc:
    """The containers were killed and the pod is Failed: a critical pod needs its resources."""
    patch = ended_patch(pod, exit_code=137, now=now)
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": "Pod was preempted by Kubelet to accommodate a critical pod.",
        "lastTransitionTime": rfc3339(now),
        "observedGeneration": pod.metadata.generation,
    }
    patch["status"] |= {"reason": PREEMPTING, "message": PREEMPTED}
    patch["status"]["conditions"].append(target)
    return patch


def shorter_patches(patch: Doc) -> Iterator[Doc]:
    """Smaller patches for a pod that is too large for the whole one: without texts, then only the phase."""
    status = patch["status"]
    kept = {field: value for field, value in status.items() if value is None or field not in _TELLING}
    kept["conditions"] = [{**each, "message": None} if "message" in each else each for each in status["conditions"]]
    yield {**patch, "status": kept}
    yield {**patch, "status": {"phase": status["phase"]}}


def pod_ip(uid: str, taken: Collection[str]) -> str:
    """An address of 10.0.0.0/8 for a pod, always the same if it is free. There is no network behind it."""
    number = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:3], "big")
    while True:
        # A last byte of 0 or 255 would look like a network or a broadcast.
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number % 254 + 1}"
        if address not in taken:
            return address
        number = (number + 1) % 2**24


def container_id(pod: Pod, container: Container) -> str:
    digest = hashlib.sha256(f"{pod.uid}/{container.name}".encode()).hexdigest()
    return f"tonnage://{digest}"


def _patch(
    pod: Pod,
    step: Step,
    *,
    phase: str,
    now: datetime,
    host_ip: str | None = None,
    pod_ip: str | None = None,
    seen_at: datetime | None = None,
) -> Doc:
    """The whole status at a step; without `host_ip` or `pod_ip` the pod keeps its own."""
    host_ip = pod.status.host_ip if host_ip is None else host_ip
    pod_ip = pod.status.pod_ip if pod_ip is None else pod_ip
    status: Doc = {
        "phase": phase,
        "observedGeneration": pod.metadata.generation,
        "conditions": _conditions(pod, step, now=now),
        "containerStatuses": [_container(pod, container, step, now=now) for container in pod.spec.containers],
        "startTime": rfc3339(pod.status.start_time or seen_at or now),
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _container(pod, init_container, step, now=now, is_init=True) for init_container in pod.spec.init_containers
        ]
    if host_ip:
        status |= {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
    if pod_ip:
        status |= {"podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    return {"metadata": {"uid": pod.uid}, "status": status}


def _statuses(patch: Doc) -> list[Doc]:
    statuses: list[Doc] = patch["status"]["containerStatuses"]
    return statuses


def _conditions(pod: Pod, step: Step, *, now: datetime) -> list[Doc]:
    runs = step == "running"
    waited_for = unready(pod, now) if runs else [container.name for container in kept_running(pod)]
    names = " ".join(waited_for)
    not_ready = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
    waiting = [init_container.name for init_container in pod.spec.init_containers] if step == "creating" else []
    uninitialized = {
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{' '.join(waiting)}]",
    }
    gates = _closed_gates(pod)
    are_ready = not waited_for
    ready: Doc = {} if are_ready else not_ready
    if are_ready and gates:
        ready = {"reason": "ReadinessGatesNotReady", "message": ", ".join(gates)}
    wanted: list[Doc] = [
        {"type": "PodReadyToStartContainers", "status": _bool(runs)},
        {"type": "Initialized", "status": _bool(not waiting), **(uninitialized if waiting else {})},
        {"type": "Ready", "status": _bool(are_ready and not gates), **ready},
        {"type": "ContainersReady", "status": _bool(are_ready), **({} if are_ready else not_ready)},
    ]
    for condition in wanted:
        was = pod.condition(condition["type"])
        since = was.last_transition_time if was is not None and was.status == condition["status"] else None
        if was is not None and was.reason and "reason" not in condition:
            condition |= {"reason": None, "message": None}  # a merge would keep the old reason
        condition |= {"lastTransitionTime": rfc3339(since or now), "observedGeneration": pod.metadata.generation}
    return wanted


def _closed_gates(pod: Pod) -> list[str]:
    closed = []
    for gate in pod.spec.readiness_gates:
        condition = pod.condition(gate.condition_type)
        if condition is None:
            closed.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif not condition.is_true:
            closed.append(
                f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {condition.status}'
            )
    return closed


def _container(pod: Pod, container: Container, step: Step, *, now: datetime, is_init: bool = False) -> Doc:
    statuses = pod.status.init_container_statuses if is_init else pod.status.container_statuses
    was = next((container_status for container_status in statuses if container_status.name == container.name), None)
    started_at = was.state.running.started_at if was is not None and was.state.running is not None else None
    ends = step == "terminated" or (is_init and not container.is_sidecar)
    state: Doc
    if step == "creating":
        reason = "PodInitializing" if pod.spec.init_containers and not is_init else "ContainerCreating"
        state = {"waiting": {"reason": reason}}
    elif ends:
        times = {"startedAt": rfc3339(started_at or now), "finishedAt": rfc3339(now)}
        ended = {"exitCode": 0, "reason": "Completed", "containerID": container_id(pod, container), **times}
        state = {"terminated": ended}
    else:
        state = {"running": {"startedAt": rfc3339(started_at or now)}}
    is_up = step == "running" and not ends
    is_started = is_up and has_passed(startup_delay_s(container), started_at, now)
    is_ready = is_up and has_passed(readiness_delay_s(container), started_at, now)
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "" if step == "creating" else container.image,
        **({} if step == "creating" else {"containerID": container_id(pod, container)}),
        "ready": is_ready or (step == "running" and ends),
        "started": is_started,
        "restartCount": was.restart_count if was is not None else 0,
        "lastState": {},
        "state": state,
    }


def _bool(value: bool) -> str:
    return "True" if value else "False"


RECONCILE_S: Final = 10.0
"""Upstream's syncPeriod of the status manager."""

Statement = tuple[object, ...]
"""What a status says, without its times."""


class StatusReport:
    """The last status that we wrote of a pod."""

    def __init__(self) -> None:
        self._said: Statement | None = None
        self._overwritten_at_s: float | None = None

    def pause_s(self, patch: Doc, now_s: float) -> float:
        """Seconds until this patch may overwrite what another client wrote; 0 to write it now."""
        if not self.is_said(patch):
            return 0.0
        if self._overwritten_at_s is None:
            self._overwritten_at_s = now_s
        return max(0.0, self._overwritten_at_s + RECONCILE_S - now_s)

    def is_said(self, patch: Doc) -> bool:
        """True if this patch was written last; parts left out of a too large pod count as written."""
        return self._said == statement(patch)

    def written(self, patch: Doc) -> None:
        self._said, self._overwritten_at_s = statement(patch), None

    def in_step(self) -> None:
        """The API has our status again: another client's change has been undone."""
        self._overwritten_at_s = None


def statement(patch: Doc) -> Statement:
    """Phase, conditions and containers of a status patch, without times."""
    status = patch["status"]
    conditions = tuple((each["type"], each["status"], each.get("reason") or "") for each in status["conditions"])
    containers = tuple((each["name"], each["ready"], each["started"]) for each in status["containerStatuses"])
    return (status["phase"], conditions, containers)
