"""When containers are ready and when they end. Nothing runs here, so annotations and commands decide.

    tonnage.dev/run-seconds: "30"     on a Job's pod: how long its containers run
    tonnage.dev/exit-code: "1"        how they end

Without these, plain commands are understood (`sleep 30`, `false`, `sh -c "sleep 5; exit 3"`), the image `pause` runs
for ever, and everything else runs for a second and succeeds. Failed containers are restarted as by a kubelet. Probes
succeed after their delays. Pods without a Job run until they are deleted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tonnage.objects.core_v1 import Container, Pod
from tonnage.quantity import whole_number

RUN_SECONDS: Final = "tonnage.dev/run-seconds"
EXIT_CODE: Final = "tonnage.dev/exit-code"

_DEFAULT_RUN_S: Final = 1.0
_MOST_SCRIPT: Final = 200
_SCRIPT: Final = re.compile(r"(?:sleep (?P<sleep>[0-9.]+|infinity))?\s*(?:;|&&)?\s*(?:exit (?P<code>[0-9]{1,3}))?")
_MAX_RUN_S: Final = 10.0 * 365 * 24 * 3600
_FIRST_RESTART_S, _MAX_RESTART_S = 10.0, 300.0
"""A kubelet's CrashLoopBackOff."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a pod's containers end, and in how many seconds; 0 or less if they have ended."""

    left_s: float
    exit_code: int
    is_final: bool
    """The pod ends too; otherwise its containers are restarted."""


def ending_of(pod: Pod, now: datetime) -> Ending | None:
    """None for a pod that runs until it is deleted, and for a pod that does not run yet."""
    controller = pod.metadata.controller
    if controller is None or controller.kind != "Job" or not controller.api_version.startswith("batch/"):
        return None
    starts = [statuse.state.running.started_at for statuse in pod.status.container_statuses if statuse.state.running]
    if pod.status.phase != "Running" or not starts or None in starts:
        return None
    started_at = max(each for each in starts if each is not None)
    words = [_word_of(container) for container in pod.spec.containers]
    # Annotations go first, if they can be understood; then the longest command, and the first exit code that is not 0.
    run_s = _seconds(pod.metadata.annotations.get(RUN_SECONDS, ""))
    if run_s is None:
        run_s = max((seconds for seconds, _ in words), default=_DEFAULT_RUN_S)
    exit_code = _code(pod.metadata.annotations.get(EXIT_CODE, ""))
    if exit_code is None:
        exit_code = next((code for _, code in words if code), 0)
    is_final = exit_code == 0 or pod.spec.restart_policy != "OnFailure"
    restarts = max((container_status.restart_count for container_status in pod.status.container_statuses), default=0)
    pause_s = min(_FIRST_RESTART_S * float(2 ** min(restarts - 1, 10)), _MAX_RESTART_S) if restarts else 0.0
    left_s = min(run_s, _MAX_RUN_S) + pause_s - (now - started_at).total_seconds()
    return Ending(left_s, exit_code, is_final)


def _word_of(container: Container) -> tuple[float, int]:
    """(seconds, exit code) of a container, as far as its command tells."""
    words = (*container.command, *container.args)
    if not words:
        is_pause = container.image.rpartition("/")[2].partition(":")[0] == "pause"
        return (_MAX_RUN_S if is_pause else _DEFAULT_RUN_S), 0
    program = words[0].rpartition("/")[2]
    if program == "sleep" and len(words) == 2:
        return _slept(words[1]), 0
    if program in ("true", "false") and len(words) == 1:
        return _DEFAULT_RUN_S, int(program == "false")
    if program in ("sh", "bash") and len(words) == 3 and words[1] == "-c" and len(words[2]) < _MOST_SCRIPT:
        found = _SCRIPT.fullmatch(words[2].strip())
        if found is not None and (found["sleep"] or found["code"]):
            return (_slept(found["sleep"]) if found["sleep"] else _DEFAULT_RUN_S), _code(found["code"] or "0") or 0
    return _DEFAULT_RUN_S, 0


def _slept(text: str) -> float:
    told = _seconds(text)
    return _MAX_RUN_S if told is None and text == "infinity" else _DEFAULT_RUN_S if told is None else told


def _seconds(text: str) -> float | None:
    whole, dot, fraction = text.partition(".")
    is_number = text.isascii() and whole.isdecimal() and (fraction.isdecimal() if dot else True) and len(text) < 20
    return float(text) if is_number else None


def _code(text: str) -> int | None:
    code = whole_number(text) if text.isascii() and text.isdecimal() else None
    return code if code is not None and code <= 255 else None


def started_at(pod: Pod, container: Container) -> datetime | None:
    """When a container was last started, by the status; None if it does not run."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    was = next((container_status for container_status in statuses if container_status.name == container.name), None)
    return was.state.running.started_at if was is not None and was.state.running is not None else None


def startup_delay_s(container: Container) -> int:
    """Seconds after its start until a container counts as started."""
    return container.startup_probe.initial_delay_seconds if container.startup_probe is not None else 0


def readiness_delay_s(container: Container) -> int:
    """Seconds after its start until a container is ready."""
    probe = container.readiness_probe
    if probe is None:
        return startup_delay_s(container)
    first_s = max(probe.initial_delay_seconds, startup_delay_s(container))
    return first_s + (probe.success_threshold - 1) * probe.period_seconds


def has_passed(delay_s: int, since: datetime | None, now: datetime) -> bool:
    """True if `delay_s` has passed since the container's start; None is a start just now."""
    return delay_s == 0 or (since is not None and since + timedelta(seconds=delay_s) <= now)


def kept_running(pod: Pod) -> tuple[Container, ...]:
    """The containers whose readiness is the pod's: sidecars first, as upstream lists them."""
    return (*(container for container in pod.spec.init_containers if container.is_sidecar), *pod.spec.containers)


def unready(pod: Pod, now: datetime) -> list[str]:
    return [
        each.name for each in kept_running(pod) if not has_passed(readiness_delay_s(each), started_at(pod, each), now)
    ]


def next_change_s(pod: Pod, now: datetime) -> float | None:
    """Seconds until the next container is started or ready; None if no container will change."""
    due = [
        since + timedelta(seconds=delay_s)
        for container in kept_running(pod)
        if (since := started_at(pod, container)) is not None
        for delay_s in (startup_delay_s(container), readiness_delay_s(container))
    ]
    return min(((at - now).total_seconds() for at in due if at > now), default=None)
