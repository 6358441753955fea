"""Scenarios are read strictly: what is wrong is one line with the file, the field, the value, and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.errors import TonnageError
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.whatif.simulate.disks import DriverSettings
from tonnage.whatif.simulate.scenario import (
    Apply,
    Arrive,
    BrokenScenario,
    Delete,
    Join,
    Lifetime,
    NodeEvent,
    Scenario,
    read_scenario,
)

HEAD = "apiVersion: tonnage.dev/v1alpha1\nkind: Scenario\n"


def read(tmp_path: Path, text: str) -> Scenario:
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    return read_scenario(file)


def test_everything_that_a_scenario_may_say(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        HEAD
        + """
metadata: {name: friday}
duration: 2h
storage:
  pick: random
  refreshDelay: 30s
  attachSlots: 4
  drivers:
    slow.example: {createLatency: 5s, rebuildRate: 100Mi, overstates: 1.2}
events:
- {at: 5s, arrive: StatefulSet/shop/db, replicas: 3, every: 10s}
- {from: 0s, until: 1h, rate: 12/min, arrive: deploy/shop/web, lifetime: {mean: 10m}}
- {at: 30m, drain: [node-1, node-2]}
- {at: 40m, uncordon: node-1}
- {at: 50m, join: {like: node-1, count: 2}}
- {at: 51m, join: {like: node-1, names: [node-9]}}
- {at: 52m, apply: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]}
- {at: 53m, delete: [{kind: Pod, namespace: shop, name: a}]}
- arrivals: [{at: 1s, workload: job/shop/nightly, lifetime: 60s}]
""",
    )
    assert found.duration_s == 7200.0
    assert found.storage.rest == DriverSettings(pick=PoolPolicy.RANDOM, refresh_delay_s=30.0, attach_slots=4)
    # What a driver does not say is as for all drivers.
    slow = found.storage.of("slow.example")
    assert (slow.pick, slow.create_latency_s, slow.rebuild_bytes_per_s, slow.overstates) == (
        "random",
        5.0,
        100 << 20,
        1.2,
    )
    assert found.events == (
        Arrive("StatefulSet/shop/db", 5.0, 3, 10.0, field="events[0].arrive"),
        Arrive(
            "deploy/shop/web",
            until_s=3600.0,
            rate_per_s=0.2,
            lifetime=Lifetime(mean_s=600.0),
            field="events[1].arrive",
        ),
        NodeEvent(1800.0, "drain", "node-1", "events[2].drain"),
        NodeEvent(1800.0, "drain", "node-2", "events[2].drain"),
        NodeEvent(2400.0, "uncordon", "node-1", "events[3].uncordon"),
        Join(3000.0, "node-1", ("node-1-joined-1", "node-1-joined-2"), "events[4].join"),
        Join(3060.0, "node-1", ("node-9",), "events[5].join"),
        Apply(3120.0, ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},), "events[6].apply"),
        Delete(3180.0, (("Pod", "shop", "a"),)),
        Arrive("job/shop/nightly", 1.0, 1, lifetime=Lifetime(60.0), field="events[8].arrivals[0].workload"),
    )


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ("", "the file is empty", "a scenario is one document"),
        ("[]", "the scenario is [], not a map", "write field: value"),
        ("kind: Scenario", "apiVersion is null", "write apiVersion: tonnage.dev/v1alpha1"),
        ("apiVersion: v1\nkind: Scenario", 'apiVersion is "v1"', "write apiVersion: tonnage.dev/v1alpha1"),
        ("apiVersion: tonnage.dev/v1alpha1\nkind: Pod", 'kind is "Pod"', "write kind: Scenario"),
        (f"{HEAD}---\n{HEAD}", "the file holds 2 documents", "a scenario is one document"),
        (f"{HEAD}event: []", "event is not a field of a scenario here", "events"),
        (f"{HEAD}events: {{}}", "events is {}, not a list", "write a dash before each event"),
        (f"{HEAD}events:", "events has no value", "write one, or leave the field out"),
        (f"{HEAD}duration: 10", "duration is 10, not a span of time", "write 30s, 5m or 1h30m"),
        (f"{HEAD}duration: -5m", 'duration is "-5m", not a span of time', "write 30s, 5m or 1h30m"),
        (f"{HEAD}duration: 9000000h", "duration is", "write 30s"),
        (f"{HEAD}duration: 90000h", 'duration is "90000h"', "at most 8760h"),
        (f"{HEAD}storage: {{pick: best}}", 'storage.pick is "best"', "a driver picks by most-free, best-fit"),
        (f"{HEAD}storage: {{pick: [random]}}", 'storage.pick is ["random"]', "a driver picks by"),
        (f"{HEAD}storage: {{pik: random}}", "storage.pik is not a field", "pick"),
        (f"{HEAD}storage: {{overstates: 0}}", "storage.overstates is 0", "write a factor, such as 1.2"),
        (f"{HEAD}storage: {{overstates: 1e9}}", "storage.overstates is", "write a factor, such as 1.2"),
        (f"{HEAD}duration: 1h\nduration: 2h", 'key "duration" stands twice', "write it once"),
        (f"{HEAD}storage: {{attachSlots: 1.5}}", "storage.attachSlots is 1.5, not a count", "write a whole number"),
        (f"{HEAD}storage: {{rebuildRate: fast}}", 'storage.rebuildRate is "fast"', "write bytes a second"),
        (f"{HEAD}storage: {{rebuildRate: 0}}", "storage.rebuildRate is 0", "write more than nothing"),
        (f"{HEAD}storage: {{drivers: [a]}}", 'storage.drivers is ["a"]', "write NAME: {pick: random}"),
        (f"{HEAD}storage: {{drivers: {{a: {{x: 1}}}}}}", "storage.drivers.a.x is not a field", "the fields are pick"),
        (f"{HEAD}events: [1]", "events[0] is 1, not a map", "write field: value"),
        (f"{HEAD}events: [{{at: 1s}}]", "events[0] does not say what happens", "write one of arrive"),
        (f"{HEAD}events: [{{drain: a, fail: b}}]", "events[0] says drain and fail", "write one of arrive"),
        (f"{HEAD}events: [{{drain: a}}]", "events[0].at is not set", "write when, such as at: 10m"),
        (f"{HEAD}events: [{{at: 1s, drain: []}}]", "events[0].drain names no node", "write drain: node-1"),
        (f"{HEAD}events: [{{at: 1s, drain: [1]}}]", "events[0].drain is 1, not a name", "write a name"),
        (f"{HEAD}events: [{{at: 1s, drain: a, rate: 1/s}}]", "events[0].rate means nothing here", "beside it stand"),
        (f"{HEAD}events: [{{at: x, arrive: sts/db}}]", 'events[0].at is "x"', "write 30s, 5m or 1h30m"),
        (f"{HEAD}events: [{{arrive: sts/db, rate: 1/s}}]", "events[0].until is not set", "write until: 1h"),
        (
            f"{HEAD}events: [{{arrive: sts/db, rate: 1/day, until: 1h}}]",
            'events[0].rate is "1/day"',
            "12/min, 0.5/s or 30/h",
        ),
        (f"{HEAD}events: [{{arrive: sts/db, rate: 0/s, until: 1h}}]", 'events[0].rate is "0/s"', "12/min"),
        (f"{HEAD}events: [{{arrive: sts/db, rate: 99999/s, until: 1h}}]", "about 359,996,400 pods", "at most 1,000"),
        (f"{HEAD}events: [{{arrive: sts/db, rate: 1/s, from: 2h, until: 1h}}]", "before from", "write a later time"),
        (f"{HEAD}events: [{{arrive: sts/db, rate: 1/s, until: 1h, at: 1s}}]", "events[0].at means nothing", "beside"),
        (f"{HEAD}events: [{{arrive: sts/db, replicas: -1}}]", "events[0].replicas is -1, not a count", "whole number"),
        (f"{HEAD}events: [{{arrive: sts/db, replicas: 99999999}}]", "replicas is 99999999", "at most 1,000,000"),
        (f"{HEAD}events: [{{arrive: sts/db, lifetime: {{}}}}]", "events[0].lifetime.mean is not set", "lifetime: 10m"),
        (f"{HEAD}events: [{{arrivals: {{}}}}]", "events[0].arrivals is {}, not a list", "a dash before each arrival"),
        (f"{HEAD}events: [{{arrivals: [{{at: 1s}}]}}]", "events[0].arrivals[0].workload is not set", "a workload"),
        (f"{HEAD}events: [{{at: 1s, join: {{names: [a]}}}}]", "events[0].join.like is not set", "write like: NODE"),
        (f"{HEAD}events: [{{at: 1s, join: {{like: a}}}}]", "events[0].join needs names or a count", "names: [node-9]"),
        (f"{HEAD}events: [{{at: 1s, join: {{like: a, names: [B_]}}}}]", 'events[0].join.names[0] is "B_"', ""),
        (f"{HEAD}events: [{{at: 1s, join: {{like: a, names: [b, b]}}}}]", "names a node twice", "each name once"),
        (f"{HEAD}events: [{{at: 1s, apply: {{}}}}]", "events[0].apply is {}, not a list of objects", "a dash before"),
        (f"{HEAD}events: [{{at: 1s, apply: [x]}}]", 'events[0].apply[0] is "x", not an object', "as a manifest"),
        (f"{HEAD}events: [{{at: 1s, delete: [{{kind: Pod}}]}}]", "events[0].delete[0].name is not set", "{kind: Pod"),
    ],
)
def test_what_is_wrong_is_told_with_field_value_and_remedy(tmp_path: Path, text: str, told: str, hint: str) -> None:
    with pytest.raises(BrokenScenario) as found:
        read(tmp_path, text)
    assert found.value.message.startswith(f"{tmp_path / 'scenario.yaml'}: ")
    assert told in found.value.message
    assert hint in (found.value.hint or "")
    assert "\n" not in found.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "scenario.yaml"),
        ("events: [", "scenario.yaml"),
        ("a: &x [*x]", "scenario.yaml"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_file(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(TonnageError, match=told):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(TonnageError, match=r"nowhere\.yaml: cannot be read: No such file"):
        read_scenario(tmp_path / "nowhere.yaml")
