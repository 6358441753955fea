"""Every finding of doctor has a cluster where it is true and one where it is not, and no advice weakens unsaid."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pytest

from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1.persistent_volume import BIND_COMPLETED, REBUILD_TARGET, SELECTED_NODE
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import (
    AVAILABLE_CAPACITIES,
    POOL_POLICY,
    POOLS_SOURCE,
    POOLS_STALE_SINCE,
    VOLUME_COPIES,
)
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.testing.builders import node, pod
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
from tonnage.whatif.doctor.capacity_checks import figures_of
from tonnage.whatif.doctor.examination import examine
from tonnage.whatif.doctor.facts import (
    CATALOGUE,
    WEAKER,
    Facts,
    Finding,
    GateSign,
    GrantedAccess,
    Permission,
    ServerFacts,
)
from tonnage.whatif.sources import ClusterState

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
DRIVER = "csi.example"
NODES = (node("n1"), node("n2"), node("n3"))


class Cluster(NamedTuple):
    objects: tuple[Object, ...]
    more: dict[str, Any]

    def findings(self) -> list[Finding]:
        state = ClusterState(self.objects, "the test", VirtualClock(NOW))
        facts = replace(Facts(self.objects, NOW, source="the test"), **self.more)
        return list(examine(facts, state, default_configuration()).findings)


def cluster(*objects: Object, **more: Any) -> Cluster:
    return Cluster(objects, more)


def base(*, without: str = "", **of_driver: Any) -> list[Object]:
    """Three nodes with a driver that lists pools, and nothing wrong; `without` is a kind or a name."""
    found: list[Object] = [
        *NODES,
        driver(**{"nodeAllocatableUpdatePeriodSeconds": 60, **of_driver}),
        storage_class(),
        *(csi_node(each.name, {DRIVER: 8}) for each in NODES),
        *(capacity(node=each.name, pools=["100Gi", "50Gi"]) for each in NODES),
    ]
    return [each for each in found if without not in (type(each).__name__, f"{type(each).__name__} {each.name}")]


def at(minutes_ago: float) -> str:
    return (NOW - timedelta(minutes=minutes_ago)).isoformat().replace("+00:00", "Z")


def told(free: str, on: str, *, written: float, born: float = 9999) -> Object:
    """A capacity object that was last written so many minutes ago."""
    fields = [{"manager": "p", "operation": "Update", "time": at(written)}]
    return capacity(node=on, free=free, metadata={"managedFields": fields, "creationTimestamp": at(born)})


def used(size: str, on: str, minutes_ago: float) -> Object:
    return volume(f"pv-{on}-{minutes_ago:g}", size, on=on, metadata={"creationTimestamp": at(minutes_ago)})


def filled(*, written: float, born: float = 9999, made: float = 50) -> list[Object]:
    """A volume of 20Gi on each node, and a figure of 80Gi, last written then."""
    names = [each.name for each in NODES]
    figures = [told("80Gi", name, written=written, born=born) for name in names]
    return [*figures, *(used("20Gi", name, made) for name in names)]


def limits(*counts: int | None) -> list[Object]:
    found = base(without="CSINode")
    return [*found, *(csi_node(each.name, {DRIVER: count}) for each, count in zip(NODES, counts, strict=True))]


def odd(**about: Any) -> list[Object]:
    return [*base(), capacity(name="odd", **about)]


def kept(**annotations: str) -> Object:
    about = {AVAILABLE_CAPACITIES: "100Gi", POOLS_SOURCE: "openebs-lvm", **annotations}
    return capacity(node="n1", free="100Gi", name="kept", metadata={"annotations": about})


def server(minor: int = 36, **gates: bool | None) -> ServerFacts:
    signs = {name: GateSign(is_on, "metrics") for name, is_on in gates.items()}
    return ServerFacts(f"v1.{minor}.0", 1, minor, signs)


def access(answer: bool | None, *, is_needed: bool = True) -> list[GrantedAccess]:
    return [GrantedAccess(Permission("create", "", "pods", "binding", is_needed=is_needed), answer, "forbidden")]


SUMS: Final = base(without="CSIStorageCapacity")
BARE: Final = [
    node("n1"),
    driver(),
    storage_class(),
    capacity(node="n1", free="150Gi", maximum="100Gi", pools=["100Gi", "50Gi"]),
]
REBUILDING: Final = base(rebuilding=True)
MISSING_DRIVER: Final = [
    *(node("n1"), node("n2"), storage_class(), csi_node("n1", {}), csi_node("n2", {DRIVER: 8})),
    driver(preventPodSchedulingIfMissing=True, capacity=False),
    *(claim("data", volume="pv"), pod_with("db", "data", on="n1")),
]
LOCAL_PATH: Final = storage_class("local", provisioner="rancher.io/local-path")
UNKNOWN_CLASS: Final = storage_class("odd", provisioner="odd.example")


def rebuild_to(target: str) -> list[Object]:
    about = {SELECTED_NODE: target, REBUILD_TARGET: target, BIND_COMPLETED: "yes"}
    return [
        *REBUILDING,
        volume("pv", "1Gi", claim="default/data"),
        claim("data", volume="pv", metadata={"annotations": about}),
    ]


def pods(**sizes: str) -> list[Object]:
    return [each for name, size in sizes.items() for each in (claim(name, size), pod_with(f"pod-{name}", name))]


TRUE_AND_NOT: Final[dict[str, tuple[Cluster, Cluster]]] = {
    "capacity-missing": (cluster(*SUMS), cluster(*base())),
    "permission-missing": (
        cluster(*base(), access=access(False)),
        cluster(*base(), access=access(True)),
    ),
    "pools-unreadable": (
        cluster(*odd(node="n1", free="9Gi", metadata={"annotations": {AVAILABLE_CAPACITIES: "1Gi,lots"}})),
        cluster(*odd(node="n1", free="9Gi", metadata={"annotations": {AVAILABLE_CAPACITIES: "1Gi,2Gi"}})),
    ),
    "volume-left-behind": (cluster(*base(), volume("pv", on="gone")), cluster(*base(), volume("pv", on="n1"))),
    "api-server-too-old": (cluster(*base(), server=server(23)), cluster(*base(), server=server(24))),
    "attach-limit-exceeded": (
        cluster(*limits(1, 8, 8), *(attachment(f"a{n}", f"pv{n}", "n1") for n in range(2))),
        cluster(*limits(2, 8, 8), *(attachment(f"a{n}", f"pv{n}", "n1") for n in range(2))),
    ),
    "attach-limit-on-some-nodes": (cluster(*limits(8, 8, None)), cluster(*limits(None, None, None))),
    "attach-limit-zero": (cluster(*limits(0, 8, 8)), cluster(*limits(1, 8, 8))),
    "attach-refused": (
        cluster(*base(), attachment("a", "pv", "n1", attached=False, error="no slot")),
        cluster(*base(), attachment("a", "pv", "n1", attached=False)),
    ),
    "capacity-group-alone": (
        cluster(*base(without="StorageClass"), storage_class(group="g")),
        cluster(
            *base(without="StorageClass"),
            *(storage_class(name, group="g") for name in ("fast", "other")),
        ),
    ),
    "capacity-missing-on-node": (cluster(*base(without="CSIStorageCapacity fast-n2")), cluster(*base())),
    "capacity-nil-topology": (cluster(*odd(free="1Gi")), cluster(*odd(node="n1", free="1Gi"))),
    "capacity-not-checked": (cluster(*base(capacity=False)), cluster(*base())),
    "capacity-not-published": (
        cluster(*base(), storage_class("drives", provisioner="directpv-min-io")),
        cluster(*base(), storage_class("drives", provisioner="any.example")),
    ),
    "capacity-of-missing-class": (
        cluster(*odd(class_name="lost", node="n1", free="1Gi")),
        cluster(*odd(node="n1", free="1Gi")),
    ),
    "capacity-reaches-no-node": (cluster(*odd(node="gone", free="1Gi")), cluster(*odd(node="n1", free="1Gi"))),
    "capacity-says-nothing": (cluster(*odd(node="n1")), cluster(*odd(node="n1", free="0"))),
    "capacity-stale": (  # its object was written for the first volume, and not for the second
        cluster(*SUMS, told("80Gi", "n1", written=60), used("20Gi", "n1", 60), used("10Gi", "n1", 30)),
        cluster(*SUMS, told("70Gi", "n1", written=30), used("20Gi", "n1", 60), used("10Gi", "n1", 30)),
    ),
    "claim-of-missing-class": (cluster(*base(), claim("c", class_name="lost")), cluster(*base(), claim("c"))),
    "class-without-driver": (
        cluster(*base(), UNKNOWN_CLASS),
        cluster(*base(), LOCAL_PATH),
    ),
    "classes-share-disks": (
        cluster(*base(), storage_class("other"), *(capacity("other", n.name, pools=["100Gi", "50Gi"]) for n in NODES)),
        cluster(*base(), storage_class("other"), *(capacity("other", n.name, pools=["90Gi", "50Gi"]) for n in NODES)),
    ),
    "driver-unregistered": (
        cluster(*base(without="CSINode"), *(csi_node(each.name, {"other": 1}) for each in NODES)),
        cluster(*base()),
    ),
    "immediate-binding": (
        cluster(*base(without="StorageClass"), storage_class(delayed=False)),
        cluster(*base()),
    ),
    "kind-not-listed": (cluster(*base(), unlisted={"CSINode": "forbidden"}), cluster(*base())),
    "permission-advised": (
        cluster(*base(), access=access(False, is_needed=False)),
        cluster(*base(), access=access(True, is_needed=False)),
    ),
    "pods-pending": (cluster(*base(), *pods(big="400Gi")), cluster(*base(), *pods(small="40Gi"))),
    "pods-would-become-pending": (
        cluster(*MISSING_DRIVER, volume("pv", "1Gi", on="n1", claim="default/data")),
        cluster(*MISSING_DRIVER, volume("pv", "1Gi", claim="default/data")),
    ),
    "free-volumes-unreadable": (
        cluster(*base(), capacity("fast", "n1", pools=["1Gi"], free_volumes="few", name="odd")),
        cluster(*base(), capacity("fast", "n1", pools=["1Gi"], free_volumes=3, name="odd")),
    ),
    "pool-ids-unreadable": (
        cluster(*base(), capacity("fast", "n1", pools=["1Gi", "2Gi"], pool_ids="a", name="odd")),
        cluster(*base(), capacity("fast", "n1", pools=["1Gi", "2Gi"], pool_ids="a,b", name="odd")),
    ),
    "pool-policy-unreadable": (
        cluster(*base(without="StorageClass"), storage_class(pool_policy="odd")),
        cluster(*base(without="StorageClass"), storage_class(pool_policy="best-fit")),
    ),
    "pools-stale": (
        cluster(*base(), kept(**{POOLS_STALE_SINCE: "2026-11-01T11:00:00Z"})),
        cluster(*base(), kept()),
    ),
    "rebuild-stuck": (cluster(*rebuild_to("gone")), cluster(*rebuild_to("n2"))),
    "rebuilding-needs-gate": (
        cluster(*REBUILDING, server=server(MutablePVNodeAffinity=False)),
        cluster(*REBUILDING, server=server(MutablePVNodeAffinity=True)),
    ),
    "selected-node-gone": (
        cluster(*base(), claim("c", selected_node="gone")),
        cluster(*base(), claim("c", selected_node="n1")),
    ),
    "size-rules-missing": (
        cluster(*base(without="StorageClass"), storage_class(provisioner="topolvm.io")),
        cluster(*base(without="StorageClass"), storage_class(provisioner="topolvm.io", size_rules="extent=4Mi")),
    ),
    "size-rules-unreadable": (
        cluster(*base(without="StorageClass"), storage_class(size_rules="steps=1Gi")),
        cluster(*base(without="StorageClass"), storage_class(size_rules="step=1Gi")),
    ),
    "thin-provisioning": (  # written once, long before any volume
        cluster(
            *SUMS, *(x for n in NODES for x in (told("80Gi", n.name, written=100, born=100), used("20Gi", n.name, 50)))
        ),
        cluster(*SUMS, *(x for n in NODES for x in (told("80Gi", n.name, written=50), used("20Gi", n.name, 50)))),
    ),
    "volumes-would-be-refused": (
        cluster(*BARE, claim("c", "90Gi"), claim("d", "60Gi"), pod_with("db", "c", "d")),
        cluster(*BARE, claim("c", "90Gi"), claim("d", "50Gi"), pod_with("db", "c", "d")),
    ),
    "api-server-version": (cluster(*base(), server=server()), cluster(*base())),
    "attach-limit-not-refreshed": (cluster(*base(nodeAllocatableUpdatePeriodSeconds=None)), cluster(*base())),
    "attach-limit-unknown": (cluster(*limits(None, None, None)), cluster(*limits(8, 8, None))),
    "capacity-without-pools": (
        cluster(*SUMS, *(capacity(node=n.name, free="300Gi", maximum="100Gi") for n in NODES)),
        cluster(*SUMS, *(capacity(node=n.name, free="100Gi", maximum="100Gi") for n in NODES)),
    ),
    "driver-on-some-nodes": (cluster(*base(without="CSINode n3")), cluster(*base())),
    "driver-summary": (cluster(*base()), cluster(*base(without="CSIDriver"))),
    "feature-gates": (
        cluster(*base(), server=server(CSIStorageCapacityV2=True)),
        cluster(*base(), server=server()),
    ),
    "gates-beyond-kube-scheduler": (cluster(*base(), server=server()), cluster(*base())),
    "nomination-of-missing-node": (
        cluster(*base(), pod("p", status={"nominatedNodeName": "gone"})),
        cluster(*base(), pod("p", status={"nominatedNodeName": "n1"})),
    ),
    "permission-unknown": (
        cluster(*base(), access=access(None)),
        cluster(*base(), access=access(False)),
    ),
    "pods-would-move": (
        cluster(*MISSING_DRIVER, volume("pv", "1Gi", claim="default/data")),
        cluster(*MISSING_DRIVER, volume("pv", "1Gi", on="n1", claim="default/data")),
    ),
    "pods-would-stop-pending": (cluster(*base(), *pods(small="40Gi")), cluster(*base(), *pods(big="400Gi"))),
    "provisioner-not-csi": (cluster(*base(), LOCAL_PATH), cluster(*base(), UNKNOWN_CLASS)),
    "volume-awaits-rebuild": (
        cluster(*REBUILDING, volume("pv", on="gone")),
        cluster(*base(), volume("pv", on="gone")),
    ),
    "volume-copies": (
        cluster(*base(), storage_class("copied", annotations={VOLUME_COPIES: "3"})),
        cluster(*base(), storage_class("copied", annotations={VOLUME_COPIES: "1"})),
    ),
}
"""By finding, a cluster where it is found and one like it where it is not."""
ALWAYS: Final = ("configuration",)
"""Findings that every cluster has: what fits it."""


def test_every_finding_has_a_cluster_where_it_is_true_and_one_where_it_is_not():
    assert {*TRUE_AND_NOT, *ALWAYS} == set(CATALOGUE)


@pytest.mark.parametrize("name", TRUE_AND_NOT)
def test_a_finding_is_told_where_it_is_true_and_not_where_it_is_not(name: str):
    is_true, is_not = TRUE_AND_NOT[name]
    assert name in {each.name for each in is_true.findings()}
    assert name not in {each.name for each in is_not.findings()}


WEAKENING: Final = ("=false", ": false", "--remove", "Independent", "nodeTopology to", POOL_POLICY)
"""What an advice must not name without saying that less is checked after it."""


@pytest.mark.parametrize("name", TRUE_AND_NOT)
def test_no_advice_weakens_the_promise_unsaid(name: str):
    for each in TRUE_AND_NOT[name][0].findings():
        if any(word in each.remedy for word in WEAKENING):
            assert WEAKER in each.remedy, each.remedy


@pytest.mark.parametrize("volumes", [(), (volume("pv", class_name="odd", driver=None, on="n1"),)])
def test_a_provisioner_is_told_by_its_volumes_where_its_name_is_not_known(volumes: tuple[Object, ...]):
    found = {each.name for each in cluster(*base(), UNKNOWN_CLASS, *volumes).findings()}
    assert ("provisioner-not-csi" in found, "class-without-driver" in found) == (bool(volumes), not volumes)


@pytest.mark.parametrize(
    ("objects", "provisioning"),
    [
        ([told("80Gi", "n1", written=50), used("20Gi", "n1", 50)], "unknown"),  # once may be chance
        (filled(written=50), "thick"),  # written with the volumes, and not since
        (filled(written=1, made=1), "unknown"),  # just now: it may go on changing
        (filled(written=5), "unknown"),  # written since, as a thin driver's are
        (filled(written=100, born=100), "thin"),  # never written because of a volume
        (filled(written=100), "thin"),
        ([told("100Gi", "n1", written=9), told("71600Mi", "n2", written=9), used("30Gi", "n2", 90)], "thick"),
        ([*(told("1000Gi", n.name, written=9) for n in NODES), used("500Gi", "n2", 90)], "thin"),
    ],
)
def test_thin_and_exact_drivers_are_told_apart_by_figures_against_volumes(objects, provisioning):
    found = figures_of(Facts((*SUMS, *objects), NOW))[DRIVER]
    assert found.provisioning == provisioning
    assert bool(found.evidence) == (provisioning != "unknown")
