"""Whatever the server refuses and in whatever order victims go: nobody is lost, and nothing is held for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_volume_rig import SchedulerRig

from examples_tried import tries
from tonnage.errors import Conflict, Forbidden, InternalError, NotFound, TonnageError
from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.events import EVERY_EVENT
from tonnage.scheduling.framework import Code, Cycle, EventHint, PermitPlugin, Status
from tonnage.scheduling.preemption.preemption import DefaultPreemption
from tonnage.testing.builders import node, pod

failures = st.lists(
    st.sampled_from([InternalError("away"), Forbidden("no"), NotFound("gone"), Conflict("another")]), max_size=4
)
priorities = st.integers(0, 3)


class Sometimes(PermitPlugin):
    """Holds pods labelled `hold` for a while."""

    name = "Sometimes"

    def __init__(self, args: Any) -> None: ...

    def permit(self, cycle: Cycle, node_name: str) -> tuple[Status, float]:
        return (Status(Code.WAIT), 5.0) if "hold" in cycle.pod.labels else (Status(), 0.0)

    def events(self) -> Iterable[EventHint]:
        return ((EVERY_EVENT, None),)


@given(
    residents=st.lists(priorities, min_size=1, max_size=3),
    newcomers=st.lists(st.tuples(priorities, st.integers(0, 3), st.booleans()), min_size=1, max_size=5),
    status=failures,
    delete=failures,
    is_graceful=st.booleans(),
    is_shown=st.booleans(),
)
@settings(max_examples=tries(40), deadline=None)
def test_the_most_important_pods_have_the_nodes_in_the_end(
    residents: list[int],
    newcomers: list[tuple[int, int, bool]],
    status: list[TonnageError],
    delete: list[TonnageError],
    is_graceful: bool,
    is_shown: bool,
) -> None:
    async def run() -> None:
        # Every pod fills a node, so that who is there can be counted by hand.
        rig = SchedulerRig(plugins=[Sometimes], is_shown=is_shown, is_graceful=is_graceful)
        for i, priority in enumerate(residents):
            rig.add(node(f"n{i}", cpu="1"), pod(f"resident-{i}", cpu="1", on=f"n{i}", priority=priority))
        rig.refuse_status, rig.refuse_delete = list(status), list(delete)
        async with rig.running():
            for i, (priority, after_s, is_held) in enumerate(newcomers):
                labels = {"hold": ""} if is_held else {}
                rig.add(pod(f"new-{i}", cpu="1", priority=priority, labels=labels))
                await rig.settle(float(after_s))
            for _ in range(18):
                await rig.settle(15.0)
                for found in [each for each in rig.objects.values() if isinstance(each, Pod)]:
                    if found.metadata.is_terminating:
                        rig.delete(Pod, found.key)
                    elif "hold" in found.metadata.labels:
                        rig.change(Pod, found.key, {"metadata": {"labels": {"hold": None}}})
        pods = [each for each in rig.objects.values() if isinstance(each, Pod)]
        # A server that says "gone" of a pod that is there is not believed for ever: it is asked again.
        placed = sorted((each.spec.priority for each in pods if each.spec.node_name), reverse=True)
        waiting = sorted((each.spec.priority for each in pods if not each.spec.node_name), reverse=True)
        assert len(placed) == min(len(residents), len(pods)), "a node stays empty while somebody waits"
        assert not waiting or waiting[0] <= placed[-1], "somebody lesser has a node"
        (plugin,) = [each for each in rig.profile.post_filter if isinstance(each, DefaultPreemption)]
        assert plugin.preempting == set() and rig.slots.taken == rig.slots.resting == len(rig.waits) == 0
        known = {queued.uid for queue in rig.queue.pending_pods() for queued in rig.queue.pods_in(queue)}
        assert known == {each.metadata.uid for each in pods if not each.spec.node_name}
        assert set(rig.queue.nominator._node_of) <= known

    asyncio.run(run())
