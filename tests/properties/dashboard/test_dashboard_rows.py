"""Rows that are kept up to date are those that a model makes afresh from the same objects: nothing is missed.

Objects of few names come, change and go in any order, and what the scheduler and the driver tell with them. After each
step the rows are compared with those of a model that knows only the objects of this moment.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.dashboard.model.cluster_model import ClusterModel
from tonnage.dashboard.model.driver_contents import Content, DriverContents, Place
from tonnage.dashboard.wire.collections import Collections
from tonnage.driver.names import DRIVER_NAME
from tonnage.faults import Fault
from tonnage.objects.apps_v1 import ReplicaSet
from tonnage.objects.codec import convert
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET
from tonnage.scheduling.configuration.storage_capacity_args import Reservation
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import (
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)
from tonnage.whatif.scheduler_memory import AssumedPod, HeldCapacity, SchedulerMemory

START = datetime(2026, 1, 1, tzinfo=UTC)
ZONE = "topology.kubernetes.io/zone"
COLLECTIONS = ("nodes", "capacities", "volumes", "pods", "classes")

names = st.sampled_from(["a", "b", "c"])
some = st.sampled_from(["", "a", "b"])
volume_names = st.sampled_from(["pv-1", "pv-2", "pv-3"])
claim_names = st.sampled_from(["d1", "d2"])
class_names = st.sampled_from(["fast", "slow"])
drivers = st.sampled_from(["csi.example", DRIVER_NAME])
instants = st.sampled_from([None, 0, 60, 400])


def at(seconds):
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@st.composite
def nodes(draw):
    labels = {ZONE: draw(st.sampled_from(["z1", "z2"])), "disk": draw(st.sampled_from(["x", "y"]))}
    return node(draw(names), labels=labels, unschedulable=draw(st.booleans()))


@st.composite
def claims(draw):
    annotations = {}
    if target := draw(some):
        annotations[REBUILD_TARGET] = target
    named = draw(st.sampled_from(["", "pv-1", "pv-2"]))
    name, uid = draw(claim_names), draw(st.sampled_from(["u1", "u2"]))
    return claim(
        name,
        class_name=draw(class_names),
        volume=named,
        bound=bool(named) and draw(st.booleans()),
        selected_node=draw(some),
        metadata={"annotations": annotations, "uid": f"{name}-{uid}"},
    )


@st.composite
def volumes(draw):
    labels = [("kubernetes.io/hostname", ["a", "b", "c"]), ("disk", ["x", "y"]), (ZONE, ["z1", "z2"])]
    key, values = draw(st.sampled_from(labels))
    affinity = {"key": key, "operator": "In", "values": draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))}
    owner = draw(st.sampled_from(["", "default/d1", "default/d2"]))
    uid = f"{owner.rpartition('/')[2]}-{draw(st.sampled_from(['u1', 'u2']))}"
    made_at = draw(instants)
    return volume(
        draw(volume_names),
        class_name=draw(class_names),
        affinity=draw(st.sampled_from([None, affinity])),
        claim=owner,
        claim_uid=draw(st.sampled_from(["", uid])),
        driver=draw(drivers),
        handle=draw(st.sampled_from(["h1", "h2", "h3"])),
        metadata={"creationTimestamp": at(made_at)} if made_at is not None else {},
    )


@st.composite
def pods(draw):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "default-rs", "controller": True}
    return pod_with(
        draw(st.sampled_from(["p1", "p2"])),
        *draw(st.lists(claim_names, max_size=2)),
        on=draw(some),
        metadata={"ownerReferences": draw(st.sampled_from([[], [owner]]))},
        status={"phase": draw(st.sampled_from(["Pending", "Running", "Failed"]))},
    )


@st.composite
def capacities(draw):
    topologies = [
        {},
        {"matchLabels": {"kubernetes.io/hostname": draw(names)}},
        {"matchLabels": {ZONE: "z1"}},
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["x"]}]},
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
        None,
    ]
    written_at = draw(instants)
    metadata = {"managedFields": [{"time": at(written_at)}]} if written_at is not None else {}
    return capacity(
        draw(class_names),
        name=draw(st.sampled_from(["c1", "c2", "c3"])),
        free="10Gi",
        topology=draw(st.sampled_from(topologies)),
        metadata=metadata,
    )


def owners():
    of = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
    meta = {"name": "rs", "namespace": "default", "uid": "default-rs"}
    return st.sampled_from([[], [of]]).map(
        lambda refs: convert(ReplicaSet, {"kind": "ReplicaSet", "metadata": {**meta, "ownerReferences": refs}})
    )


objects = st.one_of(
    nodes(),
    claims(),
    volumes(),
    pods(),
    capacities(),
    owners(),
    st.builds(storage_class, class_names, provisioner=drivers, group=st.sampled_from(["", "g"])),
    st.builds(driver, drivers, rebuilding=st.booleans()),
    st.builds(csi_node, names, st.sampled_from([{}, {"csi.example": 2}, {DRIVER_NAME: None}])),
    st.builds(attachment, st.sampled_from(["t1", "t2"]), volume_names, names, error=st.sampled_from(["", "full"])),
)
holds = st.builds(
    lambda mode, key, held: HeldCapacity(
        mode, f"kube-system/{key}", key, "default/p1", [f"default/{held}"], 1 << 30, START, "promised"
    ),
    st.sampled_from([Reservation.OBJECT, Reservation.LEDGER]),
    st.sampled_from(["c1", "c2"]),
    claim_names,
)
assumed = st.builds(
    lambda pod, on: AssumedPod(f"default/{pod}", f"default-{pod}", on), st.sampled_from(["p1", "p2"]), names
)
memories = st.builds(
    lambda held, sent: SchedulerMemory(held=held, pods=list({each.uid: each for each in sent}.values())),
    st.lists(holds, max_size=2),
    st.lists(assumed, max_size=2),
)
places = st.builds(Place, names, st.integers(0, 1))
lying = st.builds(
    Content,
    places,
    st.just(1 << 30),
    st.sampled_from(["", "pvc-d1-u1", "pvc-d2-u2"]),
    st.sampled_from([None, Place("b", 0)]),
)
known_contents = st.builds(
    lambda volumes, snapshots: DriverContents(
        DRIVER_NAME, {"a": (4 << 30, 2 << 30), "b": (9 << 30,)}, volumes, snapshots
    ),
    st.dictionaries(st.sampled_from(["h1", "h2"]), lying, max_size=2),
    st.dictionaries(places, st.just(5), max_size=1),
)
faults = st.lists(st.builds(Fault, st.sampled_from(["stale-figures", "dead"]), some), max_size=1)
steps = st.one_of(
    st.tuples(st.just("put"), objects),
    st.tuples(st.just("remove"), objects),
    st.tuples(st.just("remember"), memories),
    st.tuples(st.just("look_into"), known_contents),
    st.tuples(st.just("suffer"), faults),
    st.tuples(st.just("wait"), st.sampled_from([30, 200])),
)


def rows_of(model):
    return {name: dict(model.collections.rows(name)) for name in COLLECTIONS}


def afresh(model):
    """The rows of a model that is told everything at once."""
    other = ClusterModel(Collections())
    other.remember(model.memory)
    other.suffer(model.faults)
    other.look_into(model.contents)
    for each in reversed(list(model.objects)):
        other.put(each)
    other.settle(model.now)
    return rows_of(other)


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_rows_kept_up_to_date_are_those_made_afresh(taken):
    model, now = ClusterModel(Collections()), START
    for verb, what in taken:
        if verb == "wait":
            now += timedelta(seconds=what)
        else:
            getattr(model, verb)(what)
        model.settle(now)
        assert rows_of(model) == afresh(model), (verb, what)
