"""However pods come and go and nodes fail, a volume of one node is published on one, and never pulled from under one.

The world is small: three nodes, a volume, a driver. Pods come, nodes mount and unmount when they may, nodes get lost
or go away; the controller plans by the real rules and the attacher works off what it finds, each when it is its turn.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from examples_tried import tries
from tonnage.behaviour.volumes.attach_detach_plan import plan
from tonnage.clock import parse_rfc3339
from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.meta import Condition
from tonnage.objects.storage_v1 import VolumeAttachment, attachment_name, unique_volume_name
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import DRIVER, attachment, csi_node, volume

NODES = ("n0", "n1", "n2")
CSI_NODE = csi_node("n", {DRIVER: None})
DELETED_AT = parse_rfc3339("2026-11-15T00:00:00Z")


class RacingAttachments:
    def __init__(self, pv: PersistentVolume) -> None:
        self.pv = pv
        self.name = unique_volume_name(DRIVER, "h")
        self.pods: list[str] = []
        """The nodes of the pods that need the volume, the oldest first."""
        self.attachments: dict[str, VolumeAttachment] = {}
        self.published: set[str] = set()
        self.mounted: set[str] = set()
        self.lost: set[str] = set()
        self.gone: set[str] = set()

    def node(self, name: str) -> Node | None:
        if name in self.gone:
            return None
        found, in_use = node(name), (self.name,) if name in self.mounted else ()
        conditions = (Condition(type="Ready", status="False" if name in self.lost else "True"),)
        return replace(found, status=replace(found.status, conditions=conditions, volumes_in_use=in_use))

    def control(self, unwanted_s: float) -> None:
        wanted = list(dict.fromkeys(self.pods))
        attachments = tuple(self.attachments.values())
        drawn = plan(self.pv, wanted, attachments, self.node, lambda _: CSI_NODE, lambda _: unwanted_s)
        for found, _ in drawn.detach:
            node = found.spec.node_name
            assert not (node in self.mounted and node not in self.lost | self.gone), "pulled from under a node"
            going = replace(found.metadata, deletion_timestamp=DELETED_AT)
            self.attachments[node] = replace(found, metadata=going)
        for node in drawn.attach:
            self.attachments[node] = attachment(attachment_name("h", DRIVER, node), "pv", node, attached=False)

    def attach_or_detach(self, node: str) -> None:
        found = self.attachments.get(node)
        if found is None:
            return
        if found.metadata.is_terminating:
            self.published.discard(node)
            del self.attachments[node]
        else:
            self.published.add(node)
            self.attachments[node] = replace(found, status=replace(found.status, attached=True))

    def kubelet(self, node: str) -> None:
        """Mount what a pod needs and is attached, unmount what none needs; a node that is lost does neither."""
        if node in self.lost | self.gone:
            return
        found = self.attachments.get(node)
        is_attached = found is not None and found.status.attached and not found.metadata.is_terminating
        if node not in self.pods:
            self.mounted.discard(node)
        elif is_attached:
            self.mounted.add(node)


@settings(max_examples=tries(200), deadline=None)
@given(st.integers(0, 2**32))
def test_a_volume_of_one_node_is_published_on_one_and_arrives_where_it_is_needed(seed: int) -> None:
    rng = random.Random(seed)
    world = RacingAttachments(volume("pv", handle="h"))
    for _ in range(80):
        node = rng.choice(NODES)
        match rng.randrange(9):
            case 0 | 1:
                if node not in world.gone:
                    world.pods.append(node)
            case 2 | 3:
                if world.pods:
                    world.pods.remove(rng.choice(world.pods))
            case 4:
                world.lost ^= {node}
            case 5:
                if rng.random() < 0.2 and len(world.gone) < 2:
                    world.gone.add(node)
                    world.pods = [each for each in world.pods if each != node]  # collected with their node
            case 6:
                world.attach_or_detach(node)
            case 7:
                world.kubelet(node)
            case _:
                world.control(rng.choice((0.0, 400.0)))
        assert len(world.published) <= 1
    for _ in range(8):
        world.control(400.0)
        for node in NODES:
            world.attach_or_detach(node)
            world.kubelet(node)
    # What is left is what somebody needs, and who came first has it; or the node that has it is used and does not end.
    assert world.published <= set(world.pods)
    assert not world.pods or len(world.published) == 1


@settings(max_examples=tries(60), deadline=None)
@given(st.integers(0, 2**32))
def test_a_volume_of_many_nodes_is_published_wherever_it_is_needed(seed: int) -> None:
    rng = random.Random(seed)
    world = RacingAttachments(volume("pv", handle="h", modes=["ReadWriteMany"]))
    for _ in range(40):
        world.pods = rng.sample(NODES, rng.randrange(len(NODES) + 1))
        node = rng.choice(NODES)
        match rng.randrange(3):
            case 0:
                world.control(0.0)
            case 1:
                world.attach_or_detach(node)
            case _:
                world.kubelet(node)
    for _ in range(4):
        world.control(0.0)
        for node in NODES:
            world.attach_or_detach(node)
            world.kubelet(node)
    assert world.published == set(world.pods)
