"""Node selectors, a pod's affinity for nodes, and allowed topologies. Cases mirror component-helpers' nodeaffinity."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Pod
from tonnage.objects.requirements import (
    NodeSelector,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    TopologySelectorTerm,
    allows_topology,
    preference,
)

SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
ON_N1 = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


def term(*expressions: dict[str, Any], fields: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return convert(NodeSelector, {"nodeSelectorTerms": list(terms)})


def pod(**spec: Any) -> Pod:
    return convert(Pod, {"spec": spec})


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("operator", "values", "labels", "matches"),
    [
        ("In", ["ssd", "nvme"], {"disk": "nvme"}, True),
        ("In", ["ssd"], {"disk": "hdd"}, False),
        ("In", ["ssd"], {}, False),
        ("NotIn", ["ssd"], {"disk": "hdd"}, True),
        ("NotIn", ["ssd"], {"disk": "ssd"}, False),
        ("NotIn", ["ssd"], {}, True),
        ("Exists", [], {"disk": ""}, True),
        ("Exists", [], {}, False),
        ("DoesNotExist", [], {}, True),
        ("DoesNotExist", [], {"disk": ""}, False),
        ("Gt", ["4"], {"disk": "10"}, True),
        ("Gt", ["4"], {"disk": "4"}, False),
        ("Lt", ["4"], {"disk": "3"}, True),
        ("Lt", ["4"], {"disk": "-3"}, True),
        ("Gt", ["4"], {"disk": "many"}, False),
        ("Lt", ["4"], {}, False),
    ],
)
def test_each_operator_judges_one_label(
    operator: str, values: list[str], labels: dict[str, str], matches: bool
) -> None:
    judged = selector(term({"key": "disk", "operator": operator, "values": values}))
    assert judged.matches("n1", labels) is matches


@pytest.mark.parametrize(
    "senseless",
    [
        {"key": "disk", "operator": "Near", "values": ["ssd"]},
        {"key": "disk", "operator": "Gt", "values": ["much"]},
        {"key": "disk", "operator": "Lt", "values": ["1", "2"]},
        {"key": "disk", "operator": "NotIn"},
        {"key": "disk", "operator": "DoesNotExist", "values": ["ssd"]},
    ],
)
def test_a_term_that_makes_no_sense_matches_no_node_but_the_others_may(senseless: dict[str, Any]) -> None:
    assert not selector(term(senseless)).matches("n1", {"zone": "a"})
    assert selector(term(senseless), term({"key": "zone", "operator": "Exists"})).matches("n1", {"zone": "a"})


def test_a_term_needs_all_of_its_requirements() -> None:
    both = selector(term(SSD, fields=(ON_N1,)))
    assert both.matches("n1", {"disk": "ssd"})
    assert not both.matches("n2", {"disk": "ssd"})
    assert not both.matches("n1", {"disk": "hdd"})


def test_one_matching_term_is_enough() -> None:
    either = selector(term(SSD), term(fields=(ON_N1,)))
    assert either.matches("n1", {})
    assert either.matches("n2", {"disk": "ssd"})
    assert not either.matches("n2", {})


def test_an_empty_term_and_a_selector_without_terms_match_no_node() -> None:
    assert not selector(term()).matches("n1", {})
    assert not selector().matches("n1", {})
    assert not NodeSelectorTerm().matches("n1", {})


@pytest.mark.parametrize(
    ("field", "matches"),
    [
        ({"key": "metadata.name", "operator": "In", "values": ["n1"]}, True),
        ({"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}, False),
        ({"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}, True),
        ({"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}, False),  # one value only
        ({"key": "metadata.name", "operator": "Exists"}, False),  # no operator of fields
        ({"key": "metadata.uid", "operator": "In", "values": ["n1"]}, False),  # unknown fields are empty
        ({"key": "metadata.uid", "operator": "NotIn", "values": ["n1"]}, True),
    ],
)
def test_fields_know_the_name_alone(field: dict[str, Any], matches: bool) -> None:
    assert selector(term(fields=(field,))).matches("n1", {}) is matches


def test_a_pod_that_asks_for_nothing_may_go_anywhere() -> None:
    assert pod().required_node_affinity().matches("n1", {})
    assert pod(affinity={"nodeAffinity": {}}).required_node_affinity().matches("n1", {})


def test_an_empty_required_affinity_differs_from_an_absent_one() -> None:
    assert not pod(affinity=affinity()).required_node_affinity().matches("n1", {})


def test_a_pod_demands_its_node_selector_and_its_affinity() -> None:
    demanded = pod(nodeSelector={"zone": "a"}, affinity=affinity(term(SSD))).required_node_affinity()
    assert demanded.matches("n1", {"zone": "a", "disk": "ssd"})
    assert not demanded.matches("n1", {"zone": "a"})
    assert not demanded.matches("n1", {"disk": "ssd"})


def test_preferences_add_up_and_an_empty_one_counts_nothing() -> None:
    terms = [
        convert(PreferredSchedulingTerm, {"weight": 5, "preference": term(SSD)}),
        convert(PreferredSchedulingTerm, {"weight": 3, "preference": term(fields=(ON_N1,))}),
        convert(PreferredSchedulingTerm, {"weight": 90, "preference": {}}),
    ]
    # n1 with an ssd: 5 + 3.  n2 with an ssd: 5.  n2 without: 0.
    assert preference(terms, "n1", {"disk": "ssd"}) == 8
    assert preference(terms, "n2", {"disk": "ssd"}) == 5
    assert preference(terms, "n2", {}) == 0


def test_allowed_topologies_are_any_of_the_terms_with_all_of_its_labels() -> None:
    terms = convert_terms(
        {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}, {"key": "rack", "values": ["1"]}]},
        {"matchLabelExpressions": [{"key": "zone", "values": ["c"]}]},
    )
    assert allows_topology(terms, {"zone": "b", "rack": "1"})
    assert allows_topology(terms, {"zone": "c"})
    assert not allows_topology(terms, {"zone": "a"})
    assert not allows_topology(terms, {})


def test_without_terms_every_topology_is_allowed_and_an_empty_term_allows_none() -> None:
    assert allows_topology((), {})
    assert not allows_topology(convert_terms({}), {"zone": "a"})


def convert_terms(*terms: dict[str, Any]) -> tuple[TopologySelectorTerm, ...]:
    return tuple(convert(TopologySelectorTerm, each) for each in terms)
