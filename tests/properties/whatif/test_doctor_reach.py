"""Doctor finds nodes by their labels' index; what it finds is what selectors say, node by node."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.objects.meta import Object
from tonnage.objects.requirements import InvalidSelector
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, volume
from tonnage.whatif.doctor.facts import Facts

KEYS, VALUES = ("zone", "rack"), ("a", "b", "c")
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
expressions = st.fixed_dictionaries(
    {
        "key": st.sampled_from(KEYS),
        "operator": st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Odd")),
        "values": st.lists(st.sampled_from(VALUES), max_size=2),
    }
)
selectors = st.fixed_dictionaries({"matchLabels": labels, "matchExpressions": st.lists(expressions, max_size=2)})


@settings(max_examples=tries(60), deadline=None)
@given(st.lists(labels, min_size=1, max_size=5), selectors, expressions)
def test_reach_and_homes_are_those_of_the_selectors(on_nodes: list[dict[str, str]], topology: Any, affinity: Any):
    nodes = [node(f"n{number}", labels=each) for number, each in enumerate(on_nodes)]
    room, disk = capacity("fast", None, "1Gi", topology=topology), volume("pv", affinity=affinity)
    objects: list[Object] = [*nodes, room, disk]
    facts = Facts(objects, datetime(2026, 1, 1, tzinfo=UTC))

    def reaches(labels_of_node: Any) -> bool:
        assert room.node_topology is not None
        try:
            return room.node_topology.matches(labels_of_node)
        except InvalidSelector:
            return False

    assert facts.reach[room.key] == {each.name for each in nodes if reaches(each.metadata.labels)}
    admits = disk.spec.node_affinity.admits
    assert facts.homes["pv"] == {each.name for each in nodes if admits(each.name, each.metadata.labels)}
