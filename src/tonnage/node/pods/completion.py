"""When the containers of a Job's pod end, and how: nothing runs here, so that a pod's own words have to say it.

    tonnage.dev/run-seconds: "30"     on the pod: how long its containers run; without it, one second
    tonnage.dev/exit-code: "1"        how they end; without it, well

Only pods that a Job controls ever end by themselves; all others run until they are deleted. With restartPolicy Never a
pod whose containers fail is Failed; with OnFailure its containers are started again, after pauses that double from ten
seconds to five minutes, as a kubelet does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.objects.core_v1 import Pod
from tonnage.objects.texts.whole_numbers import whole_number

RUN_SECONDS: Final = "tonnage.dev/run-seconds"
EXIT_CODE: Final = "tonnage.dev/exit-code"

_DEFAULT_RUN_S: Final = 1.0
_MAX_RUN_S: Final = 10.0 * 365 * 24 * 3600
_FIRST_RESTART_S, _MAX_RESTART_S = 10.0, 300.0
"""A kubelet's CrashLoopBackOff."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How the run of a pod's containers ends, and in how many seconds; what has ended already has 0 or less."""

    left_s: float
    exit_code: int
    is_final: bool
    """The pod ends with it; else its containers are started again."""


def ending_of(pod: Pod, now: datetime) -> Ending | None:
    """None for a pod that runs until it is deleted, and for one that does not run yet."""
    controller = pod.metadata.controller
    if controller is None or controller.kind != "Job" or not controller.api_version.startswith("batch/"):
        return None
    starts = [each.state.running.started_at for each in pod.status.container_statuses if each.state.running]
    if pod.status.phase != "Running" or not starts or None in starts:
        return None
    started_at = max(each for each in starts if each is not None)
    exit_code = exit_code_of(pod)
    is_final = exit_code == 0 or pod.spec.restart_policy != "OnFailure"
    restarts = max((each.restart_count for each in pod.status.container_statuses), default=0)
    pause_s = min(_FIRST_RESTART_S * float(2 ** min(restarts - 1, 10)), _MAX_RESTART_S) if restarts else 0.0
    left_s = run_seconds_of(pod) + pause_s - (now - started_at).total_seconds()
    return Ending(left_s, exit_code, is_final)


def run_seconds_of(pod: Pod) -> float:
    """What the pod says, if it is a number of seconds."""
    text = pod.metadata.annotations.get(RUN_SECONDS, "")
    whole, dot, fraction = text.partition(".")
    is_number = text.isascii() and whole.isdecimal() and (fraction.isdecimal() if dot else True) and len(text) < 20
    return min(float(text), _MAX_RUN_S) if is_number else _DEFAULT_RUN_S


def exit_code_of(pod: Pod) -> int:
    """What the pod says, if it is a code that a process can have."""
    text = pod.metadata.annotations.get(EXIT_CODE, "")
    code = whole_number(text) if text.isascii() and text.isdecimal() else 0
    return code if 0 <= code <= 255 else 0
