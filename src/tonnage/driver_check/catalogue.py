"""Every check: a name that stays, the contract that it is about, and what a driver's author does when it fails.

Scripts may rely on the names; docs/drivers/writing-a-driver.md has the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


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
