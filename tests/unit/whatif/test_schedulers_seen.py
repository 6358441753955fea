"""Which schedulers a cluster shows to run, and what is said of pods that nobody schedules."""

from __future__ import annotations

import asyncio
import io
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.virtual_clock import VirtualClock
from tonnage.clock import rfc3339
from tonnage.errors import Forbidden
from tonnage.gates import Gates
from tonnage.objects.apps_v1 import ReplicaSet, ReplicaSetSpec
from tonnage.objects.codec import ObjectList
from tonnage.objects.core_v1 import Event, Pod
from tonnage.objects.meta import MicroTime, Object, ObjectMeta
from tonnage.objects.small_groups import Lease, LeaseSpec
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import claim
from tonnage.whatif.creation import Creation
from tonnage.whatif.doctor.examination import examine
from tonnage.whatif.doctor.facts import Facts
from tonnage.whatif.explain import DecisionSequence, decided_on
from tonnage.whatif.explain_report import print_explanation
from tonnage.whatif.fit.fitting import asked_workload, fitted
from tonnage.whatif.page import TextPage
from tonnage.whatif.pending.pending import PendingQuestion, print_pending
from tonnage.whatif.schedulers_seen import SchedulersSeen, schedulers_of, seen_in
from tonnage.whatif.simulate.played_cluster import PlayedCluster
from tonnage.whatif.sources import ClusterState

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
NOT_SEEN = "no scheduler named other seems to run"


DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def ago(minutes: float) -> MicroTime:
    return MicroTime.fromtimestamp((NOW - timedelta(minutes=minutes)).timestamp(), UTC)


def asks(name: str = "waits", *, since: float = 10, tried: float | None = None, **spec: Any) -> Pod:
    """A pod for scheduler `other`, created and first tried so many minutes ago."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    told = [] if tried is None else [{**condition, "lastTransitionTime": rfc3339(ago(tried))}]
    return pod(
        name,
        spec={"schedulerName": "other", **spec},
        metadata={"creationTimestamp": rfc3339(ago(since))},
        status={"conditions": told},
    )


def bound(minutes: float, by: str = "other", **metadata: Any) -> Pod:
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(ago(minutes))}
    return pod("runs", on="a", spec={"schedulerName": by}, status={"conditions": [condition]}, metadata=metadata)


def lease(name: str, renewed: float, holder: str = "host_1") -> Lease:
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, renew_time=ago(renewed))
    return Lease(metadata=ObjectMeta(name=name, namespace="kube-system"), spec=spec)


def scheduled(by: str, minutes: float) -> Event:
    return Event(reason="Scheduled", reporting_component=by, event_time=ago(minutes))


@pytest.mark.parametrize(
    ("objects", "leases", "events", "running", "why"),
    [
        pytest.param([asks()], [], [], (), NOT_SEEN, id="nothing shows it"),
        pytest.param([asks()], None, [], (), NOT_SEEN, id="leases may not be read, and it was never tried"),
        pytest.param([asks(since=0.1)], None, [], (), "", id="a new pod, and leases may not be read"),
        pytest.param([], [], [], (), NOT_SEEN, id="for a pod to come"),
        pytest.param([asks()], [], [], ("other",), "", id="a scheduler says so"),
        pytest.param([asks()], [lease("other", 0.1)], [], (), "", id="a lease of the name"),
        pytest.param([asks()], [lease("other-scheduler", 0.1)], [], (), "", id="a lease of the name's scheduler"),
        pytest.param(
            [asks()],
            [lease("kube-scheduler", 0.1), lease("apiserver-wlv32", 0.1), lease("kube-controller-manager", 0.1)],
            [],
            (),
            f"{NOT_SEEN} (default-scheduler is)",
            id="another's lease, and leases of programs that schedule nothing",
        ),
        pytest.param(
            [asks(tried=9)],
            [lease("other", 5)],
            [],
            (),
            "the lease of scheduler other ran out at 2026-11-01T11:55:15Z",
            id="its lease ran out after it tried the pod",
        ),
        pytest.param([asks(tried=1)], [lease("other", 5)], [], (), "", id="it has worked since without a lease"),
        pytest.param(
            [asks(tried=9)],
            [lease("other", 5, holder="")],
            [],
            (),
            "the lease of scheduler other ran out at 2026-11-01T11:55:00Z",
            id="it has let its lease go",
        ),
        pytest.param([asks(tried=9)], [lease("other", 0.5)], [], (), "", id="somebody takes the lease over"),
        pytest.param([asks(tried=9)], [], [], (), "", id="it was tried"),
        pytest.param(
            [asks(volumes=[DATA]), claim("data", selected_node="a")], [], [], (), "", id="its volume is being made"
        ),
        pytest.param(
            [asks(volumes=[DATA]), claim("data", selected_node="a", volume="pv")],
            [],
            [],
            (),
            NOT_SEEN,
            id="its volume was made for a pod before it",
        ),
        pytest.param([asks(), bound(5)], [], [], (), "", id="another pod was placed since"),
        pytest.param(
            [asks(), bound(20)],
            [],
            [],
            (),
            "scheduler other is silent since 2026-11-01T11:40:00Z: newer pods were never tried",
            id="the last pod was placed before this one was created",
        ),
        pytest.param(
            [asks("old", since=30, tried=29), asks("new", since=10)],
            [],
            [],
            (),
            "scheduler other is silent since 2026-11-01T11:31:00Z: newer pods were never tried",
            id="an older pod was tried, and none since",
        ),
        pytest.param([asks(since=0.1), bound(20)], [], [], (), "", id="it had no time yet"),
        pytest.param([asks()], [], [scheduled("other", 5)], (), "", id="an event since"),
        pytest.param(
            [asks(), bound(5, annotations={"kubernetes.io/config.mirror": "x"})],
            [],
            [],
            (),
            NOT_SEEN,
            id="a static pod",
        ),
        pytest.param(
            [asks(schedulingGates=[{"name": "x.io/q"}]), bound(20)], [], [], (), "", id="a gated pod is never tried"
        ),
    ],
)
def test_who_schedules_is_read_off_the_cluster(objects, leases, events, running, why):
    assert seen_in(objects, leases, events, now=NOW, running=running).nobody("other") == why


def test_the_default_scheduler_is_doubted_only_where_pods_or_its_lease_show_it():
    assert seen_in([], [], now=NOW).nobody("default-scheduler") == ""
    waits = asks(schedulerName="default-scheduler")
    assert seen_in([waits], [], now=NOW).nobody("default-scheduler") == (
        "no scheduler named default-scheduler seems to run"
    )
    gone = seen_in([], [lease("kube-scheduler", 5)], now=NOW).nobody("default-scheduler")
    assert gone == "the lease of scheduler default-scheduler ran out at 2026-11-01T11:55:15Z"


def test_of_files_nothing_is_said():
    assert SchedulersSeen().nobody("other") == ""


class _Server:
    """Lists leases and events; without them it refuses."""

    def __init__(self, leases: list[Lease] | None, events: list[Event] | None) -> None:
        self.clock = VirtualClock(NOW)
        self.known: dict[type[Object], Any] = {Lease: leases, Event: events}
        self.asked: list[str] = []

    async def list(self, cls: type[Object], *, field_selector: str, retry: bool) -> Any:
        self.asked.append(field_selector)
        if self.known[cls] is None:
            raise Forbidden("it is forbidden")
        return ObjectList(tuple(self.known[cls]), "1")


def asked(server: _Server, *objects: Object) -> str:
    return asyncio.run(schedulers_of(server, objects)).nobody("other")  # type: ignore[arg-type]


def test_a_live_cluster_is_asked_for_events_only_about_names_without_another_sign():
    shown = _Server([lease("other", 0.1)], [])
    assert asked(shown, asks()) == ""
    assert shown.asked == ["metadata.namespace!=kube-node-lease"]
    doubted = _Server([], [scheduled("other", 5)])
    assert asked(doubted, asks()) == ""
    assert doubted.asked[1:] == ["reason=Scheduled,source=other"]


def test_what_may_not_be_read_is_not_known():
    assert asked(_Server(None, None), asks(since=0.1)) == ""
    assert asked(_Server(None, None), asks()) == NOT_SEEN, "nobody has tried it for ten minutes"


# -- everywhere a pod is explained ------------------------------------------------------------------------------------


def state_of(*objects: Object) -> ClusterState:
    return ClusterState(objects, "the test", VirtualClock(NOW), schedulers=seen_in(objects, [], now=NOW))


def sequence(state: ClusterState) -> DecisionSequence:
    return DecisionSequence(state, default_configuration(), is_default=True)


def test_explain_says_that_nobody_schedules_it_and_where_it_would_go():
    waits = asks()
    found, _ = decided_on(waits, state_of(node("a"), waits), default_configuration(), is_default=True)
    assert not found.schedulable
    assert found.document()["node"] is None and found.document()["heldBack"] == NOT_SEEN
    assert found.document()["message"] == f"not tried: {NOT_SEEN}; otherwise: fits on 1 of 1 nodes"
    out = io.StringIO()
    print_explanation(found, {}, TextPage(out))
    assert out.getvalue().startswith(f"default/waits is not tried: {NOT_SEEN}\notherwise it would go to a\n")


def test_pods_that_nobody_schedules_fit_never_now_and_take_no_room():
    # a has 4 cpus: the first pod would take 3 of them if anybody placed it, and the second needs 2.
    waits = asks(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}])
    state = state_of(node("a", cpu="4"), waits, pod("ours", cpu="2", metadata={"creationTimestamp": rfc3339(NOW)}))
    for explains_all in (False, True):
        question = PendingQuestion(state, sequence(state), explains_all=explains_all)
        question.decide()
        question.try_changes()
        answer = question.answer()
        assert [each.message for each in answer.groups] == [
            "1 pod has no scheduler: none named other seems to run",
            "1 pod fits now",
        ]
        entry = next(each for each in answer.document() if each["pod"] == "default/waits")
        assert (entry["schedulable"], entry["cause"]["kind"], entry["cause"]["about"]) == (False, "nobody", "other")
        assert not answer.helps
        out = io.StringIO()
        print_pending(answer, TextPage(out))
        assert out.getvalue().startswith(
            "2 pods are pending: 1 already fits and should start soon, 1 has no scheduler\n"
        )


def test_fit_says_that_nobody_schedules_the_workload():
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"schedulerName": "other"}}
    wanted = ReplicaSetSpec(replicas=2, template=template)
    web = ReplicaSet(metadata=ObjectMeta(name="web", namespace="default", uid="u-web"), spec=wanted)
    state, configuration = state_of(node("a"), web), default_configuration()
    question = asked_workload(state, Creation(Gates()), "rs/web", "default")
    answer = fitted(
        question,
        lambda luck: PlayedCluster(state, configuration.profiles, luck=luck),
        most=10,
        phase=lambda name: nullcontext(lambda amount: None),
    )
    assert answer.text == f"0 more fit: {NOT_SEEN}; room for 0 of 2 replicas"
    assert answer.document()["stops"] == [{"reason": NOT_SEEN, "nodes": 1}]
    assert answer.document()["wouldHelp"] == []


def test_a_configuration_that_was_given_is_somebody():
    waits = asks()
    state = state_of(node("a"), waits)
    assert DecisionSequence(state, default_configuration(), is_default=False).nobody_schedules(waits) == ""


def test_doctor_finds_pods_that_nobody_schedules():
    state = state_of(node("a"), asks())
    found = examine(Facts.of_state(state, is_live=True), state, default_configuration())
    pending = next(each for each in found.findings if each.name == "pods-pending")
    assert pending.message == "1 pod has no scheduler: none named other seems to run"
    assert pending.remedy == (
        "start a scheduler with a profile named other, or create the pods again with the schedulerName of one that runs"
    )
    assert "pods-would-stop-pending" not in {each.name for each in found.findings}
