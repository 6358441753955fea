"""The pages of `tonnage top`: rows in, lines out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tonnage.dashboard.terminal.app import help_lines
from tonnage.dashboard.terminal.list_pages import flow_lines, lane_lines, pending_lines
from tonnage.dashboard.terminal.map_page import bar, map_lines, node_lines, storage_of_nodes
from tonnage.dashboard.wire import (
    AttachSlots,
    CapacityRow,
    ClassRow,
    Collections,
    LaneRow,
    NodeRow,
    PodRow,
    PodStep,
    PoolRow,
    ReservedRow,
    Row,
    VolumeRow,
)
from tonnage.whatif.pending.pending import PendingAnswer

GI = 1 << 30
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def rows(**by_collection: dict[str, Row]) -> Collections:
    found = Collections()
    for name, each in by_collection.items():
        for key, row in each.items():
            found.put(name, key, row)
    return found


def texts(lines):
    return [line.text.plain.rstrip() for line in lines]


def capacity(node: str, *pools_gi: int, reserved: tuple[ReservedRow, ...] = (), of: str = "pools") -> CapacityRow:
    pools = tuple(each * GI for each in pools_gi)
    return CapacityRow(storage_class=of, nodes=(node,), node_count=1, pools=pools, reserved=reserved)


def kept(gi: int, mode: str = "Ledger") -> ReservedRow:
    return ReservedRow(mode=mode, pod="shop/db-0", bytes=gi * GI, since=NOON, why="its claims are not bound")


def test_a_node_is_as_full_as_its_volumes_and_promises_are_told_besides():
    cluster = rows(
        nodes={"a": NodeRow(name="a")},
        capacities={"ns/c": capacity("a", 50, 20, reserved=(kept(10),))},
        volumes={"ns/v": VolumeRow(bytes=30 * GI, node="a", state="bound")},
    )
    found, shared = storage_of_nodes(cluster)
    # 30 of volumes, 50 + 20 free, 10 of them promised: 30 / 100 is used, as the page has it.
    assert (found["a"].used, found["a"].free, found["a"].promised) == (30 * GI, 70 * GI, 10 * GI)
    assert found["a"].fill_ratio == 0.3
    assert shared == {}


def test_classes_that_share_their_pools_are_counted_once():
    cluster = rows(
        nodes={"a": NodeRow(name="a")},
        classes={"fast": ClassRow(driver="d", group="disks"), "slow": ClassRow(driver="d", group="disks")},
        capacities={"ns/1": capacity("a", 70, of="fast"), "ns/2": capacity("a", 70, of="slow")},
    )
    assert storage_of_nodes(cluster)[0]["a"].free == 70 * GI


def test_pools_seen_from_inside_go_before_what_capacity_objects_tell():
    pool = PoolRow(size=100 * GI, free=60 * GI)
    cluster = rows(nodes={"a": NodeRow(name="a", pools=(pool, pool))}, capacities={"ns/c": capacity("a", 90, 90)})
    found = storage_of_nodes(cluster)[0]["a"]
    assert (found.used, found.free) == (80 * GI, 120 * GI)


def test_what_other_drivers_have_is_counted_beside_the_pools_that_are_seen_from_inside():
    pool = PoolRow(size=100 * GI, free=60 * GI)
    cluster = rows(
        nodes={"a": NodeRow(name="a", pools=(pool,), pools_driver="d")},
        classes={"pools": ClassRow(driver="d"), "nvme": ClassRow(driver="other")},
        capacities={"ns/1": capacity("a", 60), "ns/2": capacity("a", 7, 8, of="nvme")},
        volumes={
            "s/in": VolumeRow(node="a", bytes=40 * GI, driver="d", state="bound"),
            "s/beside": VolumeRow(node="a", bytes=5 * GI, driver="other", state="bound"),
        },
    )
    found = storage_of_nodes(cluster)[0]["a"]
    assert (found.used, found.free) == (45 * GI, 75 * GI)


def test_classes_of_one_group_promise_the_same_bytes():
    cluster = rows(
        nodes={"a": NodeRow(name="a")},
        classes={name: ClassRow(driver="d", group="disks") for name in ("pools", "pools-2")},
        capacities={f"ns/{name}": capacity("a", 50, reserved=(kept(10),), of=name) for name in ("pools", "pools-2")},
    )
    assert storage_of_nodes(cluster)[0]["a"].promised == 10 * GI


def test_an_object_reserved_whole_leaves_nothing_free():
    cluster = rows(
        nodes={"a": NodeRow(name="a")}, capacities={"ns/c": capacity("a", 50, reserved=(kept(0, "Object"),))}
    )
    storage = storage_of_nodes(cluster)[0]["a"]
    assert storage.promised >= storage.free > 0


def test_room_of_several_nodes_is_nobodys_alone():
    zone = CapacityRow(storage_class="zonal", nodes=("a", "b"), node_count=2, pools=(9 * GI,))
    cluster = rows(nodes={"a": NodeRow(name="a"), "b": NodeRow(name="b")}, capacities={"ns/z": zone})
    shown = texts(map_lines(cluster, width=80))
    assert shown[-2:] == ["room that several nodes share", "zonal   9Gi free   2 nodes   ns/z"]
    assert "free room not known" in shown[1]


def test_a_bar_is_to_scale_and_shows_whatever_is_there():
    assert bar(50, 20, 50, 10).plain == "█████▒▒░░░"
    assert bar(1, 1, 999_999, 10).plain == "█▒░░░░░░░░"
    assert bar(999_999, 0, 1, 10).plain == "█████████░"
    assert bar(0, 0, 0, 4).plain == "    "


def test_nodes_stand_by_zone_in_the_order_people_count_and_trouble_is_said_in_words():
    cluster = rows(
        nodes={
            name: NodeRow(
                name=name, zone="a", cordoned=name == "node-10", slots=(AttachSlots(driver="d", used=4, limit=4),)
            )
            for name in ("node-10", "node-2")
        }
    )
    shown = texts(map_lines(cluster, width=120))
    assert shown[0] == "zone a   2 nodes   0 free of 0"
    assert [line.split()[0] for line in shown[1:]] == ["node-2", "node-10"]
    assert shown[2].endswith("▲ cordoned, slots full")


def test_every_line_of_the_map_keeps_to_eighty_columns():
    cluster = rows(
        nodes={"n" * 253: NodeRow(name="n" * 253, cordoned=True, ready=False)},
        capacities={"ns/c": capacity("n" * 253, 1023)},
    )
    assert max(line.text.cell_len for line in map_lines(cluster, width=80)) <= 80


def test_names_cannot_move_the_cursor_or_turn_the_text_around():
    name = "a\x1b[2J\u202eb"
    cluster = rows(nodes={name: NodeRow(name=name)})
    assert "a\\x1b[2J\\u202eb" in "\n".join(texts(map_lines(cluster, width=120)))


def test_a_node_is_opened_with_pools_claims_and_who_holds_what():
    cluster = rows(
        nodes={"a": NodeRow(name="a", zone="z", pods=2, pools=(PoolRow(size=100 * GI, free=40 * GI),))},
        capacities={"ns/c": capacity("a", 40, reserved=(kept(10),))},
        volumes={
            "ns/v": VolumeRow(bytes=60 * GI, node="a", state="bound", pods=("ns/p",), pool=0),
            "ns/w": VolumeRow(bytes=5 * GI, node="b", target="a", state="moving"),
        },
    )
    shown = texts(node_lines(cluster, "a", now=NOON, width=80))
    assert shown[0] == "a   zone z   takes pods   2 pods"
    assert shown[1] == "pools; a full line is 100Gi on every node"
    assert shown[2] == "pool 0   ██████████████████░░░░░░░░░░░░   40Gi free of 100Gi"
    assert shown[4] == "  10Gi kept back for shop/db-0 since 12:00:00: its claims are not bound"
    assert any(line.startswith("ns/v") and line.endswith("ns/p") for line in shown)
    assert shown[-3] == "on their way here"


def test_pools_are_as_long_as_they_are_large_on_every_node():
    def of(name: str, *gib: int) -> NodeRow:
        return NodeRow(name=name, pools=tuple(PoolRow(size=each * GI, free=each * GI) for each in gib))

    cluster = rows(nodes={"a": of("a", 100, 20), "b": of("b", 500)})
    shown = texts(node_lines(cluster, "a", now=NOON, width=80))
    # 30 signs for 500Gi: 6 for 100Gi, 1.2 for 20Gi.
    assert shown[1:4] == [
        "pools; a full line is 500Gi on every node",
        "pool 0   ░░░░░░   100Gi free of 100Gi",
        "pool 1   ░   20Gi free of 20Gi",
    ]


def test_zones_stand_in_the_order_people_count_and_what_has_none_comes_last():
    zones = {"a": "zone-10", "b": "zone-9", "c": ""}
    cluster = rows(nodes={name: NodeRow(name=name, zone=zone) for name, zone in zones.items()})
    heads = [line for line in texts(map_lines(cluster, width=80)) if "zone" in line]
    assert [line.split("   ")[0] for line in heads] == ["zone zone-9", "zone zone-10", "no zone"]


def test_the_flow_begins_with_what_happened_to_the_pod_not_with_bookkeeping():
    at = [NOON + timedelta(seconds=second) for second in range(3)]
    kinds = ("created", "started", "released")
    steps = tuple(PodStep(at=when, kind=kind, text=kind) for when, kind in zip(at, kinds, strict=True))
    cluster = rows(lanes={"u": LaneRow(pod="ns/p", steps=steps, headline=1)})
    assert texts(flow_lines(cluster, width=80)) == ["12:00:01 ns/p started +1s ← created"]


def test_the_flow_tells_the_newest_first_with_the_time_between_steps():
    def lane(pod: str, second: int) -> LaneRow:
        at = NOON + timedelta(seconds=second)
        steps = (
            PodStep(at=at, kind="created", text="made"),
            PodStep(at=at + timedelta(seconds=2), kind="decided", text="node-2", node="node-2"),
        )
        return LaneRow(pod=pod, steps=steps)

    cluster = rows(lanes={"u1": lane("ns/old", 0), "u2": lane("ns/new", 60)})
    shown = texts(flow_lines(cluster, width=80))
    assert shown[0] == "12:01:02 ns/new decided node-2 +2s ← created"
    assert shown[1].split()[1] == "ns/old"
    assert texts(lane_lines(cluster, "u1", width=80))[2].split() == ["12:00:02", "+2s", "decided", "node-2"]


def test_before_it_is_worked_out_who_waits_is_told_in_the_schedulers_words():
    cluster = rows(
        pods={
            "ns/a": PodRow(uid="1", message="0/3 nodes are available"),
            "ns/b": PodRow(uid="2", node="node-1", phase="Running"),
        }
    )
    shown = texts(pending_lines(None, cluster, width=80))
    assert len(shown) == 2 and shown[1].startswith("ns/a") and shown[1].endswith("0/3 nodes are available")


def test_pods_that_came_after_an_answer_without_pods_are_not_denied():
    answer = PendingAnswer(pods=(), groups=(), helps=())
    cluster = rows(pods={"ns/a": PodRow(uid="1"), "ns/b": PodRow(uid="2", state="gated")})
    assert texts(pending_lines(answer, cluster, width=80))[0] == "1 pod waits; working out why"
    assert texts(pending_lines(answer, rows(), width=80)) == ["no pod is pending"]


STALE = "the driver csi.example is not on node-1 (CSINode): nobody updates these figures any more"
REFUSED = "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) did not have enough free storage."


@pytest.mark.parametrize("width", [60, 80])
def test_nothing_that_is_said_in_words_is_cut_in_a_narrow_terminal(width: int):
    claims = {f"a-namespace/a-claim-of-thirty-letters-{each}": f"a-namespace/a-pod-of-it-{each}" for each in range(2)}
    figures = capacity("a", 40, reserved=(kept(10),))
    cluster = rows(
        nodes={
            "a": NodeRow(name="a", ready=False, reason="Kubelet stopped posting node status, as it seems for good.")
        },
        capacities={"ns/c": msgspec.structs.replace(figures, stale=STALE)},
        volumes={
            key: VolumeRow(bytes=60 * GI, node="a", target="b", state="moving", pods=(pod,))
            for key, pod in claims.items()
        },
        lanes={
            "u": LaneRow(pod="ns/p", steps=(PodStep(at=NOON, kind="refused", text=REFUSED, source="the scheduler"),))
        },
    )
    of_node = texts(node_lines(cluster, "a", now=NOON, width=width))
    of_lane = texts(lane_lines(cluster, "u", width=width))
    keys = texts(help_lines(width))
    for lines, said in (
        (of_node, [STALE, "posting node status, as it seems for good.", *claims, *claims.values()]),
        (of_lane, [f"{REFUSED} (the scheduler)"]),
        (keys, ["no slot or no room left", "with the nearest miss and what would help.", "enter keeps what was found"]),
    ):
        assert max(map(len, lines)) <= width
        for words in said:
            assert words in " ".join(" ".join(lines).split())
