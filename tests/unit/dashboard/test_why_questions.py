"""Why pods wait and where they go, as the page asks: the same answers as the commands give on the same cluster."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.filled_cluster import FilledCluster
from tonnage.cli.explain import explain
from tonnage.clock import SystemClock
from tonnage.dashboard.questions import cluster_questions as pending_module
from tonnage.dashboard.questions.asking import Asking, QuestionLimit
from tonnage.dashboard.questions.cluster_questions import PendingAnswers
from tonnage.dashboard.questions.pod_story import explained, pod_story
from tonnage.dashboard.wire import LaneRow, PodStep
from tonnage.errors import TonnageError
from tonnage.objects import codec
from tonnage.objects.codec import resource_of
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import attachment, capacity, claim, driver, pod_with, storage_class, volume
from tonnage.whatif.pending.pending import PendingQuestion
from tonnage.whatif.scheduler_memory import AssumedPod, NominatedPod, RememberedCapacity, SchedulerMemory

CREATED = {"creationTimestamp": "2026-11-15T02:00:00Z"}
CLOCK = SystemClock()


@pytest.fixture(scope="module")
def asking() -> Asking:
    return Asking()


def full_cluster() -> list[Object]:
    """Two nodes, of which neither has room for db's 200Gi; web fits."""
    return [
        driver(),
        storage_class(),
        *(each for name in ("a", "b") for each in (node(name), capacity(node=name, pools=["100Gi", "80Gi"]))),
        claim("data", "200Gi"),
        claim("small", "10Gi"),
        pod_with("db", "data", metadata=CREATED),
        pod_with("web", "small", metadata=CREATED),
    ]


def shown(*objects: Object) -> FilledCluster:
    cluster = FilledCluster(clock=CLOCK)
    cluster.put(*objects)
    return cluster


def written(folder: Path, objects: list[Object]) -> str:
    """The objects as a file of manifests."""
    documents = []
    for each in objects:
        resource = resource_of(type(each))
        documents.append({**codec.to_doc(each), "apiVersion": resource.api_version, "kind": resource.kind})
    file = folder / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    return str(file)


# -- explanations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["db", "web"])
async def test_an_explanation_is_what_the_command_answers(name, asking, tmp_path):
    objects = full_cluster()
    told = json.loads(await explained(shown(*objects), asking, f"default/{name}"))
    command = CliRunner().invoke(explain, ["-f", written(tmp_path, objects), "--pod", f"default/{name}", "-o", "json"])
    assert told["answer"] == json.loads(command.stdout)


async def test_an_explanation_says_what_scores_were_multiplied_by(asking):
    told = json.loads(await explained(shown(*full_cluster()), asking, "default/web"))
    assert told["weights"]["TaintToleration"] == 3
    assert set(told["answer"]["nodes"][0]["scores"]) <= set(told["weights"])


async def test_refused_nodes_are_told_together_with_the_nearest_of_them(asking):
    told = json.loads(await explained(shown(*full_cluster()), asking, "default/db"))
    (group,) = told["refused"]
    assert (group["rejectedBy"], group["nodes"]) == ("VolumeBinding", 2)
    assert (group["nearestNode"], group["nearestMiss"]) == ("a", "largest free pool 100Gi, needs 200Gi")


async def test_a_pod_of_another_scheduler_is_noted(asking):
    cluster = shown(node("a"), pod("p", spec={"schedulerName": "other"}))
    told = json.loads(await explained(cluster, asking, "default/p"))
    assert told["notes"] == ["default/p asks for schedulerName other; this is what the default plugins decide"]


async def test_a_pod_that_is_not_there_is_an_error_with_those_that_may_be_meant(asking):
    with pytest.raises(TonnageError, match='there is no pod "default/wbe"') as raised:
        await explained(shown(*full_cluster()), asking, "default/wbe")
    assert raised.value.hint == "did you mean default/web?"


async def test_a_scheduler_that_does_not_answer_is_noted_and_no_failure(asking):
    class Silent(FilledCluster):
        async def memory(self) -> SchedulerMemory | None:
            raise TonnageError("nobody is at home")

    cluster = Silent(clock=CLOCK)
    cluster.put(*full_cluster())
    told = json.loads(await explained(cluster, asking, "default/web"))
    assert told["notes"][0].startswith("the scheduler cannot be asked: nobody is at home, so its reservations")


# -- what waits -------------------------------------------------------------------------------------------------------


async def test_what_waits_is_told_by_cause_with_the_nearest_miss_and_what_helps(asking):
    answers = PendingAnswers(shown(*full_cluster()), asking)
    told = await settled(answers)
    waiting, fitting = told["groups"]
    assert waiting["message"] == "1 pod waits for 200Gi of class fast"
    assert waiting["nearestMiss"] == {"node": "a", "told": "largest free pool 100Gi, needs 200Gi"}
    assert waiting["wouldHelp"][:2] == [
        {"change": "100Gi instead of 200Gi for claim default/data", "pods": 1},
        {"change": "one more pool of 200Gi of class fast on a", "pods": 1},
    ]
    assert waiting["pods"] == [{"pod": "default/db", "state": "pending", "since": "2026-11-15T02:00:00Z"}]
    assert fitting["fits"] and fitting["pods"][0]["node"] in ("a", "b")
    assert (told["count"], told["decided"], told["partial"], told["working"]) == (2, 2, False, False)


async def test_all_that_waits_is_what_the_command_answers(asking, tmp_path):
    objects = full_cluster()
    answers = PendingAnswers(shown(*objects), asking)
    command = CliRunner().invoke(explain, ["-f", written(tmp_path, objects), "--pending", "-o", "json"])
    of_command = json.loads(command.stdout)
    assert json.loads(await answers.whole()) == of_command
    told = await settled(answers)
    causes = {pod["pod"]: (group["cause"], group["message"]) for group in told["groups"] for pod in group["pods"]}
    assert causes == {
        each["pod"]: ({key: each["cause"][key] for key in ("kind", "about", "where")}, each["cause"]["message"])
        for each in of_command
    }
    assert told["wouldHelp"] == next(each["wouldHelp"] for each in of_command if each["pod"] == "default/db")


async def test_a_change_is_told_with_the_next_answer_and_not_before_its_time(asking, monkeypatch):
    cluster = shown(*full_cluster())
    answers = PendingAnswers(cluster, asking)
    first = await settled(answers)
    cluster.put(capacity(node="a", pools=["300Gi"]))
    assert json.loads(await answers.latest())["revision"] == first["revision"]  # 2 s have not gone by
    monkeypatch.setattr(pending_module, "PAUSE_S", 0.0)
    cluster.clock = Later(3600)
    assert json.loads(await answers.latest())["working"]
    second = await settled(answers)
    assert second["revision"] == cluster.collections.revision
    assert [each["message"] for each in second["groups"]] == ["2 pods fit now"]


async def test_work_that_takes_too_long_is_ended_and_says_how_far_it_came(asking, monkeypatch):
    monkeypatch.setattr(pending_module, "DECIDE_S", 0.0)
    told = await settled(PendingAnswers(shown(*full_cluster()), asking))
    assert told["partial"]
    assert told["decided"] < told["count"] == 2


async def test_changes_go_on_streaming_while_what_waits_is_worked_out(asking, monkeypatch):
    cluster, may_end = shown(*full_cluster()), threading.Event()
    decide = PendingQuestion.decide

    def held_up(question: PendingQuestion, step: Any) -> None:
        may_end.wait(10)
        decide(question, step)

    monkeypatch.setattr(PendingQuestion, "decide", held_up)
    answer = asyncio.create_task(PendingAnswers(cluster, asking).latest())
    follower = cluster.collections.follow()
    follower.take()
    await asyncio.sleep(0)
    cluster.put(node("new"))
    await follower.is_changed.wait()
    assert "new" in json.loads(follower.take())["set"]["nodes"]
    assert not answer.done()
    may_end.set()
    assert json.loads(await answer)["count"] == 2


async def test_a_question_that_somebody_waits_for_goes_before_what_is_kept_up_to_date():
    asking = Asking()
    began, may_end, ended = threading.Event(), threading.Event(), list[str]()

    def kept(limit: QuestionLimit) -> None:
        limit.check()
        ended.append("kept")

    def first(limit: QuestionLimit) -> None:
        began.set()
        may_end.wait(10)
        ended.append("answered")

    asked = asyncio.create_task(asking.answer(first))
    await asyncio.to_thread(began.wait)
    behind = asyncio.create_task(asking.keep(kept))
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(asked, behind)
    assert ended == ["answered", "kept"]


async def settled(answers: PendingAnswers) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(await answers.latest())
    while told["working"]:
        await asyncio.sleep(0.01)
        told = json.loads(await answers.latest())
    return told


class Later(SystemClock):
    """The machine's clock, so much later."""

    def __init__(self, by_s: float) -> None:
        self._by_s = by_s

    def monotonic(self) -> float:
        return super().monotonic() + self._by_s


# -- a pod's story ----------------------------------------------------------------------------------------------------


async def test_a_story_tells_a_promise_of_shared_pools_once_of_the_claims_own_class():
    cluster = shown(
        *(storage_class(name, group="disks") for name in ("fast", "slow")),
        *(capacity(name, "a", "100Gi") for name in ("fast", "slow")),
        *(node("a"), claim("data", "20Gi", class_name="slow"), pod_with("db", "data")),
    )
    held = [
        RememberedCapacity(
            Reservation.LEDGER, f"kube-system/{name}-a", "u", "default/db", ["default/data"], 5, CLOCK.now(), ""
        )
        for name in ("fast", "slow")
    ]
    cluster.model.remember(SchedulerMemory(held=held))
    told = json.loads(await pod_story(cluster, "default/db"))
    for part in (told, told["claims"][0]):
        assert [each["capacity"] for each in part["held"]] == ["kube-system/slow-a"]


async def test_a_story_has_the_pod_its_claims_what_is_kept_for_it_and_its_steps():
    waiting = pod_with(
        "db",
        "data",
        cpu="500m",
        memory="1Gi",
        metadata=CREATED,
        status={"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes"}]},
    )
    cluster = shown(
        node("a"),
        storage_class(),
        claim("data", "20Gi", volume="pv-1"),
        volume("pv-1", "20Gi", on="a", claim="default/data"),
        attachment("va", "pv-1", "a", error="device is busy"),
        waiting,
    )
    at = CLOCK.now()
    cluster.model.remember(
        SchedulerMemory(
            held=[
                RememberedCapacity(
                    Reservation.LEDGER, "kube-system/c", "u", "default/db", ["default/data"], 5, at, "why"
                )
            ],
            pods=[AssumedPod("default/db", waiting.uid, "a")],
            nominations=[NominatedPod("a", "default/db", waiting.uid, True, at)],
        )
    )
    steps = (PodStep(at=at, kind="decided", text="goes to a", node="a", source="scheduler"),)
    cluster.collections.put("lanes", waiting.uid, LaneRow(pod="default/db", steps=steps))
    told = json.loads(await pod_story(cluster, "default/db"))
    assert (told["uid"], told["assumed"], told["phase"]) == (waiting.uid, "a", "Pending")
    assert told["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert told["conditions"][0]["message"] == "0/2 nodes"
    assert told["held"][0]["capacity"] == "kube-system/c" and told["nominations"][0]["holds"]
    (data,) = told["claims"]
    assert data["row"]["volume"] == "pv-1" and data["row"]["node"] == "a"
    assert [(each["node"], each["error"]) for each in data["attachments"]] == [("a", "device is busy")]
    assert [each["kind"] for each in told["steps"]] == ["decided"]


async def test_a_pod_that_is_gone_is_told_by_its_steps():
    cluster = shown(node("a"))
    at = CLOCK.now()
    cluster.collections.put(
        "lanes", "u1", LaneRow(pod="default/gone", steps=(PodStep(at=at, kind="deleted", text="deleted"),), done=True)
    )
    told = json.loads(await pod_story(cluster, "default/gone"))
    assert (told["uid"], told["done"], told["steps"][0]["kind"]) == ("", True, "deleted")
    with pytest.raises(TonnageError, match='nothing is known of a pod "default/never"'):
        await pod_story(cluster, "default/never")


async def test_events_that_cannot_be_read_are_noted():
    class Blind(FilledCluster):
        async def events_of(self, *about):
            raise TonnageError("events is forbidden")

    cluster = Blind(clock=CLOCK)
    cluster.put(pod("p"))
    told = json.loads(await pod_story(cluster, "default/p"))
    assert told["notes"] == ["Events cannot be read: events is forbidden"]


async def test_the_choice_among_equals_does_not_depend_on_who_came_first(asking, tmp_path):
    nodes = [node(f"n{number}") for number in range(8)]
    command = CliRunner().invoke(
        explain, ["-f", written(tmp_path, [*nodes, pod("p")]), "--pod", "default/p", "-o", "json"]
    )
    told = json.loads(await explained(shown(pod("p"), *reversed(nodes)), asking, "default/p"))
    assert told["answer"]["node"] == json.loads(command.stdout)["node"]
