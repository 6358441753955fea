"""The one word a pod's STATUS comes down to, and the counts beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tonnage.apiserver.tables import pods
from tonnage.objects.document import Doc

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
RUNNING: Doc = {"running": {"startedAt": "2026-03-01T11:00:00Z"}}


def container(name: str = "c", *, state: Doc | None = None, ready: bool = False, **more: Any) -> Doc:
    return {"name": name, "ready": ready, "restartCount": 0, "state": state or {}, **more}


def waiting(reason: str) -> Doc:
    return {"waiting": {"reason": reason}}


def ended(exit_code: int = 0, **more: Any) -> Doc:
    return {"terminated": {"exitCode": exit_code, **more}}


def pod(*statuses: Doc, inits: tuple[Doc, ...] = (), init_specs: tuple[Doc, ...] = (), **status: Any) -> Doc:
    spec: Doc = {"containers": [{"name": found["name"]} for found in statuses] or [{"name": "c"}]}
    if inits:
        spec["initContainers"] = list(init_specs) or [{"name": found["name"]} for found in inits]
        status["initContainerStatuses"] = list(inits)
    return {"metadata": {"name": "web-0"}, "spec": spec, "status": {"containerStatuses": list(statuses), **status}}


def condition(kind: str, status: str = "True", **more: str) -> Doc:
    return {"type": kind, "status": status, **more}


def test_a_pod_without_container_statuses_shows_its_phase() -> None:
    assert pods.status({"spec": {}, "status": {"phase": "Pending"}}, NOW) == "Pending"


def test_a_reason_goes_before_the_phase() -> None:
    assert pods.status({"spec": {}, "status": {"phase": "Failed", "reason": "Evicted"}}, NOW) == "Evicted"


def test_a_gated_pod_says_so() -> None:
    gated = pod(phase="Pending", conditions=[condition("PodScheduled", "False", reason="SchedulingGated")])
    assert pods.status(gated, NOW) == "SchedulingGated"


def test_the_first_container_has_the_last_word() -> None:
    made = pod(container("a", state=waiting("CrashLoopBackOff")), container("b", state=waiting("ImagePullBackOff")))
    assert pods.status(made, NOW) == "CrashLoopBackOff"


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (ended(2, reason="Error"), "Error"),
        (ended(137, signal=9), "Signal:9"),
        (ended(3), "ExitCode:3"),
        (ended(0), "ExitCode:0"),
    ],
)
def test_an_ended_container_shows_reason_then_signal_then_exit_code(state: Doc, shown: str) -> None:
    assert pods.status(pod(container(state=state), phase="Failed"), NOW) == shown


@pytest.mark.parametrize(
    ("other", "conditions", "shown"),
    [
        (container("b", state=RUNNING, ready=True), [condition("Ready")], "Running"),
        (container("b", state=RUNNING, ready=True), [condition("Ready", "False")], "NotReady"),
        (container("b", state=ended(1, reason="Error")), [], "Error"),
        (container("b", state=ended(0, reason="Completed")), [], "Completed"),
    ],
)
def test_a_completed_container_leaves_the_word_to_the_others(other: Doc, conditions: list[Doc], shown: str) -> None:
    made = pod(container("a", state=ended(0, reason="Completed")), other, phase="Running", conditions=conditions)
    assert pods.status(made, NOW) == shown


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (RUNNING, "Init:1/2"),
        (waiting("PodInitializing"), "Init:1/2"),
        (waiting("CrashLoopBackOff"), "Init:CrashLoopBackOff"),
        (ended(1, reason="Error"), "Init:Error"),
        (ended(137, signal=9), "Init:Signal:9"),
        (ended(5), "Init:ExitCode:5"),
    ],
)
def test_an_init_container_at_work_hides_the_containers(state: Doc, shown: str) -> None:
    made = pod(
        container(state=waiting("PodInitializing")),
        inits=(container("i0", state=ended(0)), container("i1", state=state)),
        phase="Pending",
    )
    assert pods.status(made, NOW) == shown


def test_init_containers_run_again_do_not_matter_once_the_pod_is_initialized() -> None:
    made = pod(
        container(state=RUNNING, ready=True),
        inits=(container("i0", state=RUNNING, restartCount=9),),
        phase="Running",
        conditions=[condition("Initialized"), condition("Ready")],
    )
    # The Init: word stays, as upstream leaves it, but the counts are those of the containers alone.
    assert pods.status(made, NOW) == "Init:0/1"
    assert pods.ready(made, NOW) == "1/1"
    assert pods.restarts(made, NOW) == "0"


def test_sidecars_count_as_containers_in_ready_and_in_restarts() -> None:
    last = {"terminated": {"exitCode": 1, "finishedAt": "2026-03-01T11:50:00Z"}}
    made = pod(
        container(state=RUNNING, ready=True, restartCount=1),
        inits=(
            container("proxy", state=RUNNING, ready=True, started=True, restartCount=2, lastState=last),
            container("setup", state=ended(0), restartCount=5),
        ),
        init_specs=({"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"}),
        phase="Running",
    )
    # 1 container + 1 sidecar; 1 + 2 restarts, those of `setup` are over; 12:00 - 11:50 = 10 min
    assert pods.ready(made, NOW) == "2/2"
    assert pods.restarts(made, NOW) == "3 (10m ago)"


def test_restarts_name_the_latest_end_of_any_container() -> None:
    def restarted(name: str, at: str) -> Doc:
        return container(
            name, state=RUNNING, restartCount=1, lastState={"terminated": {"exitCode": 1, "finishedAt": at}}
        )

    made = pod(restarted("a", "2026-03-01T11:58:00Z"), restarted("b", "2026-03-01T11:59:30Z"), phase="Running")
    assert pods.restarts(made, NOW) == "2 (30s ago)"


def test_restarts_without_a_date_are_a_bare_number() -> None:
    assert pods.restarts(pod(container(state=RUNNING, restartCount=4)), NOW) == "4"


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Failed"}, "Failed"),
    ],
)
def test_a_deleted_pod_is_terminating_unless_it_has_ended_or_its_node_is_lost(status: Doc, shown: str) -> None:
    made = {"metadata": {"deletionTimestamp": "2026-03-01T12:00:30Z"}, "spec": {}, "status": status}
    assert pods.status(made, NOW) == shown


def test_the_address_is_pod_ip_or_the_first_of_pod_ips() -> None:
    assert pods.ip({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}, NOW) == "10.0.0.1"
    assert pods.ip({"status": {"podIP": "10.0.0.2"}}, NOW) == "10.0.0.2"
    assert pods.ip({"status": {}}, NOW) == "<none>"


def test_readiness_gates_count_the_conditions_that_are_true() -> None:
    made = {
        "spec": {"readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]},
        "status": {"conditions": [condition("a"), condition("b", "False")]},
    }
    assert pods.readiness_gates(made, NOW) == "1/3"
    assert pods.readiness_gates({"spec": {}}, NOW) == "<none>"


def test_only_pods_that_have_run_their_course_mark_their_row() -> None:
    assert pods.completed({"status": {"phase": "Running"}}) == []
    assert pods.completed({"status": {"phase": "Failed"}}) == [
        {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    ]
