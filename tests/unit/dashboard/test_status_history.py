"""How a cluster came to be as it is: samples, beginnings and ends, on virtual time and in bounded memory."""

from __future__ import annotations

import itertools
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from status_rig import NIGHT, StatusRig, not_ready, provisioning_failed

from tonnage.dashboard.status.overview import (
    COARSE_S,
    COARSE_SAMPLES,
    FINE_SAMPLES,
    SAMPLE_S,
    ClassRoom,
    Overview,
    Sample,
    StatusLog,
    merged,
)
from tonnage.dashboard.status.sight import Trouble
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim


def trouble(kind: str = "class-nearly-full", about: str = "StorageClass fast") -> Trouble:
    return Trouble(severity="warning", kind=kind, object=about, headline="h", meaning="m", command="c")


def at(seconds: float):
    return NIGHT + timedelta(seconds=seconds)


def test_an_hour_is_seen_back_every_ten_seconds_and_a_day_more_coarsely():
    log = StatusLog(NIGHT)
    for second in range(0, 30 * 3600, SAMPLE_S):
        log.note([], Overview(pending=second), 0, at(second))
    samples = log.samples()
    assert len(samples) == FINE_SAMPLES + COARSE_SAMPLES
    gaps = [(later.at - one.at).total_seconds() for one, later in itertools.pairwise(samples)]
    assert set(gaps[-360:]) == {SAMPLE_S}
    assert max(gaps) <= COARSE_S
    assert (samples[-1].at - samples[0].at).total_seconds() >= 24 * 3600


def test_looks_between_two_samples_make_none():
    log = StatusLog(NIGHT)
    for second in range(0, 60, 5):
        log.note([], Overview(), 0, at(second))
    assert [each.at for each in log.samples()] == [at(second) for second in range(0, 60, 10)]
    assert [each.at for each in log.samples(since=at(30))] == [at(40), at(50)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=2, max_size=12))
def test_merged_samples_keep_the_worst_of_their_time_and_every_refusal(seen: list[tuple[int, int]]):
    samples = [
        Sample(at=at(number), pending=pending, refused=refused, classes={"fast": ClassRoom(free=pending, total=50)})
        for number, (pending, refused) in enumerate(seen)
    ]
    found = samples[0]
    for each in samples[1:]:
        found = merged(found, each)
    assert found.pending == max(pending for pending, _ in seen)
    assert found.refused == sum(refused for _, refused in seen)
    assert found.classes["fast"].free == min(pending for pending, _ in seen)
    assert found.at == samples[-1].at


def test_a_trouble_began_when_it_was_first_seen_and_one_of_the_first_look_may_be_older():
    log = StatusLog(NIGHT)
    old, new = trouble(), trouble(about="StorageClass slow")
    log.note([old], Overview(), 0, at(0))
    log.note([old, new], Overview(), 0, at(60))
    log.note([old, new], Overview(), 0, at(120))
    assert log.began(old) == (at(0), True)
    assert log.began(new) == (at(60), False)


def test_what_has_ended_is_kept_with_its_time_and_nothing_is_wrong_since_then():
    log = StatusLog(NIGHT)
    log.note([trouble()], Overview(), 0, at(0))
    assert log.fine_since is None
    log.note([], Overview(), 0, at(300))
    assert log.fine_since == at(300)
    log.note([], Overview(), 0, at(900))
    assert log.fine_since == at(300)
    (ended,) = log.ended
    assert (ended.since, ended.until, ended.headline) == (at(0), at(300), "h")


def test_a_cluster_that_was_never_seen_in_trouble_is_fine_since_the_start():
    log = StatusLog(NIGHT)
    log.note([], Overview(), 0, at(7))
    assert log.fine_since == NIGHT


def test_what_is_remembered_is_bounded():
    log = StatusLog(NIGHT)
    for round in range(50):
        log.note([trouble(about=f"Node {round}-{each}") for each in range(50)], Overview(), 0, at(60 * round))
    assert len(log.ended) == 100


async def test_a_watched_cluster_tells_when_its_node_failed_and_came_back():
    rig = StatusRig("a")
    async with rig.keeper.looking():
        await rig.clock.run_for(60)
        rig.put(not_ready("a", 0))
        await rig.clock.run_for(120)
        rig.put(node("a"), capacity(node="a", free="100Gi"))
        await rig.clock.run_for(60)
    (ended,) = rig.keeper.log.ended
    assert ended.headline == "a is not ready"
    seen = [each.nodes_not_ready for each in rig.keeper.log.samples()]
    assert (seen[0], max(seen), seen[-1]) == (0, 1, 0)
    assert rig.keeper.log.fine_since is not None and rig.keeper.log.fine_since > NIGHT


async def test_refusals_are_counted_where_they_happened_and_an_event_received_again_is_none():
    rig = StatusRig("a")
    rig.put(claim("data", selected_node="a"))
    await rig.look()
    failed = "rpc error: code = ResourceExhausted desc = full"
    rig.heard(provisioning_failed("default/data", failed, count=1))
    rig.heard(provisioning_failed("default/data", failed, count=1))
    await rig.look(after_s=10)
    rig.heard(provisioning_failed("default/data", failed, count=3))
    await rig.look(after_s=10)
    await rig.look(after_s=10)
    assert [each.refused for each in rig.keeper.log.samples()] == [0, 1, 2, 0]


async def test_the_line_counts_nodes_classes_pending_pods_and_volumes_on_their_way():
    from tonnage.dashboard.status.overview import overview_texts
    from tonnage.testing.builders import pod
    from tonnage.testing.storage_builders import storage_class, volume

    rig = StatusRig()
    rig.put(not_ready("b"), storage_class("slow"), capacity("slow", node="a", pools=["30Gi", "10Gi"]))
    rig.put(
        volume("pv-1", "100Gi", on="a"),
        claim("data", selected_node="a"),
        pod("web"),
        pod("later", spec={"schedulingGates": [{"name": "x/y"}]}),
        node("c", unschedulable=True),
    )
    await rig.look()
    # fast: 100 + 100 free, 100 used; slow: 40 free of 40.
    assert list(overview_texts(rig.keeper.overview)) == [
        "2 nodes ready, 1 not, 1 cordoned",
        "fast 33% full, largest free pool 100Gi",
        "slow 0% full, largest free pool 30Gi",
        "1 pod pending, 1 gated",
        "1 volume on its way",
    ]
