"""Every check, by a name that scripts may rely on, and what was found of a driver, check by check.

docs/drivers/writing-a-driver.md has the same table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class DriverCheck:
    name: str
    contract: str
    remedy: str


def _table(*rows: tuple[str, str, str]) -> Mapping[str, DriverCheck]:
    return {name: DriverCheck(name, contract, remedy) for name, contract, remedy in rows}


CATALOGUE: Final = _table(
    (
        "identity",
        "GetPluginInfo has a name as CSI spells them and a version, and Probe does not say that it is not ready",
        "answer GetPluginInfo with a name of letters, digits, dots and dashes, at most 63 long, and a vendor_version",
    ),
    (
        "capacity-answers",
        "GetCapacity answers for every segment, with figures that are not negative",
        "answer GetCapacity for the topology of each node; what cannot be used there is 0, not an error",
    ),
    (
        "capacity-pools",
        "available_capacities lists the pools (KEP-5925)",
        "fill available_capacities with the free bytes of each pool that a volume of these parameters may go to",
    ),
    (
        "capacity-sum",
        "available_capacity is the sum of available_capacities",
        "set available_capacity to the sum of the pools: schedulers score nodes by it",
    ),
    (
        "capacity-maximum",
        "maximum_volume_size is no more than the largest pool",
        "set maximum_volume_size to the largest volume that can be made now, or leave it out",
    ),
    (
        "capacity-order",
        "asked twice with nothing done in between, the pools are the same, in the same order",
        "list the pools in one order, such as that of their names: every change is written to the API",
    ),
    (
        "capacity-segment",
        "a segment that does not exist has no capacity",
        "look at accessible_topology: figures of everywhere make a scheduler believe in room that a node cannot reach",
    ),
    (
        "capacity-after-create",
        "a volume that was made is missing from the figures: one pool less by its size, the others as before",
        "count a volume from the moment CreateVolume has answered, at its whole size and in its one pool",
    ),
    (
        "capacity-after-delete",
        "once it is deleted the figures are what they were",
        "give a volume's bytes back before DeleteVolume answers",
    ),
    (
        "capacity-is-true",
        "a volume as large as the largest pool can be made",
        "report what volumes can take: less what metadata, rounding and reserved space cost",
    ),
    (
        "create-idempotent",
        "CreateVolume with the same name and arguments answers with the same volume",
        "find a volume by its name before making one: sidecars ask again after every timeout",
    ),
    (
        "create-incompatible",
        "CreateVolume with a name that is taken by a volume of another size is AlreadyExists",
        "compare the size asked for with that of the volume that has the name",
    ),
    (
        "create-size",
        "a volume is at least as large as was required",
        "round sizes up, and answer with the size that was made",
    ),
    (
        "create-topology",
        "a volume made for a segment can be reached from there, and says from where",
        "make volumes within accessibility_requirements, and answer with accessible_topology",
    ),
    (
        "create-too-large",
        "what no pool can hold is ResourceExhausted or OutOfRange, and nothing is made",
        "answer OutOfRange for what could never be made, and ResourceExhausted for want of room: after that the "
        "provisioner gives the node back to the scheduler, after other codes the pod waits for this node",
    ),
    (
        "delete-idempotent",
        "DeleteVolume of a volume that is not there answers OK",
        "a volume that is not there is deleted",
    ),
    (
        "limit-sane",
        "NodeGetInfo has a node id, a limit that is not negative, and its topology if the driver has any",
        "answer NodeGetInfo with the node's id, max_volumes_per_node (0: no limit) and accessible_topology",
    ),
    (
        "limit-stable",
        "asked twice, NodeGetInfo answers the same",
        "node id and topology never change; the limit changes only when the node does",
    ),
    (
        "limit-is-a-total",
        "the limit stays what it is while volumes are attached",
        "max_volumes_per_node is how many the node takes in all, not how many it still takes: they would count twice",
    ),
    (
        "limit-enforced",
        "one volume more than the limit is refused with ResourceExhausted, and none before",
        "answer ResourceExhausted, and no other code, when the node has no attach slot left (KEP-4876)",
    ),
    (
        "publish-idempotent",
        "ControllerPublishVolume and NodeStageVolume answer OK when it is done already, and so does undoing it",
        "what is as it was asked for is a success",
    ),
    (
        "publish-unknown",
        "an unknown volume or node is NotFound when a volume is published",
        "look both up first; ResourceExhausted would fail the pod as if attach slots were missing",
    ),
    (
        "publish-elsewhere",
        "a volume that cannot be used on a node is refused there with another code than ResourceExhausted",
        "answer FailedPrecondition: ResourceExhausted is for attach slots alone (KEP-4876)",
    ),
    (
        "rebuild-moves",
        "published on another node, a volume of a node that is cordoned or gone is rebuilt there (KEP-5925)",
        "when ControllerPublishVolume (without attach NodeStageVolume) names another node, bring the volume there",
    ),
    (
        "rebuild-topology",
        "after a rebuild the volume can be reached from its new node, and says so",
        "answer ControllerGetVolume and ListVolumes with the accessible_topology of where the volume is now",
    ),
    (
        "rebuild-contents",
        "a rebuilt volume has its contents",
        "publish the volume only once its contents are there",
    ),
    (
        "rebuild-capacity",
        "after a rebuild its bytes are free on the old node and taken on the new one",
        "count a volume where it is; while both copies exist, in both places",
    ),
    (
        "rebuild-without-room",
        "a rebuild for which no pool has room is refused with another code than ResourceExhausted",
        "answer FailedPrecondition: the pod waits and it is tried again, instead of being failed for attach slots",
    ),
    (
        "cleaned-up",
        "everything that was made for these checks could be undone",
        "undo by hand what is named; then see why the driver refused",
    ),
)
"""In the order in which they are told."""


class CheckOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """`message` says what was seen; of a check that was skipped, why."""

    outcome: CheckOutcome
    message: str = ""


PASSED = CheckVerdict(CheckOutcome.PASSED)


def passed(message: str = "") -> CheckVerdict:
    return CheckVerdict(CheckOutcome.PASSED, message)


def failed(message: str) -> CheckVerdict:
    return CheckVerdict(CheckOutcome.FAILED, message)


def skipped(reason: str) -> CheckVerdict:
    return CheckVerdict(CheckOutcome.SKIPPED, reason)


_WORST_LAST = (CheckOutcome.SKIPPED, CheckOutcome.PASSED, CheckOutcome.FAILED)


@dataclass(slots=True)
class Results:
    """By the name of a check. Of several verdicts on one, as for several nodes, the worst counts."""

    driver: str = ""
    version: str = ""
    verdicts: dict[str, CheckVerdict] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)

    def tell(self, name: str, verdict: CheckVerdict) -> None:
        if name not in CATALOGUE:
            raise KeyError(f"there is no check {name}")
        before = self.verdicts.get(name)
        if before is None or _WORST_LAST.index(verdict.outcome) > _WORST_LAST.index(before.outcome):
            self.verdicts[name] = verdict

    def skip(self, names: Iterable[str], reason: str) -> None:
        for name in names:
            if name not in self.verdicts:
                self.tell(name, skipped(reason))

    def outcome_of(self, name: str) -> CheckOutcome | None:
        found = self.verdicts.get(name)
        return found.outcome if found is not None else None

    def count(self, outcome: CheckOutcome) -> int:
        return sum(each.outcome is outcome for each in self.verdicts.values())

    @property
    def is_kept(self) -> bool:
        """No contract is broken."""
        return not self.count(CheckOutcome.FAILED)

    def document(self) -> dict[str, Any]:
        checks = []
        for name, check in CATALOGUE.items():
            verdict = self.verdicts.get(name) or skipped("it was not reached")
            entry = {"name": name, "outcome": verdict.outcome.value, "contract": check.contract}
            if verdict.message:
                entry["message"] = verdict.message
            if verdict.outcome is CheckOutcome.SKIPPED:
                entry["reason"] = verdict.message
            if verdict.outcome is CheckOutcome.FAILED:
                entry["remedy"] = check.remedy
            checks.append(entry)
        return {
            "driver": self.driver,
            "version": self.version,
            "passed": self.count(CheckOutcome.PASSED),
            "failed": self.count(CheckOutcome.FAILED),
            "skipped": len(checks) - self.count(CheckOutcome.PASSED) - self.count(CheckOutcome.FAILED),
            "checks": checks,
            "leftBehind": self.left_behind,
        }
