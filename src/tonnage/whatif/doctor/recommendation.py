"""Which `reservation`, `legacyPools` and `poolFit` suit a cluster, with reasons, and a configuration file with them.

reservation   Ledger counts promises until figures show them; None where no driver publishes capacity.
legacyPools   matters only where an object has a sum. Bounded: both figures are necessary. Independent would admit more
              where figures do not follow volumes, and promise less: it is never recommended.
poolFit       Prefer: nodes where volumes fit more surely come first. With one pool or one claim it is Possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tonnage.printable import printable
from tonnage.scheduling.configuration.plugin_args import LegacyPools, PoolFit, Reservation
from tonnage.whatif.doctor.capacity_checks import SOURCES_OF_POOLS, DriverFigures, Provisioning
from tonnage.whatif.doctor.facts import Facts
from tonnage.whatif.doctor.findings import CATALOGUE, WEAKER, Finding
from tonnage.whatif.page import named

SCHEDULER_NAME = "tonnage"
_ASKING_FOR_POOLS = ("capacity-without-pools", "classes-share-disks", "size-rules-missing")
"""Findings whose remedy is `tonnage pools`."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    reservation: Reservation
    why: Mapping[str, str]
    legacy_pools: ClassVar = LegacyPools.BOUNDED
    pool_fit: ClassVar = PoolFit.PREFER

    @property
    def file(self) -> str:
        """A KubeSchedulerConfiguration with these settings, for a second scheduler in the cluster."""
        return f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{resourceName: {SCHEDULER_NAME}-scheduler}}
profiles:
- schedulerName: {SCHEDULER_NAME}
  pluginConfig:
  - name: StorageCapacity
    args:
      apiVersion: tonnage.dev/v1alpha1
      kind: StorageCapacityArgs
      reservation: {self._written_reservation}
      legacyPools: {self.legacy_pools}
      poolFit: {self.pool_fit}
"""

    @property
    def _written_reservation(self) -> str:
        return "'None'" if self.reservation is Reservation.NONE else self.reservation  # None is null in YAML

    def helm_values(self, findings: Iterable[Finding]) -> str:
        """The settings, and `tonnage pools` where a finding asks for it, as values of the chart."""
        asking: dict[str, set[str]] = {}
        for finding in findings:
            if finding.name in _ASKING_FOR_POOLS and (source := SOURCES_OF_POOLS.get(finding.driver)) is not None:
                asking.setdefault(source, set()).add(finding.name)
        lines = [
            *("scheduler:", f"  schedulerName: {SCHEDULER_NAME}", "  storageCapacity:"),
            f"    # {printable(self.why['reservation'])}",
            f"    reservation: {self._written_reservation}",
            f"    # {printable(self.why['legacyPools'])}",
            f"    legacyPools: {self.legacy_pools}",
            f"    # {printable(self.why['poolFit'])}",
            f"    poolFit: {self.pool_fit}",
        ]
        for number, (source, names) in enumerate(sorted(asking.items())):
            if number:  # a release runs `tonnage pools` for one source
                lines += [f"# and in a release of its own, with scheduler.enabled: false, pools.source: {source}"]
                continue
            lines += [f"# doctor found: {', '.join(sorted(names))}", "pools:", "  enabled: true", f"  source: {source}"]
            lines += ["  setCapacityGroups: true"] if "classes-share-disks" in names else []
        return "\n".join(lines) + "\n"

    def document(self) -> dict[str, Any]:
        return {
            "reservation": self.reservation.value,
            "legacyPools": self.legacy_pools.value,
            "poolFit": self.pool_fit.value,
            "why": dict(self.why),
            "file": self.file,
        }


def recommendation_of(facts: Facts, figures: Mapping[str, DriverFigures]) -> Recommendation:
    publishing = {
        name: each for name, each in figures.items() if any(facts.is_checked(found) for found in each.objects)
    }
    reservation, why = _reservation(publishing)
    reasons = {"legacyPools": _why_bounded(publishing), "poolFit": _why_preferred(facts, publishing)}
    return Recommendation(reservation, {"reservation": why, **reasons})


def _reservation(publishing: Mapping[str, DriverFigures]) -> tuple[Reservation, str]:
    if not publishing:
        return Reservation.NONE, "no driver publishes capacity: there is nothing to reserve, and no promise to weaken"
    slow = [name for name, each in publishing.items() if each.stale or each.provisioning is Provisioning.THIN]
    if slow:
        return Reservation.LEDGER, (
            f"figures of {named(slow)} lag behind; promised bytes are counted until the figures show them; Object "
            "would hold back whole capacity objects for that long"
        )
    return Reservation.LEDGER, "promised bytes are counted until the figures show them; no pod waits for a refresh"


def _why_bounded(publishing: Mapping[str, DriverFigures]) -> str:
    sums = {name: each for name, each in publishing.items() if each.sums}
    thin = [name for name, each in sums.items() if each.provisioning is Provisioning.THIN]
    if not sums:
        return f"it is not used, since {'every object lists its pools' if publishing else 'there are no objects'}"
    if thin and len(thin) == len(sums):
        return (
            f"{named(thin)} reports sums that do not change with its volumes; Independent, which checks each claim by "
            f"itself, would let more pods in, {WEAKER}"
        )
    several = [name for name, each in sums.items() if each.sums_beyond_one_volume]
    if several:
        return (
            f"{named(several)} reports a sum larger than its largest volume: both are limits, and Strict would refuse "
            "pods that run today"
        )
    return f"{named(list(sums))} reports one number in each object: Strict and Bounded then mean the same"


def _why_preferred(facts: Facts, publishing: Mapping[str, DriverFigures]) -> str:
    picking = {name for name, each in publishing.items() if each.most_pools > 1}
    if not picking:
        return "no object lists several pools, so the driver has no choice"
    pods = sorted(_pods_with_several_claims(facts, picking))
    if not pods:
        return "no pod has several claims of a class whose driver picks among pools"
    return (
        f"{named(sorted(picking))} picks among several pools, and pods have several claims of one class "
        f"({named(pods)}): nodes where they fit whatever pools it picks come first, nodes where a bad pick may refuse "
        "a volume come last; Guaranteed leaves the last ones out"
    )


def _pods_with_several_claims(facts: Facts, drivers: set[str]) -> Iterator[str]:
    """The pods that have more than one claim of one class of these drivers."""
    for key, pod in facts.pods.items():
        claims = map(facts.claims.get, pod.claim_keys())
        classes = Counter(claim.class_name for claim in claims if claim is not None)
        if any(count > 1 and facts.driver_of_class(name) in drivers for name, count in classes.items()):
            yield key


def configuration_finding(recommended: Recommendation) -> Finding:
    reasons = "; ".join(
        f"{setting}: {value} ({recommended.why[setting]})"
        for setting, value in (
            ("reservation", recommended.reservation),
            ("legacyPools", recommended.legacy_pools),
            ("poolFit", recommended.pool_fit),
        )
    )
    return CATALOGUE["configuration"].about(
        "KubeSchedulerConfiguration tonnage",
        reasons,
        "save the file below and start `tonnage scheduler --config FILE`, or install the chart with the values that "
        f"`-o helm-values` prints; pods choose it with schedulerName: {SCHEDULER_NAME}",
    )
