"""What doctor can find: one table of stable names, each with its severity.

    CATALOGUE["capacity-nil-topology"].about("CSIStorageCapacity kube-system/a", "it has no …", "set nodeTopology …")

A name has one severity. Scripts may rely on both.
"""

from __future__ import annotations

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


NOTHING: Final = "nothing to do"
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

    def about(self, found: Object | str, message: str, remedy: str, *, driver: str = "") -> Finding:
        """A finding about an object. For a CSIDriver object `driver` is that driver."""
        named = found if isinstance(found, str) else f"{type(found).__name__} {found.key}"
        driver = driver or (found.name if isinstance(found, CSIDriver) else "")
        return Finding(self.name, self.severity, named, message, remedy, driver)


_NAMES: Final = {
    Severity.ERROR: """
        capacity-missing permission-missing pools-unreadable volume-left-behind
    """,
    Severity.WARNING: """
        api-server-too-old attach-limit-exceeded attach-limit-on-some-nodes attach-limit-zero attach-refused
        capacity-group-alone capacity-missing-on-node capacity-nil-topology capacity-not-checked
        capacity-not-published capacity-of-missing-class capacity-reaches-no-node capacity-says-nothing capacity-stale
        claim-of-missing-class class-without-driver classes-share-disks driver-unregistered
        free-volumes-unreadable immediate-binding kind-not-listed permission-advised pods-pending
        pods-would-become-pending pool-ids-unreadable pool-policy-unreadable pools-stale
        rebuild-stuck rebuilding-needs-gate selected-node-gone size-rules-missing size-rules-unreadable
        thin-provisioning volumes-would-be-refused
    """,
    Severity.INFO: """
        api-server-version attach-limit-not-refreshed attach-limit-unknown capacity-without-pools configuration
        driver-on-some-nodes driver-summary feature-gates gates-beyond-kube-scheduler nomination-of-missing-node
        permission-unknown pods-would-move pods-would-stop-pending provisioner-not-csi volume-awaits-rebuild
        volume-copies
    """,
}
CATALOGUE: Final = {name: FindingKind(name, kind) for kind, names in _NAMES.items() for name in names.split()}
"""Every possible finding, by severity and then by name; docs/reference/json.md says what each means."""
