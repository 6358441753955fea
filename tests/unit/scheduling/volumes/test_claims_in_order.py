"""PreBind sends claims one after the other where the order decides, to a driver that picks pools, simulated.

What was written when is read off the objects as the API has them; the driver takes half a second for a volume and
publishes its figures a second later.
"""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from support.configurations import storage_configuration
from tonnage.gates import Gates
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.framework import Status
from tonnage.scheduling.queue.waiting_pods import QueuedPod
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class
from tonnage.whatif.simulate.disks import DriverSettings, StorageSettings
from tonnage.whatif.simulate.measures import Measures
from tonnage.whatif.simulate.scheduler_loop import patched
from tonnage.whatif.simulate.world import World
from tonnage.whatif.simulate.world_state import WorldSettings
from tonnage.whatif.sources import ClusterState, clock_of

T = TypeVar("T", bound=Object)


class Play:
    """One node, its pools, and a driver of some policy; `sent` are the claims in the order they got their node."""

    def __init__(
        self, *pools: int, pick: str = "most-free", policy: str = "", settings: Any = None, **args: str
    ) -> None:
        free = [f"{each}Gi" for each in pools]
        objects = [
            *(node("a"), storage_class(), driver()),
            capacity("fast", "a", f"{sum(pools)}Gi", pools=free),
        ]
        profiles = parse(storage_configuration(**args), source="a test", gates=Gates()).profiles
        chosen = DriverSettings(pick=PoolPolicy(pick), **(settings or {}))
        self.measures = Measures()
        self.world = World(
            ClusterState(objects, "the test", clock_of(objects)),
            profiles,
            self.measures,
            settings=WorldSettings(storage=StorageSettings(chosen)),
        )
        self.measures.begin(self.world)
        self.sent: list[tuple[float, str]] = []
        self.bound: list[str] = []
        self.failures: list[str] = []
        """What bindings failed of."""
        came_back = self.world.scheduler._came_back

        def failed(queued: QueuedPod, status: Status, node_name: str) -> None:
            self.failures.append(status.message)
            came_back(queued, status, node_name)

        self.world.scheduler._came_back = failed  # type: ignore[method-assign,assignment]
        put = self.world.put
        self.world.put = lambda new: self._noted(put(new))  # type: ignore[method-assign]

    def _noted(self, now: T) -> T:
        if isinstance(now, PersistentVolumeClaim):
            if now.selected_node and now.name not in [name for _, name in self.sent]:
                self.sent.append((self.world.agenda.now_s, now.name))
            if now.is_bound and now.name not in self.bound:
                self.bound.append(now.name)
        return now

    def pod(self, name: str, *sizes: int) -> None:
        """A pod with a claim for each of these sizes, named by it: web-80, web-40."""
        claims = [claim(f"{name}-{size}", f"{size}Gi") for size in sizes]
        for each in (*claims, pod_with(name, *(each.name for each in claims))):
            self.world.put(each)

    def run(self, until_s: float = 300.0) -> Play:
        self.world.run_until_idle(until_s)
        return self

    def order(self) -> list[str]:
        return [name for _, name in self.sent]

    def promised(self) -> set[str]:
        return {key for hold in self.world.engine.cluster.index(Ledger).holds() for key in hold.claims}

    def node_of(self, name: str) -> str:
        found = self.world.get(Pod, f"default/{name}")
        return found.spec.node_name if found is not None else ""


def test_the_larger_claim_goes_first_and_the_other_when_its_volume_is_there() -> None:
    play = Play(100, 60)
    play.pod("web", 40, 80)
    play.run()
    (first_at, first), (second_at, second) = play.sent
    assert (first, second) == ("web-80", "web-40")
    assert second_at >= first_at + 0.5, "a volume takes half a second"
    assert play.node_of("web") == "a" and play.measures.world.storage.counts.refused == 0


def test_claims_of_a_guaranteed_fit_are_sent_together() -> None:
    play = Play(100, 100)
    play.pod("web", 40, 80)
    play.run()
    assert {at for at, _ in play.sent} == {0.0}
    assert play.node_of("web") == "a"


def test_the_room_of_a_claim_that_waits_is_nobody_elses() -> None:
    play = Play(100, 60)
    play.pod("web", 40, 80)
    play.run(0.2)
    assert play.order() == ["web-80"]
    assert play.promised() == {"default/web-40", "default/web-80"}
    play.pod("rival", 60)
    play.run()
    # 80 leaves 20 and 60; 40 leaves 20 and 20: the rival of 60 came later.
    assert play.node_of("web") == "a" and play.node_of("rival") == ""
    assert "rival-60" not in play.order()


def test_what_can_no_longer_come_true_is_not_sent() -> None:
    # 4 | 3 + 2 is the only packing. Each claim goes wrong in one pool of two, so that the largest goes first. Most-free
    # puts it into the 5, and 1 and 4 do not hold 3 and 2.
    play = Play(5, 4)
    play.pod("web", 4, 3, 2)
    play.run()
    assert play.order() == ["web-4"] == play.bound
    assert play.node_of("web") == "" and play.measures.world.storage.counts.refused == 0
    assert play.failures[0] == (
        'running PreBind plugin "VolumeBinding": binding volumes: no room is left on node "a" for default/web-2, '
        "default/web-3 beside the volume made for default/web-4; no volume was asked for"
    )


def test_a_possible_fit_is_judged_again_by_figures_that_show_the_volume() -> None:
    """The others wait for the figures too: a volume that is made says nothing about the pool it is in."""
    play = Play(5, 4, pick="best-fit", settings={"refresh_delay_s": 7.0})
    play.pod("web", 4, 3, 2)
    play.run()
    # 4 goes into the 4, and 5 holds the others whatever happens.
    assert [(name, at) for at, name in play.sent] == [("web-4", 0.0), ("web-2", 7.5), ("web-3", 7.5)]
    assert play.node_of("web") == "a" and play.failures == []


def test_a_claim_that_does_no_harm_goes_first() -> None:
    # No order of 7, 5, 3 and 3 is safe in 10 and 8. A 3 leaves 7 and 8, or 10 and 5, and both hold the rest.
    play = Play(10, 8, pick="best-fit")
    for each in (7, 5, 3):
        play.world.put(claim(f"web-{each}", f"{each}Gi"))
    play.world.put(claim("web-3b", "3Gi"))
    play.world.put(pod_with("web", "web-7", "web-5", "web-3", "web-3b"))
    play.run()
    assert play.order()[0] in ("web-3", "web-3b") and play.node_of("web") == "a"


@pytest.mark.parametrize("reservation", ["Ledger", "Object", "None"])
def test_every_mode_of_reservation_sends_in_order(reservation: str) -> None:
    play = Play(100, 60, reservation=reservation)
    play.pod("web", 40, 80)
    play.run()
    assert play.order() == ["web-80", "web-40"] and play.node_of("web") == "a"


def test_a_claim_that_somebody_changes_while_it_waits_keeps_its_room_and_is_sent() -> None:
    play = Play(100, 60)
    play.pod("web", 40, 80)
    play.run(0.2)
    waiting = play.world.get(PersistentVolumeClaim, "default/web-40")
    assert waiting is not None
    play.world.put(patched(waiting, {"metadata": {"annotations": {"somebody": "was here"}}}))
    assert play.promised() == {"default/web-40", "default/web-80"}
    play.run()
    assert play.order() == ["web-80", "web-40"] and play.node_of("web") == "a"


def test_groups_do_not_wait_for_each_other() -> None:
    play = Play(100, 60)
    play.world.put(storage_class("slow"))
    play.world.put(capacity("slow", "a", "200Gi", pools=["200Gi"]))
    for each in (claim("web-40", "40Gi"), claim("web-80", "80Gi"), claim("log", "10Gi", class_name="slow")):
        play.world.put(each)
    play.world.put(pod_with("web", "web-40", "web-80", "log"))
    play.run()
    assert [name for at, name in play.sent if not at] == ["log", "web-80"]
    assert play.node_of("web") == "a"


def test_one_claim_waits_only_if_it_might_take_room_that_is_promised() -> None:
    # 100 is promised to the first, which has one pool to go to; 60 might go there before it. 60 fits beside.
    play = Play(100, 60)
    play.pod("first", 100)
    play.pod("second", 60)
    play.run()
    (_, first), (second_at, second) = play.sent
    assert (first, second) == ("first-100", "second-60") and second_at > 0
    assert play.node_of("first") == play.node_of("second") == "a"
    play = Play(100, 100)
    play.pod("first", 100)
    play.pod("second", 60)
    play.run()
    assert {at for at, _ in play.sent} == {0.0}
