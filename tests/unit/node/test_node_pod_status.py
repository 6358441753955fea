"""A pod's status as its kubelet writes it: each patch is applied as a server does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tonnage.clock import rfc3339
from tonnage.documents.patches.strategic_merge import strategic_merge
from tonnage.documents.schema import schema_of
from tonnage.node.pods.containers import next_change_s
from tonnage.node.pods.status import came_at, creating_patch, pod_ip, rejected_patch, running_patch, terminated_patch
from tonnage.objects.codec import convert, to_doc
from tonnage.objects.core_v1 import Pod
from tonnage.objects.document import Doc
from tonnage.testing.builders import pod

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
SCHEMA = schema_of("", "v1", "Pod")
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(NOW)}


def bound(**spec: Any) -> Pod:
    return pod(
        "p", on="node-1", spec=spec, status={"phase": "Pending", "conditions": [SCHEDULED], "qosClass": "Burstable"}
    )


def after(found: Pod, patch: Doc | None) -> Pod:
    assert patch is not None and patch["metadata"] == {"uid": found.uid}
    doc = strategic_merge(SCHEMA, {"apiVersion": "v1", **to_doc(found)}, {"status": patch["status"]})
    return convert(Pod, doc)


def with_condition(found: Pod, condition: Doc) -> Pod:
    """As it is when somebody else has said this of it."""
    patch = {"status": {"conditions": [condition]}}
    return convert(Pod, strategic_merge(SCHEMA, {"apiVersion": "v1", **to_doc(found)}, patch))


def running(found: Pod, now: datetime = NOW) -> Pod:
    return after(found, running_patch(found, host_ip="127.0.0.1", pod_ip="10.1.2.3", now=now))


def says(found: Pod) -> dict[str, tuple[str, str, str]]:
    return {each.type: (each.status, each.reason, each.message) for each in found.status.conditions}


UNREADY = ("False", "ContainersNotReady", "containers with unready status: [main]")


def test_a_pod_whose_volumes_are_on_their_way_is_being_created():
    found = after(bound(), creating_patch(bound(), host_ip="127.0.0.1", now=NOW))
    assert (found.status.phase, found.status.start_time, found.status.host_ip) == ("Pending", NOW, "127.0.0.1")
    (container,) = found.status.container_statuses
    assert container.state.waiting is not None and container.state.waiting.reason == "ContainerCreating"
    assert says(found) == {
        "PodScheduled": ("True", "", ""),
        "PodReadyToStartContainers": ("False", "", ""),
        "Initialized": ("True", "", ""),
        "Ready": UNREADY,
        "ContainersReady": UNREADY,
    }
    assert creating_patch(found, host_ip="127.0.0.1", now=LATER) is None


def test_a_pod_whose_volumes_are_there_runs():
    found = running(after(bound(), creating_patch(bound(), host_ip="127.0.0.1", now=NOW)), LATER)
    assert (found.status.phase, found.status.pod_ip, found.status.qos_class) == ("Running", "10.1.2.3", "Burstable")
    assert found.status.start_time == NOW
    (container,) = found.status.container_statuses
    assert container.ready and container.started and container.state.running is not None
    assert container.state.running.started_at == LATER
    assert {type_ for type_, said in says(found).items() if said == ("True", "", "")} == {
        "PodScheduled",
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
    }
    assert running_patch(found, host_ip="127.0.0.1", pod_ip="10.9.9.9", now=LATER) is None


def test_a_ready_that_somebody_took_away_is_given_back_and_the_container_keeps_its_start():
    found = running(bound())
    taken = with_condition(found, {"type": "Ready", "status": "False", "reason": "NodeNotReady"})
    again = running(taken, LATER)
    assert says(again)["Ready"] == ("True", "", "")
    assert again.status.pod_ip == "10.1.2.3"
    state = again.status.container_statuses[0].state
    assert state.running is not None and state.running.started_at == NOW


def test_a_readiness_gate_keeps_a_running_pod_from_being_ready():
    found = running(bound(readinessGates=[{"conditionType": "x/lb"}]))
    assert says(found)["Ready"] == (
        "False",
        "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "x/lb" does not exist.',
    )
    assert says(found)["ContainersReady"] == ("True", "", "")


def test_an_open_readiness_gate_makes_a_running_pod_ready_and_a_closed_one_takes_it_back():
    gate = {"type": "x/lb", "status": "True"}
    found = running(with_condition(bound(readinessGates=[{"conditionType": "x/lb"}]), gate))
    assert says(found)["Ready"] == ("True", "", "")
    closed = running(with_condition(found, {**gate, "status": "False"}), LATER)
    assert says(closed)["Ready"] == (
        "False",
        "ReadinessGatesNotReady",
        'the status of pod readiness gate "x/lb" is not "True", but False',
    )
    assert says(closed)["x/lb"] == ("False", "", "")  # what others say of a pod is theirs


def probed(name: str = "main", *, delay_s: int = 0, startup_s: int = 0, threshold: int = 1) -> Doc:
    return {
        "name": name,
        "image": "i",
        "readinessProbe": {"initialDelaySeconds": delay_s, "periodSeconds": 5, "successThreshold": threshold},
        **({"startupProbe": {"initialDelaySeconds": startup_s}} if startup_s else {}),
    }


def test_a_container_is_ready_when_the_delay_of_its_probe_has_passed():
    found = running(bound(containers=[probed(delay_s=20)]))
    assert (found.status.phase, says(found)["Ready"], says(found)["ContainersReady"]) == ("Running", UNREADY, UNREADY)
    (container,) = found.status.container_statuses
    assert container.started and not container.ready
    assert next_change_s(found, NOW + timedelta(seconds=5)) == 15.0
    early = running_patch(found, host_ip="127.0.0.1", pod_ip="", now=NOW + timedelta(seconds=19))
    assert early is None
    ready = running(found, NOW + timedelta(seconds=20))
    assert says(ready)["Ready"] == says(ready)["ContainersReady"] == ("True", "", "")
    assert next_change_s(ready, LATER) is None


def test_one_container_is_ready_before_the_other():
    found = running(bound(containers=[probed("one", delay_s=10), probed("two", delay_s=20)]))
    half = running(found, NOW + timedelta(seconds=10))
    assert [each.ready for each in half.status.container_statuses] == [True, False]
    assert says(half)["Ready"][2] == "containers with unready status: [two]"


def test_a_startup_probe_comes_first_and_more_successes_take_a_period_each():
    # started after 8 s; ready after max(3, 8) + (3 - 1) * 5 = 18 s.
    found = running(bound(containers=[probed(delay_s=3, startup_s=8, threshold=3)]))
    assert not found.status.container_statuses[0].started
    assert next_change_s(found, NOW) == 8.0
    later = running(found, NOW + timedelta(seconds=8))
    assert later.status.container_statuses[0].started and not later.status.container_statuses[0].ready
    assert next_change_s(later, NOW + timedelta(seconds=8)) == 10.0


def test_init_containers_have_completed_and_sidecars_run():
    init = [{"name": "first", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}]
    creating = after(bound(initContainers=init), creating_patch(bound(initContainers=init), host_ip="", now=NOW))
    assert says(creating)["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [first side]",
    )
    first, side = running(creating).status.init_container_statuses
    assert first.state.terminated is not None and first.state.terminated.reason == "Completed"
    assert side.state.running is not None


def test_a_pod_that_ends_has_containers_that_ended_and_is_not_ready():
    found = running(bound())
    ended = after(found, terminated_patch(found, now=LATER))
    state = ended.status.container_statuses[0].state
    assert state.terminated is not None and state.running is None
    assert (state.terminated.started_at, state.terminated.finished_at) == (NOW, LATER)
    assert says(ended)["Ready"] == UNREADY
    assert terminated_patch(ended, now=LATER) is None


def test_a_pod_that_never_ran_has_nothing_to_end():
    assert terminated_patch(bound(), now=NOW) is None
    creating = after(bound(), creating_patch(bound(), host_ip="", now=NOW))
    assert terminated_patch(creating, now=LATER) is None


def test_a_rejected_pod_has_failed_and_keeps_only_what_others_said_of_it():
    creating = after(bound(), creating_patch(bound(), host_ip="127.0.0.1", now=NOW))
    found = after(creating, rejected_patch(creating, reason="Because", message="of this"))
    status = found.status
    assert (status.phase, status.reason, status.message) == ("Failed", "Because", "Pod was rejected: of this")
    assert says(found) == {"PodScheduled": ("True", "", "")}
    assert (status.container_statuses, status.start_time, status.host_ip) == ((), None, "")
    assert status.qos_class == "Burstable"


def test_a_pod_came_when_it_was_bound():
    assert came_at(bound(), now=LATER) == NOW
    assert came_at(pod("p", on="node-1"), now=LATER) == LATER


def test_addresses_are_the_same_for_the_same_pod_and_never_taken_twice():
    first = pod_ip("uid-1", set())
    assert first == pod_ip("uid-1", set()) and first.startswith("10.")
    assert pod_ip("uid-1", {first}) not in ("", first)
