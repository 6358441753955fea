"""Preemption finds what its slow twin finds, by sums or by trying, and leaves the cluster as it was.

Nodes are small and names few, so that pods meet: host ports, anti-affinity of both sides, affinity, spreading, attach
limits, claims for one pod, budgets, pods on their way out, pods expected on a node. Between two questions pods come, go
and tell when they started, and nodes come and go, so that what is kept between preemptions is compared as well.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st
from preemption_twins import BudgetFacts, Facts, NodeFacts, Outcome, Seen, outcome

from examples_tried import tries
from support.virtual_clock import VirtualClock
from tonnage.scheduling.cluster.cluster import Cluster, place
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.engine.profiles import add_indexes, assemble
from tonnage.scheduling.framework import Handle, PostFilterResult
from tonnage.scheduling.preemption.preemption import DefaultPreemption
from tonnage.scheduling.preemption.ranked_residents import DisruptionBudgets
from tonnage.scheduling.queue.scheduling_queue import SchedulingQueue
from tonnage.testing.storage_builders import DRIVER, claim, csi_node, driver, storage_class, volume

APPS = ("a", "b", "c")
ZONES = ("z1", "z1", "z2", "")
PRIORITIES = (-10, 0, 0, 5, 10)
CLAIMS = tuple(f"c{number}" for number in range(6))
ONE_POD = frozenset(("c4", "c5"))
KEYS = ("zone", "kubernetes.io/hostname")


def preemptions() -> tuple[Decider, DefaultPreemption, DefaultPreemption]:
    """The default profile's decider, its preemption, and one that tries every row."""
    pipeline = assemble(default_configuration().profiles[0], random.Random(1)).pipeline
    assert pipeline.sums is not None
    deciders = [
        Decider(Pipeline(pre_filter=pipeline.pre_filter, filter=pipeline.filter, sums=sums), random.Random(1))
        for sums in (pipeline.sums, None)
    ]
    quick, slow = DefaultPreemption(), DefaultPreemption()
    for each, decider in zip((quick, slow), deciders, strict=True):
        each.connect(Handle(decider, random.Random(1)))
    return deciders[0], quick, slow


class CrowdedCluster:
    """A cluster to which things happen by lot, and the facts behind it."""

    def __init__(self, seed: int, nodes: int, pods: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = add_indexes(Cluster())
        self.nominator = SchedulingQueue(VirtualClock(), {}).nominator
        self.nodes: dict[str, NodeFacts] = {}
        self.there: dict[str, dict[str, Facts]] = {}
        self.expected: dict[str, tuple[str, Facts]] = {}
        self.budgets: dict[str, BudgetFacts] = {}
        # Some worlds are about sums alone: in the others the rows that sums decide would be rare.
        self.is_plain = self.rng.random() < 0.4
        self.priorities = self.rng.choice((PRIORITIES, (0,)))
        self.numbers = iter(range(10_000))
        storage = self.cluster.storage
        storage.put(storage_class())
        storage.put(driver())
        for each in CLAIMS:
            modes = ["ReadWriteOncePod" if each in ONE_POD else "ReadWriteMany"]
            storage.put(volume(f"pv-{each}", claim=f"default/{each}", modes=modes))
            storage.put(claim(each, volume=f"pv-{each}", modes=modes))
        for _ in range(nodes):
            self.put_node(f"n{next(self.numbers)}")
        for _ in range(pods):
            self.put_pod(f"p{next(self.numbers)}")
        for _ in range(self.rng.choice((0, 1, 3, 4))):
            self.put_budget()

    # -- what there is ------------------------------------------------------------------------------------------------

    def put_node(self, name: str) -> None:
        rng = self.rng
        is_limited = not self.is_plain and rng.random() < 0.5
        made = NodeFacts(
            name,
            cpu_m=rng.choice((4, 6, 8)) * 1000,
            memory=rng.choice((4, 8)),
            pods=rng.choice((3, 5, 110)),
            zone=rng.choice(ZONES),
            unschedulable=rng.random() < 0.1,
            volumes=rng.choice((0, 1, 2, 3)) if is_limited else None,
        )
        self.nodes[name] = made
        self.there.setdefault(name, {})
        self.cluster.put_node(made.node())
        self.cluster.storage.put(csi_node(name, {DRIVER: made.volumes}))

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        for each in self.there.pop(name):
            self.cluster.remove_pod(f"default-{each}")
        self.cluster.remove_node(name)

    def facts(self, name: str, **fixed: Any) -> Facts:
        rng = self.rng

        def maybe(chance: float, choices: tuple[Any, ...], otherwise: Any) -> Any:
            return rng.choice(choices) if not self.is_plain and rng.random() < chance else otherwise

        made = {
            "cpu_m": rng.choice((0, 500, 1000, 1000, 2000, 3000)),
            "memory": rng.choice((0, 0, 1, 2)),
            "priority": rng.choice(self.priorities),
            "start_s": rng.choice((None, 1, 2, 3)),
            "app": rng.choice(("", *APPS)),
            "port": maybe(0.2, (80, 443), 0),
            "apart": maybe(0.15, tuple((key, app) for key in KEYS for app in APPS), None),
            "claims": maybe(0.4, tuple((each,) for each in CLAIMS), ()),
            "terminating": rng.choice(("",) * 8 + ("deleted", "preempted")),
        }
        return Facts(name, **{**made, **fixed})

    def put_pod(self, name: str) -> None:
        on = self.rng.choice(sorted(self.nodes))
        made = self.facts(name)
        if ONE_POD.intersection(made.claims) and any(
            ONE_POD.intersection(each.claims) & set(made.claims)
            for pods in self.there.values()
            for each in pods.values()
        ):
            return
        self.there[on][name] = made
        place(self.cluster, made.pod(on))

    def put_budget(self) -> None:
        rng = self.rng
        names = [name for pods in self.there.values() for name in pods]
        made = BudgetFacts(
            f"budget-{rng.randrange(4)}",
            app=rng.choice((None, *APPS)),
            allowed=rng.choice((0, 0, 1, 2)),
            disrupted=tuple(rng.sample(names, min(len(names), rng.choice((0, 0, 2))))),
        )
        self.budgets[made.name] = made
        self.cluster.index(DisruptionBudgets).put(made.budget())

    def expect(self) -> None:
        made = self.facts(f"guest-{self.rng.randrange(4)}", start_s=None, terminating="")
        on = self.rng.choice(sorted(self.nodes))
        self.expected[made.name] = (on, made)
        self.nominator.nominate(made.pod(), on)

    # -- what happens -------------------------------------------------------------------------------------------------

    def happen(self) -> None:
        rng = self.rng
        residents = [(on, each) for on, pods in self.there.items() for each in pods.values()]
        match rng.randrange(9):
            case 0 | 1:
                self.put_pod(f"p{next(self.numbers)}")
            case 2 | 3 if residents:
                on, gone = rng.choice(residents)
                del self.there[on][gone.name]
                self.cluster.remove_pod(f"default-{gone.name}")
            case 4 if residents:
                on, known = rng.choice(residents)
                told = Facts(**{**known.__dict__, "start_s": rng.choice((None, 1, 2, 3))})
                self.there[on][told.name] = told
                place(self.cluster, told.pod(on))
            case 5:
                self.put_budget()
            case 6 if self.budgets:
                gone_budget = self.budgets.pop(rng.choice(sorted(self.budgets)))
                self.cluster.index(DisruptionBudgets).remove(gone_budget.budget())
            case 7:
                self.expect()
            case 8 if len(self.nodes) > 1:
                self.remove_node(rng.choice(sorted(self.nodes)))
                self.put_node(f"n{next(self.numbers)}")

    def asking(self, number: int) -> Facts:
        rng = self.rng
        is_simple = self.is_plain or rng.random() < 0.5
        return self.facts(
            f"asking-{number}",
            cpu_m=rng.choice((1000, 2000, 4000, 5000)),
            priority=rng.choice((0, 5, 10, 20, 20)),
            start_s=None,
            terminating="",
            near=None if is_simple or rng.random() < 0.7 else (rng.choice(KEYS), rng.choice(APPS)),
            spread="" if is_simple or rng.random() < 0.6 else rng.choice(APPS),
            zone="" if rng.random() < 0.8 else "z1",
            nominated=rng.choice(("", "", "", rng.choice(sorted(self.nodes)), "ghost")),
            never=rng.random() < 0.05,
        )

    def seen(self) -> Seen:
        expected: dict[str, tuple[Facts, ...]] = {}
        for on, each in self.expected.values():
            expected[on] = (*expected.get(on, ()), each)
        there = {name: tuple(pods.values()) for name, pods in self.there.items()}
        return Seen(self.nodes, there, list(self.budgets.values()), expected, ONE_POD)


def told(result: PostFilterResult) -> Outcome:
    if not result.status.is_success:
        assert not result.nominated_node and not result.victims
        return result.status.message
    return result.nominated_node, [each.pod.name for each in result.victims], result.budget_violations


def picture(cluster: Cluster) -> Any:
    residents = [[(uid, id(each)) for uid, each in row.items()] for row in cluster.residents]
    return residents, cluster.requested.tolist(), cluster.scored_usage.tolist()


@settings(max_examples=tries(250), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 25))
def test_by_sums_by_trying_and_by_the_twin_the_same_pods_have_to_go(seed: int, nodes: int, pods: int) -> None:
    world = CrowdedCluster(seed, nodes, pods)
    decider, quick, slow = preemptions()
    for number in range(6):
        asking = world.asking(number)
        info = PodInfo(asking.pod())
        cluster = world.cluster
        ahead = tuple(world.nominator.ahead_of(info))
        expected = outcome(world.seen(), asking, cluster.row_of)
        decision = decider.decide(cluster, info, ahead)
        assert decision.fits is (expected is None)
        if expected is not None and decision.diagnosis is not None:
            before = picture(cluster)
            assert told(quick.post_filter(decision.cycle, decision.diagnosis)) == expected
            assert picture(cluster) == before
            assert told(slow.post_filter(decision.cycle, decision.diagnosis)) == expected
            again = decider.decide(cluster, info, ahead)
            assert not again.fits and again.diagnosis is not None
            assert again.diagnosis.message() == decision.diagnosis.message()
            event("refused" if isinstance(expected, str) else "helped")
        for _ in range(world.rng.randrange(4)):
            world.happen()
