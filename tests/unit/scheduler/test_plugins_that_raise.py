"""A plugin that raises, at each extension point: its pod's attempt fails, nothing stays kept, and others are placed.

Each case makes one method of one plugin raise for pods labelled `bad`. When the plugin is mended, the bad pod is placed
as well: nobody has forgotten it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from scheduler_volume_rig import SchedulerRig

from support.scheduling_sight import in_flight
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import EVERY_EVENT, QUEUE
from tonnage.scheduling.framework import (
    SKIP,
    SUCCESS,
    BindPlugin,
    Code,
    Cycle,
    FilterPlugin,
    Judgement,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    Rows,
    ScorePlugin,
    Status,
    refuse,
    unschedulable,
)
from tonnage.testing.builders import node, pod

ASKED_FIRST = "bind: {disabled: [{name: DefaultBinder}], enabled: [{name: Raising}, {name: DefaultBinder}]}"
BROKEN = "a plugin failed; see the scheduler's log"


class Keeper(ReservePlugin):
    """Keeps something for every pod that is on its way."""

    name = "Keeper"
    kept: ClassVar[set[str]] = set()

    def __init__(self, args: Any) -> None:
        self.kept.clear()

    def reserve(self, cycle: Cycle, node_name: str) -> Status:
        self.kept.add(cycle.pod.key)
        return SUCCESS

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        self.kept.discard(cycle.pod.key)


class KeeperBehind(Keeper):
    """The same, asked after the plugin that raises."""

    name = "KeeperBehind"
    kept: ClassVar[set[str]] = set()


class Quiet(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """Has nothing to say, and refuses pods labelled `bad` in the methods that `refusing` names."""

    normalizes = True
    refusing: ClassVar[set[str]] = set()
    preempting: ClassVar[bool] = False

    def __init__(self, args: Any) -> None: ...

    def status(self, method: str, pod: PodInfo) -> Status:
        return unschedulable(f"not by {method}") if method in self.refusing and "bad" in pod.labels else SUCCESS

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return SUCCESS

    def pre_filter(self, cycle: Cycle) -> None:
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        if self.status("filter", cycle.pod).is_success:
            return None
        return refuse(np.ones(len(cycle.cluster.exists[rows]), dtype=np.bool_), "not here", unresolvable=False)

    def refusal_note(self, cycle: Cycle, refused: Any) -> str:
        return ""

    def post_filter(self, cycle: Cycle, diagnosis: Any) -> PostFilterResult:
        victims = tuple(each for row in cycle.cluster.residents for each in row.values())
        return PostFilterResult(SUCCESS, "a", victims) if self.preempting else PostFilterResult(unschedulable())

    def pre_score(self, cycle: Cycle) -> None:
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Any:
        return np.ones(len(cycle.cluster.exists[rows]), dtype=np.int64)

    def normalize(self, cycle: Cycle, scores: Any) -> Any:
        return scores

    def reserve(self, cycle: Cycle, node_name: str) -> Status:
        return self.status("reserve", cycle.pod)

    def unreserve(self, cycle: Cycle, node_name: str) -> None: ...

    def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
        return self.status("permit", cycle.pod), 0.0

    def pre_bind_pre_flight(self, cycle: Cycle, node_name: str) -> Status:
        return SUCCESS

    async def pre_bind(self, cycle: Cycle, node_name: str, api: Any) -> Status:
        return self.status("pre_bind", cycle.pod)

    async def bind(self, cycle: Cycle, node_name: str, api: Any) -> Status:
        return SKIP

    def post_bind(self, cycle: Cycle, node_name: str) -> None: ...

    def counters(self) -> Any:
        return ()

    def events_to_record(self, cycle: Cycle) -> Any:
        return ()

    def events(self) -> Any:
        return [(EVERY_EVENT, self.hint)]

    def hint(self, pod: PodInfo, event: Any, old: Any, new: Any) -> Any:
        return QUEUE

    def sign(self, pod: PodInfo, cluster: Any) -> Hashable:
        return "alike"

    def reach(self, cluster: Any, event: Any, changed: Any) -> Any:
        return None


class Raising(Quiet):
    """Breaks in the methods that `breaking` names, for pods labelled `bad`: it raises, or answers with nonsense."""

    name = "Raising"
    breaking: ClassVar[set[str]] = set()
    nonsense: ClassVar[Any] = None
    """What it answers; it raises when that is None."""
    broke: ClassVar[int] = 0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in type(self).breaking:
            return found

        def break_down(*given: Any) -> Any:
            pods = [getattr(each, "pod", each) if isinstance(each, Cycle) else each for each in given]
            if any(isinstance(each, PodInfo) and "bad" not in each.labels for each in pods):
                return found(*given)
            Raising.broke += 1
            if Raising.nonsense is None:
                raise RuntimeError(f"{name} is broken")
            return Raising.nonsense

        async def break_down_later(*given: Any) -> Any:
            answer = break_down(*given)
            return await answer if isinstance(answer, Awaitable) else answer

        return break_down_later if name in ("pre_bind", "bind") else break_down


@pytest.fixture(autouse=True)
def mended() -> None:
    mend()


def mend() -> None:
    Raising.breaking, Raising.refusing, Raising.preempting, Raising.nonsense = set(), set(), False, None
    Raising.broke = 0


CASES: Mapping[str, str] = {
    "pre_enqueue": "",
    "pre_filter": "",
    "filter": "",
    "refusal_note": "filter",
    "post_filter": "filter",
    "pre_score": "",
    "score": "",
    "normalize": "",
    "reserve": "",
    "unreserve": "permit",
    "unreserve after reserve": "reserve",
    "unreserve after pre_bind": "pre_bind",
    "permit": "",
    "pre_bind_pre_flight": "",
    "pre_bind": "",
    "bind": "",
    "post_bind": "",
    "counters": "",
    "events": "filter",
    "events_to_record": "filter",
    "hint": "filter",
    "sign": "filter",
    "reach": "filter",
}
"""What breaks -> where the pod is refused, so that it comes to that."""
ODD_ANSWERS = dict.fromkeys(("pre_filter", "filter", "post_filter", "pre_score", "reserve", "permit"), 42) | {
    "permit (a wait without an end)": (Status(Code.WAIT), None),
    "pre_bind_pre_flight": 42,
    "pre_bind": 42,
    "bind": 42,
    "pre_enqueue": 42,
    "events": [("Node", None)],
    "events_to_record": 42,
    "sign": ["a list"],
}


@pytest.mark.parametrize("case", CASES)
async def test_a_plugin_that_raises_fails_its_pod_alone(case: str):
    await plays(case, None)


@pytest.mark.parametrize("case", ODD_ANSWERS)
async def test_so_does_one_that_answers_nonsense(case: str):
    await plays(case.partition(" ")[0], ODD_ANSWERS[case])


async def plays(case: str, nonsense: Any) -> None:
    method = case.partition(" ")[0]
    Raising.breaking, Raising.refusing, Raising.nonsense = {method}, {CASES[case]}, nonsense
    Raising.preempting = method.startswith("preemption")
    rig = SchedulerRig(
        node("a", cpu="4"), node("b", cpu="4"), plugins=(Keeper, Raising, KeeperBehind), points=ASKED_FIRST
    )
    async with rig.running() as loop:
        rig.add(pod("first", cpu="1"))
        await rig.settle(1.0)
        rig.add(pod("bad", cpu="1", labels={"bad": ""}), pod("alike", cpu="1", labels={"bad": ""}))
        await rig.settle(1.0)
        rig.add(node("c", cpu="4"))
        rig.metric("scheduler_schedule_attempts_total", result="error", profile="default-scheduler")
        await rig.settle(1.0)
        rig.add(pod("good", cpu="1"))
        await rig.settle(1.0)
        assert Raising.broke, "nothing broke"
        assert not loop.done()
        assert "default/good" in rig.bound
        is_harmless = method in ("post_bind", "counters")
        assert ("default/bad" in rig.bound) is is_harmless
        untidy = (len(rig.assumed), len(rig.waiting), rig.slots.taken, rig.slots.resting, in_flight(rig.queue))
        assert untidy == (0, 0, 0, 0, [])
        # What was kept for a pod that is bound stays kept, as the plugin has it.
        assert Keeper.kept == KeeperBehind.kept == set(rig.bound)
        assert rig.cluster.requested[0].sum() == 1000 * len([key for key in rig.bound if rig.pod(key) is not None])

        mend()
        rig.add(node("d", cpu="4"))
        await rig.settle(400.0)
        assert {"default/bad", "default/alike"} <= set(rig.bound)
        assert rig.metric("tonnage_scheduling_exceptions_total", where="attempt") is None


async def test_people_are_told_that_a_plugin_failed():
    Raising.breaking = {"permit"}
    rig = SchedulerRig(node("a"), plugins=(Raising,))
    async with rig.running():
        rig.add(pod("bad", labels={"bad": ""}))
        await rig.settle()
        assert rig.conditions == [("default/bad", "SchedulerError", BROKEN)]
        result = {"result": "error", "profile": "default-scheduler"}
        assert rig.metric("scheduler_schedule_attempts_total", **result) == 1.0


class BySize(QueueSortPlugin):
    """The smallest first. It has no key for a pod labelled `bad`, and one that compares with no other for `odd`."""

    name = "BySize"

    def __init__(self, args: Any) -> None: ...

    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        if "bad" in pod.labels:
            raise RuntimeError("no key")
        return "odd" if "odd" in pod.labels else int(pod.labels["size"])


async def test_pods_whose_sort_key_raises_are_tried_after_the_others():
    points = "queueSort: {disabled: [{name: '*'}], enabled: [{name: BySize}]}"
    rig = SchedulerRig(plugins=(BySize,), points=points)
    bad = [pod(f"bad-{number}", labels={"bad": ""}) for number in range(2)]
    sized = [pod(f"sized-{size}", labels={"size": str(size)}) for size in (3, 1, 2)]
    rig.add(*bad, *sized, node("a"))
    async with rig.running():
        await rig.settle()
    assert list(rig.bound) == [f"default/{name}" for name in ("sized-1", "sized-2", "sized-3", "bad-0", "bad-1")]


async def test_pods_whose_sort_keys_cannot_be_compared_are_all_tried():
    points = "queueSort: {disabled: [{name: '*'}], enabled: [{name: BySize}]}"
    rig = SchedulerRig(plugins=(BySize,), points=points)
    odd = [pod(f"odd-{number}", labels={"odd": ""}) for number in range(3)]
    sized = [pod(f"sized-{size}", labels={"size": str(size)}) for size in (3, 1, 2)]
    rig.add(*(each for pair in zip(odd, sized, strict=True) for each in pair), node("a"))
    async with rig.running():
        await rig.settle()
        assert set(rig.bound) == {each.key for each in (*odd, *sized)}


def test_an_attempt_that_cannot_be_explained_has_failed():
    Raising.breaking = {"account"}
    rig = SchedulerRig(node("a"), pod("bad", labels={"bad": ""}), plugins=(Raising,))
    queued = rig.engine.pop()
    assert queued is not None
    attempt = rig.engine.attempt(queued, explains=True)
    assert (attempt.placement, attempt.status.message, len(rig.assumed)) == (None, BROKEN, 0)
