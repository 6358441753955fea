"""What answers of a driver mean: the contracts, without a driver."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tonnage.csi.errors import Code
from tonnage.driver_check import contracts
from tonnage.driver_check.contracts import CallRefused, Capacity, CheckedVolume, NodeInfo
from tonnage.driver_check.results import CATALOGUE, CheckOutcome, CheckVerdict, Results, failed, passed, skipped
from tonnage.driver_check.settings import CALLS_WITH_SECRETS, UnreadableSecrets, read_secrets

GI = 1 << 30
TWO = Capacity(15 * GI, (10 * GI, 5 * GI), 10 * GI)
FULL = CallRefused(Code.RESOURCE_EXHAUSTED, "no room")
NODE = NodeInfo("node-1", 4, {"zone": "a"})


def outcome(verdict: CheckVerdict) -> str:
    return verdict.outcome.value


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (contracts.answers([("a", TWO)]), "passed"),
        (contracts.answers([("a", TWO), ("b", FULL)]), "failed"),
        (contracts.answers([("a", Capacity(-1))]), "failed"),
        (contracts.answers([]), "skipped"),
        (contracts.lists_pools(TWO), "passed"),
        (contracts.lists_pools(Capacity(5)), "skipped"),
        (contracts.sums_up(TWO), "passed"),
        (contracts.sums_up(Capacity(14, (10, 5))), "failed"),
        (contracts.sums_up(Capacity(14)), "skipped"),
        (contracts.maximum_fits(TWO), "passed"),
        (contracts.maximum_fits(Capacity(15, (10, 5), 4)), "passed"),
        (contracts.maximum_fits(Capacity(15, (10, 5), 11)), "failed"),
        (contracts.maximum_fits(Capacity(15, (), 16)), "failed"),
        (contracts.maximum_fits(Capacity(15, (10, 5))), "skipped"),
        (contracts.stays_in_order(TWO, TWO), "passed"),
        (contracts.stays_in_order(Capacity(15, (10, 5)), Capacity(15, (5, 10))), "failed"),
        (contracts.stays_in_order(Capacity(15, (10, 5)), Capacity(14, (9, 5))), "failed"),
        (contracts.knows_its_segments(TWO, Capacity()), "passed"),
        (contracts.knows_its_segments(TWO, CallRefused(Code.INVALID_ARGUMENT)), "passed"),
        (contracts.knows_its_segments(TWO, TWO), "failed"),
        (contracts.shrank(Capacity(15, (10, 5)), Capacity(13, (8, 5)), 2), "passed"),
        (contracts.shrank(Capacity(15, (10, 5)), Capacity(12, (7, 5)), 2), "passed"),  # metadata has its price
        (contracts.shrank(Capacity(15, (10, 5)), Capacity(15, (10, 5)), 2), "failed"),
        (contracts.shrank(Capacity(15, (10, 5)), Capacity(14, (9, 5)), 2), "failed"),
        (contracts.shrank(Capacity(15, (10, 5)), Capacity(13, (9, 4)), 2), "failed"),
        (contracts.shrank(Capacity(15, (10, 5)), Capacity(10, (10,)), 2), "failed"),
        (contracts.shrank(Capacity(19, (10, 9)), Capacity(16, (9, 7)), 3), "passed"),  # listed by their size
        (contracts.shrank(Capacity(15), Capacity(13), 2), "passed"),
        (contracts.shrank(Capacity(15), Capacity(15), 2), "failed"),
        (contracts.came_back(TWO, TWO), "passed"),
        (contracts.came_back(TWO, Capacity(14 * GI, (9 * GI, 5 * GI), 9 * GI)), "failed"),
        (contracts.is_true(5, 5), "passed"),
        (contracts.is_true(5, FULL), "failed"),
        (contracts.moved((Capacity(8), Capacity(10)), (Capacity(9), Capacity(7)), 2, is_one_place=False), "passed"),
        (contracts.moved((Capacity(8), Capacity(8)), (Capacity(9), Capacity(7)), 2, is_one_place=False), "failed"),
        (contracts.moved((Capacity(8), Capacity(10)), (Capacity(9), Capacity(9)), 2, is_one_place=False), "failed"),
        (contracts.moved((Capacity(8), Capacity(8)), (Capacity(8), Capacity(8)), 2, is_one_place=True), "skipped"),
    ],
)
def test_capacity(verdict: CheckVerdict, expected: str):
    assert outcome(verdict) == expected, verdict


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (contracts.same_again(CheckedVolume("v", 1), CheckedVolume("v", 1)), "passed"),
        (contracts.same_again(CheckedVolume("v", 1), CheckedVolume("w", 1)), "failed"),
        (contracts.same_again(CheckedVolume("v", 1), FULL), "failed"),
        (contracts.incompatible(CallRefused(Code.ALREADY_EXISTS), 2), "passed"),
        (contracts.incompatible(FULL, 2), "passed"),
        (contracts.incompatible(CallRefused(Code.INTERNAL), 2), "failed"),
        (contracts.incompatible(CheckedVolume("v", 1), 2), "failed"),
        (contracts.large_enough(CheckedVolume("v", 2), 2), "passed"),
        (contracts.large_enough(CheckedVolume("v", 1), 2), "failed"),
        (contracts.large_enough(CheckedVolume("v", 0), 2), "skipped"),
        (
            contracts.in_its_place(CheckedVolume("v", 1, ({"z": "a"},)), {"z": "a", "y": "b"}, has_topology=True),
            "passed",
        ),
        (contracts.in_its_place(CheckedVolume("v", 1, ({"z": "b"},)), {"z": "a"}, has_topology=True), "failed"),
        (contracts.in_its_place(CheckedVolume("v", 1), {"z": "a"}, has_topology=True), "failed"),
        (contracts.in_its_place(CheckedVolume("v", 1), {"z": "a"}, has_topology=False), "skipped"),
        (contracts.too_large(FULL, 9), "passed"),
        (contracts.too_large(CallRefused(Code.OUT_OF_RANGE), 9), "passed"),
        (contracts.too_large(CallRefused(Code.INTERNAL), 9), "failed"),
        (contracts.too_large(CheckedVolume("v", 9), 9), "failed"),
        (contracts.undone(None, None), "passed"),
        (contracts.undone(None, CallRefused(Code.NOT_FOUND)), "failed"),
        (contracts.unknown_refused("it", CallRefused(Code.NOT_FOUND)), "passed"),
        (contracts.unknown_refused("it", FULL), "failed"),
        (contracts.unknown_refused("it", None), "failed"),
    ],
)
def test_volumes(verdict: CheckVerdict, expected: str):
    assert outcome(verdict) == expected, verdict


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (contracts.sane(NODE, has_topology=True), "passed"),
        (contracts.sane(NodeInfo("n", 0, {}), has_topology=False), "passed"),
        (contracts.sane(NodeInfo("n", 0, {}), has_topology=True), "failed"),
        (contracts.sane(NodeInfo("", 0, {}), has_topology=False), "failed"),
        (contracts.sane(NodeInfo("n", -1, {}), has_topology=False), "failed"),
        (contracts.sane(FULL, has_topology=False), "failed"),
        (contracts.stable(NODE, NODE), "passed"),
        (contracts.stable(NODE, NodeInfo("node-1", 5, {"zone": "a"})), "failed"),
        (contracts.stable(NODE, FULL), "failed"),
        (contracts.is_a_total(NODE, NODE), "passed"),
        (contracts.is_a_total(NODE, NodeInfo("node-1", 3, {"zone": "a"})), "failed"),
        (contracts.enforced(2, 0, [None, None, FULL]), "passed"),
        (contracts.enforced(2, 1, [None, FULL]), "passed"),
        (contracts.enforced(2, 0, [None, FULL]), "failed"),
        (contracts.enforced(2, 0, [None, None, None]), "failed"),
        (contracts.enforced(2, 0, [None, None, CallRefused(Code.FAILED_PRECONDITION)]), "failed"),
        (contracts.refused_rightly(None), "passed"),
        (contracts.refused_rightly(CallRefused(Code.FAILED_PRECONDITION)), "passed"),
        (contracts.refused_rightly(FULL), "failed"),
        (contracts.moves(None, is_out_of_use=False), "passed"),
        (contracts.moves(FULL, is_out_of_use=True), "failed"),
        (contracts.moves(FULL, is_out_of_use=False), "skipped"),
        (contracts.is_there(CheckedVolume("v", 1, ({"z": "b"},)), {"z": "b"}), "passed"),
        (contracts.is_there(CheckedVolume("v", 1, ({"z": "a"},)), {"z": "b"}), "failed"),
        (contracts.is_there(None, {"z": "b"}), "skipped"),
        (contracts.is_there(FULL, {"z": "b"}), "failed"),
        (contracts.kept_contents(b"x", b"x"), "passed"),
        (contracts.kept_contents(b"x", b"y"), "failed"),
        (contracts.kept_contents(b"x", "No such file"), "failed"),
        (contracts.refused_without_room(CallRefused(Code.FAILED_PRECONDITION)), "passed"),
        (contracts.refused_without_room(FULL), "failed"),
        (contracts.refused_without_room(None), "failed"),
    ],
)
def test_limits_and_rebuilding(verdict: CheckVerdict, expected: str):
    assert outcome(verdict) == expected, verdict


def test_of_several_verdicts_the_worst_counts_and_a_skip_least():
    results = Results()
    for verdict in (skipped("x"), passed(), failed("first"), passed(), failed("second")):
        results.tell("capacity-sum", verdict)
    assert results.verdicts["capacity-sum"] == failed("first")
    assert not results.is_kept
    with pytest.raises(KeyError):
        results.tell("no such check", passed())


def test_a_document_has_every_check_in_order_with_what_to_do():
    results = Results("csi.example", "1")
    results.tell("capacity-sum", failed("15Gi and 14Gi"))
    results.tell("identity", passed())
    document = results.document()
    assert [each["name"] for each in document["checks"]] == list(CATALOGUE)
    assert (document["passed"], document["failed"], document["skipped"]) == (1, 1, len(CATALOGUE) - 2)
    (broken,) = [each for each in document["checks"] if each["outcome"] == CheckOutcome.FAILED]
    assert broken["remedy"] == CATALOGUE["capacity-sum"].remedy and broken["message"] == "15Gi and 14Gi"
    assert all(each["reason"] for each in document["checks"] if each["outcome"] == "skipped")


def test_secrets_are_for_one_call_or_for_all():
    one = read_secrets("CreateVolumeSecret: {user: me}\nNodeStageVolume: {key: k}\n", source="s.yaml")
    assert one == {"CreateVolume": {"user": "me"}, "NodeStageVolume": {"key": "k"}}
    every = read_secrets("user: me", source="s.yaml")
    assert every == {call: {"user": "me"} for call in CALLS_WITH_SECRETS}


@pytest.mark.parametrize(
    "text", ["- hush", "hush: {a: [", "FlyVolumeSecret: {a: hush}", "CreateVolumeSecret: {a: {b: hush}}", ""]
)
def test_a_file_of_secrets_that_is_none_is_told_without_its_values(text: str):
    with pytest.raises(UnreadableSecrets) as refused:
        read_secrets(text, source="s.yaml")
    assert "s.yaml" in refused.value.message and refused.value.hint
    assert "a: " not in refused.value.message and "[" not in refused.value.message


def test_the_page_for_authors_names_no_check_that_is_not_there():
    page = (Path(__file__).parents[3] / "docs" / "drivers" / "writing-a-driver.md").read_text()
    named = {
        name
        for group in re.findall(r"\(((?:`[a-z-]+`(?:, )?)+)\)", page)
        for name in re.findall(r"`([a-z]+-[a-z-]+)`", group)
    }
    assert len(named) > 15 and named <= CATALOGUE.keys()
