"""A pod's storage in `explain`: the section of the table, the nearest miss beside the reason, the JSON."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from support.configurations import storage_configuration
from tonnage.cli.explain import explain
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import default_configuration, parse
from tonnage.scheduling.decision.explain import Explanation
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import (
    DRIVER,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)
from tonnage.whatif.explain_report import MAX_ROWS, print_explanation
from tonnage.whatif.page import TextPage
from tonnage.whatif.replay import Replay

LEDGER = storage_configuration(reservation="Ledger")


def replay(*objects: Object, config: str = "") -> Replay:
    configuration = parse(config, source="config.yaml") if config else default_configuration()
    return Replay([driver(), storage_class(), *objects], configuration.profiles)


def table(answer: Explanation) -> str:
    out = io.StringIO()
    print_explanation(answer, {}, TextPage(out))
    return out.getvalue()


def storage(answer: Explanation) -> str:
    """The last section of the table."""
    return table(answer).rpartition("\n\n")[2]


def refused(answer: Explanation) -> list[str]:
    """Each line about nodes that do not fit, spaces made single."""
    lines = table(answer).partition("REFUSED")[2].partition("\n\n")[0].splitlines()[1:]
    return [" ".join(line.split()) for line in lines]


def test_a_hint_survives_a_nearer_miss_without_one():
    # Read as one pool of 100Gi, a and b lack 20Gi of 120Gi; c lacks 10Gi, and nothing is said for c.
    legacy = [capacity(node=name, free="300Gi", maximum="100Gi") for name in "ab"]
    run = replay(
        *map(node, "abc"),
        *legacy,
        capacity(node="c", free="110Gi"),
        pod_with("x", "one", "two"),
        claim("one", "60Gi"),
        claim("two", "60Gi"),
        config=storage_configuration(legacyPools="Strict"),
    )
    (line,) = refused(run.schedule("default/x"))
    assert line == (
        "3 VolumeBinding node(s) did not have enough free storage c: 110Gi free, needs 120Gi together; a, b: "
        "legacyPools: Bounded would take it (each at most 100Gi, 300Gi together) a, b, c"
    )


def test_the_storage_section_comes_last_and_tells_where_the_bytes_come_from():
    run = replay(
        node("a"), node("b"), capacity(node="a", pools=["100Gi", "60Gi"]), pod_with("x", "data"), claim("data", "80Gi")
    )
    assert table(run.schedule("default/x")) == (
        "default/x goes to a\n"
        "fits on 1 of 2 nodes\n"
        "\n"
        "  NODE\n"
        "* a\n"
        "the only node that fits; it is not scored\n"
        "\n"
        "REFUSED  BY             WHY                                       "
        "NEAREST MISS                                        NODES\n"
        "      1  VolumeBinding  node(s) did not have enough free storage  "
        "no capacity object of class fast reaches this node  b\n"
        "\n"
        "CLAIM         KIND     CAPACITY OBJECT     POOLS        NEEDS          VERDICT     NODES\n"
        "default/data  dynamic  kube-system/fast-a  100Gi, 60Gi  80Gi of 100Gi  guaranteed  a\n"
        "default/data  dynamic                                   80Gi                       b\n"
    )


def test_nodes_alike_stand_in_one_line_however_their_objects_are_called():
    rooms = [capacity(node=name, free="9Gi") for name in ("a", "b", "c")]
    run = replay(*(node(name) for name in ("a", "b", "c")), *rooms, pod_with("x", "data"), claim("data", "1Gi"))
    assert [" ".join(line.split()) for line in storage(run.schedule("default/x")).splitlines()[1:]] == [
        "default/data dynamic 3 objects 9Gi 1Gi of 9Gi guaranteed b, a, c",  # the chosen one first
    ]


def test_claims_alike_stand_in_one_line():
    claims = [claim(f"c{i}", "5Gi") for i in range(3)]
    run = replay(node("a"), capacity(node="a", free="20Gi"), *claims, pod_with("x", "c0", "c1", "c2"))
    assert storage(run.schedule("default/x")) == (
        "CLAIM                  KIND     CAPACITY OBJECT     POOLS  NEEDS        VERDICT     NODES\n"
        "default/c0 and 2 more  dynamic  kube-system/fast-a  20Gi   5Gi of 20Gi  guaranteed  a\n"
    )


def test_every_kind_of_claim_has_its_line():
    run = replay(
        node("a"),
        node("gone", unschedulable=True),
        driver(rebuilding=True),
        capacity(node="a", free="20Gi"),
        pod_with("x", "bound", "static", "made", "moved"),
        claim("bound", "1Gi", volume="pv-1"),
        volume("pv-1", "1Gi", claim="default/bound", on="a"),
        claim("static", "2Gi", class_name="slow"),
        storage_class("slow"),
        volume("pv-2", "2Gi", class_name="slow", on="a"),
        claim("made", "3Gi"),
        claim("moved", "4Gi", volume="pv-4", selected_node="gone"),
        volume("pv-4", "4Gi", claim="default/moved"),
    )
    lines = [" ".join(line.split()) for line in storage(run.schedule("default/x")).splitlines()]
    assert lines[1:5] == [
        "default/bound bound pv-1 1Gi a",
        "default/static static pv-2 2Gi",
        "default/made dynamic kube-system/fast-a 20Gi 3Gi of 20Gi guaranteed",
        "default/moved rebuild kube-system/fast-a 20Gi 4Gi of 20Gi guaranteed",
    ]


def test_the_section_stays_short_on_thousands_of_nodes():
    count = MAX_ROWS + 7
    nodes = [node(f"n{i:02}") for i in range(count)]
    rooms = [capacity(node=f"n{i:02}", free=f"{i + 1}Gi") for i in range(count)]
    run = replay(*nodes, *rooms, pod_with("x", "data"), claim("data", "1Gi"))
    lines = storage(run.schedule("default/x")).splitlines()
    assert len(lines) == 1 + MAX_ROWS + 1
    assert lines[-1] == "… and 7 more nodes that differ from these"


def test_slots_and_holds_have_columns_of_their_own_when_there_are_any():
    run = replay(
        node("a"),
        csi_node("a", {DRIVER: 5}),
        capacity(node="a", free="90Gi"),
        pod_with("y", "d"),
        claim("d", "9Gi"),
        pod_with("x", "data"),
        claim("data", "1Gi"),
        config=storage_configuration(reservation="Object"),
    )
    run.schedule("default/y")
    assert storage(run.schedule("default/x")) == (
        "CLAIM         KIND     CAPACITY OBJECT     POOLS  NEEDS  VERDICT     "
        "RESERVED                                 SLOTS  NODES\n"
        "default/data  dynamic  kube-system/fast-a  90Gi   1Gi    guaranteed  "
        "by default/y since 2000-01-01T00:00:00Z  1/5    a\n"
    )


def test_promises_are_told_in_bytes():
    run = replay(
        node("a"),
        capacity(node="a", free="90Gi"),
        pod_with("y", "d"),
        claim("d", "9Gi"),
        pod_with("x", "data"),
        claim("data", "1Gi"),
        config=LEDGER,
    )
    run.schedule("default/y")
    assert "9Gi promised" in storage(run.schedule("default/x"))


# -- the nearest miss -------------------------------------------------------------------------------------------------


def test_of_many_nodes_the_nearest_is_named():
    rooms = [capacity(node=name, free=free) for name, free in (("a", "10Gi"), ("b", "18Gi"), ("c", "3Gi"))]
    run = replay(*(node(name) for name in ("a", "b", "c")), *rooms, pod_with("x", "data"), claim("data", "20Gi"))
    assert refused(run.schedule("default/x")) == [
        "3 VolumeBinding node(s) did not have enough free storage b: largest free pool 18Gi, needs 20Gi a, b, c",
    ]


def test_a_miss_that_all_share_is_told_without_a_name():
    rooms = [capacity(node=name, free="10Gi") for name in ("a", "b")]
    run = replay(node("a"), node("b"), *rooms, pod_with("x", "data"), claim("data", "20Gi"))
    assert refused(run.schedule("default/x")) == [
        "2 VolumeBinding node(s) did not have enough free storage largest free pool 10Gi, needs 20Gi a, b",
    ]


def test_full_slots_are_told_beside_the_count():
    run = replay(
        node("a"),
        csi_node("a", {DRIVER: 0}),
        capacity(node="a", free="9Gi"),
        pod_with("x", "data"),
        claim("data", "1Gi"),
    )
    assert refused(run.schedule("default/x")) == [
        "1 NodeVolumeLimits node(s) exceed max volume count attach slots 0 of 0 used (csi.example) a",
    ]


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_storage_objects_in_manifests_count():
    example = Path(__file__).parents[3] / "examples" / "01-pools"
    told = CliRunner().invoke(explain, ["-f", str(example), "--pod", "default/database", "-o", "json"])
    assert json.loads(told.stdout)["volumes"] == {
        "node-1": [
            {
                "claim": "default/data",
                "kind": "dynamic",
                "capacity": "kube-system/node-1-pools",
                "pools": ["100Gi", "100Gi", "100Gi"],
                "size": "120Gi",
                "grade": "none",
                "attach": {"driver": "pools.tonnage.dev", "used": 0, "limit": 16},
                "miss": "largest free pool 100Gi, needs 120Gi",
            }
        ]
    }


def test_the_document_of_a_replay_is_plain_json():
    run = replay(node("a"), capacity(node="a", free="9Gi"), pod_with("x", "data"), claim("data", "1Gi"))
    document = run.schedule("default/x").document()
    assert msgspec.json.decode(msgspec.json.encode(document)) == document


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [40, 70, 110, 160, 200])
def test_on_a_narrow_terminal_names_and_numbers_stay_whole(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    long = "a-node-with-a-name-that-goes-on-and-on"
    run = replay(node(long), capacity(node=long, pools=["90Gi"]), pod_with("x", "data"), claim("data", "80Gi"))
    out = Terminal()
    print_explanation(run.schedule("default/x"), {}, TextPage(out))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    section = plain.rpartition("\n\n")[2]
    assert set(section.split()) >= {long, f"kube-system/fast-{long}", "default/data", "dynamic", "guaranteed"}
    assert "80Gi of 90Gi" in section
    if columns > 150:  # 12 + 7 + 55 + 5 + 12 + 10 + 38 and six gaps of 2
        assert section.split()[:8] == ["CLAIM", "KIND", "CAPACITY", "OBJECT", "POOLS", "NEEDS", "VERDICT", "NODES"]
        assert max(map(len, section.splitlines())) <= columns
    else:
        assert section.splitlines()[:2] == ["CLAIM            default/data", "KIND             dynamic"]
