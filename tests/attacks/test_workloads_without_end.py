"""Numbers that nobody can carry out: `replicas: 2147483647` and its relatives cost what exists, not what they say.

The plans are asked directly; what is measured is the number of steps, or the processor's time of this thread. One test
lets real controllers run beside a real server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.workload_builders import (
    NOW,
    a_pod,
    cron_job,
    deployment,
    job,
    job_pod,
    member,
    replica_set,
    stateful_set,
)
from support.workload_stage import WorkloadStage, stage_in, workload
from tonnage.behaviour.workloads import cron_plan, deployment_status, replica_set_plan, rollout
from tonnage.behaviour.workloads.job_plan import account, counted, manage, verdict_of
from tonnage.behaviour.workloads.replica_set_plan import missing_replicas
from tonnage.behaviour.workloads.stateful_set_plan import Create, ObservedState, PodStep, plan, status_of
from tonnage.controllers.dependency_graph import DependencyGraph, Item
from tonnage.objects.apps_v1 import StatefulSet
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import OwnerReference
from tonnage.objects.resources import BY_PLURAL
from tonnage.objects.texts.cron_schedule import parse_schedule

HUGE = 2**31 - 1
A_ROUND = 500
MAPS = BY_PLURAL["", "configmaps"]


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    started_at = time.thread_time()
    work()
    return time.thread_time() - started_at


# -- StatefulSets ------------------------------------------------------------------------------------------------------


def steps(owner: StatefulSet, *pods: Pod) -> list[Any]:
    observed = ObservedState("db-1", "db-1", NOW)
    assert status_of(owner, pods, observed, 0).replicas == len(pods)
    return plan(owner, pods, observed)


def test_a_stateful_set_without_end_is_made_in_rounds() -> None:
    ordered, parallel = stateful_set("db", HUGE), stateful_set("db", HUGE, parallel=True)
    assert steps(ordered) == [Create(0, "db-1")]
    there = [member(ordered, n, "db-1", ready=True) for n in (0, 1, 3)]
    assert steps(ordered, *there) == [Create(2, "db-1")]
    assert [step.ordinal for step in steps(parallel, *there)] == [2, *range(4, A_ROUND + 3)]
    # A pod and three claims each: 500 / 4 ordinals in a round.
    claims = [{"metadata": {"name": f"c{n}"}, "spec": {}} for n in range(3)]
    assert len(steps(stateful_set("db", HUGE, parallel=True, volumeClaimTemplates=claims))) == A_ROUND // 4


@pytest.mark.parametrize("start", [HUGE - 1, HUGE])
def test_ordinals_end_where_a_pods_name_can_no_longer_tell_them(start: int) -> None:
    owner = stateful_set("db", HUGE, parallel=True, ordinals={"start": start})
    assert [step.ordinal for step in steps(owner)] == list(range(start, HUGE + 1))


@pytest.mark.parametrize("partition", [0, 1, HUGE - 2, HUGE])
def test_an_update_looks_at_the_highest_pods_alone(partition: int) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    owner = stateful_set("db", HUGE, parallel=True, updateStrategy=strategy)
    pods = [member(owner, n, "old", ready=True) for n in (0, HUGE - 1)]
    # The highest one is of another revision: it goes, unless the partition keeps it.
    gone = [step.pod.name for step in steps(owner, *pods) if isinstance(step, PodStep) and step.verb == "delete"]
    assert gone == ([f"db-{HUGE - 1}"] if partition < HUGE else [])


# -- ReplicaSets and Deployments ---------------------------------------------------------------------------------------


def test_of_many_pods_a_round_of_them_goes_without_sorting_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """16,000 pods, 500 to go: 0.8 s and 200,000 comparisons when all of them were sorted."""
    pods = [a_pod(f"p{n}", on="node-1", ready=True, ready_for_s=n * 7919 % 99_991) for n in range(16_000)]
    assert missing_replicas(pods, HUGE) == -missing_replicas(pods, 0) == A_ROUND
    compared = 0
    compare = replica_set_plan._compare

    def counting(*arguments: Any) -> int:
        nonlocal compared
        compared += 1
        return compare(*arguments)

    monkeypatch.setattr(replica_set_plan, "_compare", counting)
    assert len(replica_set_plan.pods_to_delete(pods, pods, A_ROUND, NOW)) == A_ROUND
    assert compared < 4 * len(pods)


@pytest.mark.parametrize("surge", ["100%", "25%", HUGE])
def test_sums_of_replicas_stay_what_an_api_server_stores(surge: int | str) -> None:
    limits = {"maxSurge": surge, "maxUnavailable": 0}
    found = deployment("web", HUGE, strategy={"type": "RollingUpdate", "rollingUpdate": limits})
    noted = {rollout.DESIRED_REPLICAS: "4", rollout.MAX_REPLICAS: "5"}
    olds = [replica_set(f"web-{n}", 2, image=f"app:{n}", annotations=noted) for n in range(2)]
    sizes = rollout.scaled(found, None, olds)
    assert sizes
    assert max(sizes.values()) <= HUGE
    grown = [replica_set(f"web-{n}", HUGE, available=0) for n in range(2)]
    assert deployment_status.calculate_status(found, grown, None, NOW).unavailable_replicas == HUGE


# -- Jobs --------------------------------------------------------------------------------------------------------------


def test_an_indexed_job_without_end_is_made_in_rounds() -> None:
    everything = f"0-{HUGE - 1}"
    policy = {"rules": [{"succeededIndexes": everything}, {"succeededIndexes": everything, "succeededCount": HUGE - 1}]}
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": HUGE,
        "parallelism": 100_000,
        "successPolicy": policy,
    }
    pods = [job_pod(f"p{n}", "Succeeded", index=n) for n in range(3)]
    found = job(**spec, status={"completedIndexes": f"5-{HUGE - 10}", "succeeded": HUGE - 14})
    count = counted(found, pods)
    assert (len(count.done), verdict_of(found, pods, count, NOW)) == (HUGE - 11, None)
    assert manage(found, pods, count, NOW).indexes == [3, 4, *range(HUGE - 9, HUGE)]
    written, _ = account(found, pods, count, is_ending=False)
    assert (written.completed_indexes, written.succeeded) == (f"0-2,5-{HUGE - 10}", HUGE - 11)
    assert manage(job(**spec), [], counted(job(**spec), []), NOW).indexes == list(range(A_ROUND))
    plain = job(completions=HUGE, parallelism=HUGE)
    assert manage(plain, [], counted(plain, []), NOW).create == A_ROUND


class CountedSchedule:
    """A schedule, and how often it was asked for its next time."""

    def __init__(self, text: str) -> None:
        self._schedule = parse_schedule(text)
        self.every_s = self._schedule.every_s
        self.asked = 0

    def next_after(self, *arguments: Any) -> Any:
        self.asked += 1
        return self._schedule.next_after(*arguments)


@pytest.mark.parametrize("text", ["@every 1s", "* * * * *", "* * 1 1 *", "* * 1-30 3 *", "0 0 29 2 *", "59 23 31 12 *"])
@pytest.mark.parametrize("since", ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2024-01-01T00:00:00Z"])
@pytest.mark.parametrize("deadline_s", [None, 2**31, 2**63 - 1])
def test_times_missed_for_years_are_not_gone_through(text: str, since: str, deadline_s: int | None) -> None:
    found = cron_job(text, startingDeadlineSeconds=deadline_s, status={"lastScheduleTime": since})
    schedule: Any = CountedSchedule(text)
    zone = cron_plan.zone_of(found)
    assert zone is not None
    due = cron_plan.due_time(found, schedule, zone, NOW)
    # Halving two thousand years comes down to a second after 36 times.
    assert schedule.asked <= 40
    assert due.at is not None
    following = parse_schedule(text).next_after(due.at, zone)
    assert due.at <= NOW
    assert following is None or following > NOW
    assert not cron_plan.is_too_late(found, due.at, NOW)


def test_a_last_time_at_the_end_of_time_is_no_error() -> None:
    found = cron_job("* * * * *", status={"lastScheduleTime": "9999-12-31T23:59:59Z"})
    zone = cron_plan.zone_of(found)
    assert zone is not None
    # A clock was set back, by thousands of years: the schedule goes on from the last minute.
    assert cron_plan.due_time(found, parse_schedule("* * * * *"), zone, NOW) == cron_plan.Due(NOW, 1)


# -- the garbage collector's graph -------------------------------------------------------------------------------------


def owned(uid: str, owners: int, *, blocks: bool = True) -> Item:
    references = (
        OwnerReference(api_version="v1", kind="ConfigMap", name=f"o{n}", uid=f"o{n}", block_owner_deletion=blocks)
        for n in range(owners)
    )
    return Item(MAPS, "default", uid, uid, tuple(references))


def test_objects_with_thousands_of_owners_cost_their_references() -> None:
    """6 objects of 4,000 owners each, which come after them: 19 s when all references were gone through each time."""

    def work() -> None:
        graph = DependencyGraph()
        for n in range(6):
            graph.put(owned(f"d{n}", 4_000))
        for n in range(4_000):
            graph.put(Item(MAPS, "default", f"o{n}", f"o{n}"))
        for n in range(6):
            graph.put(owned(f"d{n}", 4_000, blocks=False))

    assert seconds(work) < 1.5


def test_an_owner_of_many_dependents_is_looked_at_once_when_the_last_is_gone() -> None:
    graph = DependencyGraph()
    graph.put(Item(MAPS, "default", "o0", "o0"))
    for n in range(10_000):
        graph.put(owned(f"d{n}", 1))
    assert len(graph.put(Item(MAPS, "default", "o0", "o0", (), True, False, True))) == 10_001
    queued = [graph.remove(f"d{n}") for n in range(10_000)]
    assert [len(each) for each in queued] == [0] * 9_999 + [1]


# -- beside a server ---------------------------------------------------------------------------------------------------


async def test_workloads_without_end_do_not_hold_up_the_others_and_can_be_deleted(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        stage.kubelet.holds_back = lambda pod: not pod.name.startswith(("web", "db"))
        await stage.create("apps/v1", "StatefulSet", "ordered", workload(HUGE, app="o", serviceName="x"))
        more: dict[str, Any] = {"serviceName": "x", "podManagementPolicy": "Parallel", "ordinals": {"start": HUGE - 2}}
        await stage.create("apps/v1", "StatefulSet", "parallel", workload(HUGE, app="p", **more))
        await stage.create("apps/v1", "StatefulSet", "db", workload(2, app="db", serviceName="x"))
        await stage.create("apps/v1", "Deployment", "web", workload(2))
        await stage.until_rolled_out("web")
        await stage.until_ready("db", 2)
        await _until_made(stage, "ordered-0", f"parallel-{HUGE - 2}", f"parallel-{HUGE}")
        for name in ("ordered", "parallel"):
            await stage.client.delete(StatefulSet, f"default/{name}")
        await stage.client.patch(StatefulSet, "default/db", {"spec": {"replicas": 3}})
        await stage.until_ready("db", 3)
        assert not {pod.name for pod in await stage.pods()} & {"ordered-1", f"parallel-{HUGE + 1}"}


async def _until_made(stage: WorkloadStage, *names: str) -> None:
    async def are_there() -> bool:
        return set(names) <= {pod.name for pod in await stage.pods()}

    await stage.until(are_there)
