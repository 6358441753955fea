"""Rows say what is so: after any story they are held against a judge that derives the same from the documents.

What is judged is in `dashboard_judge.py`; stories are those of `test_dashboard_rows.py`, with more kinds of objects.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from dashboard_judge import Judge, pool_findings
from hypothesis import given, settings
from hypothesis import strategies as st
from test_dashboard_rows import CLASSES, DRIVERS, HOST, NODES, START, ZONE, Drawn, step

from examples_tried import tries
from tonnage.dashboard.model.cluster_model import ClusterModel
from tonnage.dashboard.wire import Collections
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET
from tonnage.objects.meta import Object
from tonnage.testing.storage_builders import capacity, claim, volume

MODES = (("ReadWriteOnce",), ("ReadWriteMany",), ("ReadWriteOnce", "ReadOnlyMany"), ("ReadWriteOncePod",))


class Wider(Drawn):
    """Every kind of affinity, access mode and figure."""

    def claim(self) -> Object:
        target, selected = self.maybe("a", "b", "gone"), self.maybe("a", "b", "gone")
        name, named = self.any(("d1", "d2")), self.maybe("pv-1", "pv-2", "pv-9")
        return claim(
            name,
            self.any(("1Gi", "7Gi")),
            class_name=self.any(CLASSES),
            volume=named,
            bound=bool(named) and self.any((True, True, False)),
            selected_node=selected,
            modes=self.any(MODES),
            metadata={
                "annotations": {REBUILD_TARGET: target} if target else {},
                "uid": f"{name}-{self.any(('u1', 'u2'))}",
            },
        )

    def term(self) -> dict[str, Any]:
        hosts = {"key": HOST, "operator": "In", "values": self.rng.sample((*NODES, "gone"), self.any((1, 1, 2)))}
        disks = {"key": "disk", "operator": self.any(("In", "NotIn")), "values": ["x"]}
        zones = {"key": ZONE, "operator": "In", "values": ["z1"]}
        exists = {"key": self.any(("disk", "none")), "operator": self.any(("Exists", "DoesNotExist"))}
        return {
            "matchExpressions": self.rng.sample((hosts, hosts, hosts, disks, zones, exists), self.any((0, 1, 1, 2)))
        }

    def volume(self) -> Object:
        owner = self.maybe("default/d1", "default/d2")
        terms = [self.term() for _ in range(self.any((1, 1, 2)))]
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
        return volume(
            self.any(("pv-1", "pv-2", "pv-3")),
            self.any(("1Gi", "9Gi")),
            class_name=self.any(CLASSES),
            claim=owner,
            claim_uid=self.any(("", f"{owner[-2:]}-u1", f"{owner[-2:]}-u2")),
            driver=self.any((*DRIVERS, None)),
            handle=self.any(("h1", "h2", "h3")),
            modes=self.any(MODES),
            spec=self.any(({}, affinity, affinity, affinity)),
            metadata={"creationTimestamp": self.instant()},
        )

    def capacity(self) -> Object:
        found: Any = super().capacity()
        figures = self.any(
            ({"free": "10Gi"}, {"pools": ["4Gi", "9Gi"]}, {"maximum": "3Gi"}, {"free": "9Gi", "maximum": "5Gi"}, {})
        )
        topology = found.node_topology
        told = None if topology is None else {"matchLabels": dict(topology.match_labels)}
        return capacity(found.storage_class_name, name=found.name, topology=told, **figures)


def findings(model: ClusterModel) -> list[str]:
    rows = json.loads(model.collections.state())["set"]
    judge, memory = Judge(model.objects), model.memory
    sent = {each.uid: each.node for each in memory.pods}
    return [
        *judge.volume_findings(rows["volumes"]),
        *judge.node_findings(rows["nodes"], sent),
        *judge.capacity_findings(rows["capacities"], memory.held),
        *pool_findings(rows["nodes"], rows["volumes"], model.contents),
    ]


def story_holds(seed: int) -> None:
    drawn, model, now = Wider(seed), ClusterModel(Collections()), START
    for _ in range(drawn.any((0, 20))):
        model.put(drawn.object())
    for _ in range(20):
        taken = step(model, drawn)
        now += timedelta(seconds=drawn.any((0, 0, 30, 200)))
        model.settle(now)
        assert findings(model) == [], taken


@settings(max_examples=tries(25), deadline=None)
@given(st.integers(0, 1 << 32))
def test_rows_are_what_a_judge_makes_of_the_documents(seed: int):
    story_holds(seed)


@pytest.mark.slow
@settings(max_examples=tries(1500), deadline=None)
@given(st.integers(0, 1 << 32))
def test_rows_are_what_a_judge_makes_of_the_documents_in_many_stories(seed: int):
    story_holds(seed)
