"""What doctor can find: one table of stable names, each with its severity and meaning.

    CATALOGUE["capacity-nil-topology"].about("CSIStorageCapacity kube-system/a", "it has no …", "set nodeTopology …")

A name has one severity. Scripts may rely on both; docs/whatif.md has the same table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIDriver


class Severity(StrEnum):
    ERROR = "error"
    """Affected pods cannot be placed correctly, or data is out of reach."""
    WARNING = "warning"
    """Something is wrong or will be, though pods run."""
    INFO = "info"


NOTHING: Final = "nothing has to be done"
WEAKER: Final = "which weakens the promise that volumes fit"
"""Accompanies every remedy that weakens checks."""
WORST_FIRST: Final = (Severity.ERROR, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    severity: Severity
    object: str
    message: str
    remedy: str
    driver: str = ""

    def document(self) -> dict[str, Any]:
        found = {
            "name": self.name,
            "severity": self.severity.value,
            "object": self.object,
            "message": self.message,
            "remedy": self.remedy,
        }
        return {**found, **({"driver": self.driver} if self.driver else {})}


@dataclass(frozen=True, slots=True)
class FindingKind:
    name: str
    severity: Severity
    meaning: str

    def about(self, found: Object | str, message: str, remedy: str, *, driver: str = "") -> Finding:
        """A finding about an object. For a CSIDriver object `driver` is that driver."""
        named = found if isinstance(found, str) else f"{type(found).__name__} {found.key}"
        driver = driver or (found.name if isinstance(found, CSIDriver) else "")
        return Finding(self.name, self.severity, named, message, remedy, driver)


def _table(severity: Severity, *rows: tuple[str, str]) -> Iterable[tuple[str, FindingKind]]:
    return [(name, FindingKind(name, severity, meaning)) for name, meaning in rows]


CATALOGUE: Final[Mapping[str, FindingKind]] = dict(
    [
        *_table(
            Severity.ERROR,
            ("capacity-missing", "a driver says that it publishes capacity, and has published none for a class"),
            ("permission-missing", "the scheduler's account lacks a permission that it needs"),
            ("pools-unreadable", "the annotation with an object's pools is no list of quantities"),
            ("volume-left-behind", "the nodes that a volume can be reached from are gone, and its data with them"),
        ),
        *_table(
            Severity.WARNING,
            ("api-server-too-old", "the API server has no storage.k8s.io/v1 CSIStorageCapacity"),
            ("attach-limit-exceeded", "more volumes are attached to a node than its driver allows"),
            ("attach-limit-on-some-nodes", "a driver tells its attach limit on some nodes only"),
            ("attach-limit-zero", "a node takes no volumes of a driver at all"),
            ("attach-refused", "a driver refuses to attach a volume"),
            ("capacity-group-alone", "a capacity group that has no effect: one class, or classes of several drivers"),
            ("capacity-missing-on-node", "a driver runs on a node that no capacity object of a class reaches"),
            ("capacity-nil-topology", "a capacity object without nodeTopology, which reaches no node"),
            ("capacity-not-checked", "capacity objects of a driver that says storageCapacity: false"),
            ("capacity-of-missing-class", "a capacity object for a class that is not there"),
            ("capacity-reaches-no-node", "a capacity object whose nodeTopology selects no node"),
            ("capacity-says-nothing", "a capacity object without any figure, into which nothing fits"),
            ("capacity-stale", "an object that did not change when volumes were made from it, though others did"),
            ("claim-of-missing-class", "a claim that waits for a class that is not there"),
            ("class-without-driver", "a class whose provisioner has no CSIDriver, so that no capacity is checked"),
            ("classes-share-disks", "classes of one driver that tell the same figures everywhere"),
            ("driver-unregistered", "a driver that is on no node"),
            ("immediate-binding", "volumes of a local driver that are made before their pod is placed"),
            ("kind-not-listed", "objects that cannot be read and count as none"),
            ("permission-advised", "the scheduler's account lacks a permission that it can do without, at a price"),
            ("pods-pending", "pods that wait, and why"),
            ("pods-would-become-pending", "pods that kube-scheduler would place, and Tonnage would not"),
            ("pool-policy-unreadable", "the annotation that says how a driver picks pools is none of those there are"),
            ("pools-stale", "pools kept by tonnage pools, whose source has fallen silent, or that nobody keeps"),
            ("rebuild-stuck", "a volume on its way to a node where it does not arrive"),
            ("rebuilding-needs-gate", "a driver that rebuilds volumes, on a server that lets none leave its node"),
            ("selected-node-gone", "a claim that waits for a volume on a node that is gone"),
            ("thin-provisioning", "figures that do not follow the volumes made from them"),
            (
                "volumes-would-be-refused",
                "pods that kube-scheduler would send where no room is for their volumes",
            ),
        ),
        *_table(
            Severity.INFO,
            ("api-server-version", "which Kubernetes it is"),
            ("attach-limit-not-refreshed", "attach limits that nobody corrects while a node runs (KEP-4876)"),
            ("attach-limit-unknown", "a driver that attaches volumes and tells no limit on any node"),
            ("capacity-without-pools", "a driver that tells sums instead of pools (KEP-5925)"),
            ("configuration", "which settings of Tonnage fit this cluster, and why"),
            ("driver-on-some-nodes", "a driver that is not on every node"),
            ("driver-summary", "what is known of a driver"),
            ("feature-gates", "which gates the API server shows to be on or off"),
            ("gates-beyond-kube-scheduler", "gates that Tonnage has on, and kube-scheduler of this release off"),
            ("nomination-of-missing-node", "a pod that is expected on a node that is not there"),
            ("permission-unknown", "permissions of which it is not known whether the scheduler has them"),
            ("pods-would-move", "pods that Tonnage would place, but not where they run"),
            ("pods-would-stop-pending", "pods that wait, and that Tonnage would place"),
            ("provisioner-not-csi", "a class whose volumes are made by something that is no CSI driver"),
            ("volume-awaits-rebuild", "a volume whose nodes are gone, and that its driver makes anew (KEP-5925)"),
        ),
    ]
)
"""Every possible finding, by severity and then by name."""
