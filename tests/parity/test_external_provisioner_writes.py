"""What the ledger keeps back while external-provisioner makes volumes, write by write, in the orders it writes in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.scheduling_sight import promised
from support.virtual_clock import VirtualClock
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.bind_volumes import asking_for
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

GI = 1 << 30
CASES = yaml.safe_load((Path(__file__).parent / "external_provisioner_writes.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=[each["name"] for each in CASES])
def test_a_promise_ends_with_the_write_that_makes_its_volume_and_its_figure_known(case: dict[str, Any]) -> None:
    cluster = Cluster(VirtualClock())
    storage = cluster.storage
    cluster.put_node(node("node-1"))
    free = capacity("fast", "node-1", "100Gi", metadata={"resourceVersion": "1800"})
    for each in (storage_class(), driver(), free):
        storage.put(each)
    ledger = add_indexes(cluster).index(Ledger)
    for name, size in case["decided"].items():
        storage.put(claim(name, f"{size}Gi", metadata={"resourceVersion": "1801"}))
        planned = asking_for(claim(name, f"{size}Gi", metadata={"resourceVersion": "1801"}), "node-1")
        storage.claims.assume(planned)
        ledger.reserve(free, PodInfo(pod_with(f"pod-{name}", name)), [planned])
    for write in case["writes"]:
        storage_write(storage, case, write)
        ledger.catch_up()
        assert [each // GI for each in promised(ledger, "kube-system-fast-node-1")] == write["promised"], write
    assert cluster.clock.monotonic() == 0, "no clock ended anything"


def storage_write(storage: Any, case: dict[str, Any], write: dict[str, Any]) -> None:
    meta = {"resourceVersion": str(write["revision"])}
    (what,) = write.keys() - {"revision", "promised"}
    if what == "figure":
        storage.put(capacity("fast", "node-1", f"{write[what]}Gi", metadata=meta))
        return
    name = write[what]
    size = case["decided"][name]
    made = volume(
        f"pv-{name}",
        f"{case.get('sizes', {}).get(name, size)}Gi",
        on="node-1",
        claim=f"default/{name}",
        metadata={**meta, "creationTimestamp": "2026-11-16T12:00:00Z"},
    )
    if what == "volume":
        storage.put(made)
    elif what == "volumeGone":
        storage.remove(made)
    else:
        bound_to = f"pv-{name}" if what == "bound" else ""
        storage.put(claim(name, f"{size}Gi", selected_node="node-1", metadata=meta, volume=bound_to))
