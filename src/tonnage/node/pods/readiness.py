"""When a container is ready: its probes' delays, since whatever a probe asks of a container here, the answer is yes.

    start ──► startup probe: initialDelaySeconds ──► started ──► readiness probe: its own delay since the start, and
                                                                 a period for each success beyond the first ──► ready

Nothing runs on these nodes, so that no probe can fail; but a pod whose probe is not due yet is Running and not ready,
as on any cluster, and budgets, rollouts and StatefulSets wait for it. Mirrors the worker of pkg/kubelet/prober.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from tonnage.objects.core_v1 import Container, Pod


def started_at(pod: Pod, container: Container) -> datetime | None:
    """When a container was last said to have been started; None when it does not run."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    was = next((each for each in statuses if each.name == container.name), None)
    return was.state.running.started_at if was is not None and was.state.running is not None else None


def startup_delay_s(container: Container) -> int:
    """How long after its start a container counts as started."""
    return container.startup_probe.initial_delay_seconds if container.startup_probe is not None else 0


def readiness_delay_s(container: Container) -> int:
    """How long after its start a container is ready."""
    probe = container.readiness_probe
    if probe is None:
        return startup_delay_s(container)
    first_s = max(probe.initial_delay_seconds, startup_delay_s(container))
    return first_s + (probe.success_threshold - 1) * probe.period_seconds


def has_passed(delay_s: int, since: datetime | None, now: datetime) -> bool:
    """Whether a container that was started then, or just now, has waited that long."""
    return delay_s == 0 or (since is not None and since + timedelta(seconds=delay_s) <= now)


def kept_running(pod: Pod) -> tuple[Container, ...]:
    """The containers whose readiness is the pod's: sidecars first, as upstream lists them."""
    return (*(each for each in pod.spec.init_containers if each.is_sidecar), *pod.spec.containers)


def unready(pod: Pod, now: datetime) -> list[str]:
    """The names of the running containers that are not ready yet."""
    return [
        each.name for each in kept_running(pod) if not has_passed(readiness_delay_s(each), started_at(pod, each), now)
    ]


def next_change_s(pod: Pod, now: datetime) -> float | None:
    """Seconds until the next container is started or ready; None when none is on its way."""
    return min(_left_s(pod, kept_running(pod), now), default=None)


def _left_s(pod: Pod, containers: Iterable[Container], now: datetime) -> list[float]:
    due = [
        since + timedelta(seconds=delay_s)
        for each in containers
        if (since := started_at(pod, each)) is not None
        for delay_s in (startup_delay_s(each), readiness_delay_s(each))
    ]
    return [(at - now).total_seconds() for at in due if at > now]
