"""The calls that checks make, each with its answer or its refusal; what they make is noted in `made`.

A driver that is away (Unavailable, after the client's retries) is no finding: CsiError is raised, and the examination
ends with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tonnage.clock import Clock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.csi.driver_capabilities import ControllerCapabilities, NodeCapabilities, PluginCapabilities
from tonnage.csi.errors import Code, CsiError, is_in_doubt
from tonnage.csi.volume_capabilities import volume_capability
from tonnage.driver_check.answers import Capacity, NodeInfo, Refused, Segments, Volume
from tonnage.driver_check.made import Made, MadeVolume, Use
from tonnage.driver_check.settings import Settings
from tonnage.driver_check.verdicts import Outcome, Verdict

T = TypeVar("T")
WRITER: Final = csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
_PAUSE_S: Final = 0.2
_PAGES: Final = 1000


@dataclass(frozen=True, slots=True)
class Node:
    """A node's own service."""

    client: CsiClient
    info: NodeInfo
    can: NodeCapabilities


async def tried(call: Awaitable[T]) -> T | Refused:
    """A call's answer, or how it was refused. Raises CsiError when the driver is away."""
    try:
        return await call
    except CsiError as exc:
        if exc.code is Code.UNAVAILABLE:
            raise
        return Refused(exc.code, exc.told)


def refusal(answer: object) -> Refused | None:
    return answer if isinstance(answer, Refused) else None


class Conversation:
    """One driver, and everything that is asked of it."""

    def __init__(
        self,
        controller: CsiClient,
        nodes: Sequence[Node],
        settings: Settings,
        *,
        plugin: PluginCapabilities,
        can: ControllerCapabilities,
        clock: Clock,
    ) -> None:
        self._controller = controller
        self.nodes = nodes
        self.settings = settings
        self.plugin = plugin
        self.can = can
        self.made = Made()
        self._clock = clock
        self._numbers = 0
        self._contexts: dict[tuple[str, str], dict[str, str]] = {}
        self._volume_contexts: dict[str, dict[str, str]] = {}

    # -- where --------------------------------------------------------------------------------------------------------

    @property
    def has_topology(self) -> bool:
        return self.plugin.volume_accessibility_constraints

    @property
    def attaches(self) -> bool:
        return self.can.publish_unpublish_volume and self.settings.with_attach

    @property
    def segments(self) -> list[Segments]:
        """The topologies to ask about; that of everywhere if there are none."""
        known = [*self.settings.segments] or [node.info.topology for node in self.nodes if node.info.topology]
        return [dict(each) for each in dict.fromkeys(tuple(sorted(each.items())) for each in known)] or [{}]

    @property
    def home_node(self) -> Node | None:
        """The node that volumes are made for: the one that is out of use if one is named, else the first."""
        named = [each for each in self.nodes if each.info.node_id == self.settings.cordoned_node]
        return next(iter([*named, *self.nodes]), None)

    @property
    def home(self) -> Segments:
        node = self.home_node
        if node is not None and node.info.topology and not (self.settings.segments and node is self.nodes[0]):
            return node.info.topology
        return self.segments[0]

    @property
    def cannot_use(self) -> str:
        """Why volumes cannot be put to use on a node; empty when they can."""
        if not self.nodes:
            return "no Node service is known: say --node-address"
        if self.attaches:
            return ""
        if not all(node.can.stage_unstage_volume for node in self.nodes):
            return "the driver claims neither PUBLISH_UNPUBLISH_VOLUME nor STAGE_UNSTAGE_VOLUME"
        return ""

    def new_name(self) -> str:
        self._numbers += 1
        return f"{self.settings.prefix}-{self._numbers}"

    # -- capacity and volumes -----------------------------------------------------------------------------------------

    async def capacity(self, segments: Segments) -> Capacity | Refused:
        request = csi.GetCapacityRequest(volume_capabilities=[_capability()], parameters=dict(self.settings.parameters))
        if segments:
            request.accessible_topology.CopyFrom(csi.Topology(segments=dict(segments)))
        answer = await tried(self._controller.get_capacity(request))
        return answer if isinstance(answer, Refused) else Capacity.of(answer)

    async def figures(self, segments: Segments) -> Capacity:
        """The same, nothing where it is refused."""
        answer = await self.capacity(segments)
        return Capacity() if isinstance(answer, Refused) else answer

    async def settled(self, judge: Callable[[], Awaitable[Verdict]]) -> Verdict:
        """A verdict on figures, once they follow, or the last one after a while: drivers may look at disks in turn."""
        until = self._clock.monotonic() + self.settings.settle_s
        while True:
            verdict = await judge()
            if verdict.outcome is not Outcome.FAILED or self._clock.monotonic() >= until:
                return verdict
            await self._clock.sleep(_PAUSE_S)

    async def create(self, size_bytes: int, segments: Segments, name: str = "") -> Volume | Refused:
        """A volume of a new name, or asked for again by its own."""
        request = csi.CreateVolumeRequest(
            name=name or self.new_name(),
            capacity_range=csi.CapacityRange(required_bytes=size_bytes),
            volume_capabilities=[_capability()],
            parameters=dict(self.settings.parameters),
            secrets=self._secrets("CreateVolume"),
        )
        if segments and self.has_topology:
            topology = csi.Topology(segments=dict(segments))
            request.accessibility_requirements.CopyFrom(
                csi.TopologyRequirement(requisite=[topology], preferred=[topology])
            )
        known = self.made.volumes.get(request.name)
        if known is None:
            known = self.made.volumes[request.name] = MadeVolume(request)
        answer = await tried(self._controller.create_volume(request))
        if isinstance(answer, Refused):
            if not known.volume_id and not is_in_doubt(answer.code):
                del self.made.volumes[request.name]
            return answer
        found = Volume.of(answer.volume)
        if known.volume_id and known.volume_id != found.volume_id:  # a second one under the same name: it goes too
            known = self.made.volumes[f"{request.name}, number {len(self.made.volumes) + 1}"] = MadeVolume(request)
        known.volume_id = found.volume_id
        self._volume_contexts[found.volume_id] = dict(answer.volume.volume_context)
        return found

    async def delete(self, volume_id: str) -> Refused | None:
        request = csi.DeleteVolumeRequest(volume_id=volume_id, secrets=self._secrets("DeleteVolume"))
        answer = refusal(await tried(self._controller.delete_volume(request)))
        name = self.made.name_of(volume_id)
        if answer is None and name:
            del self.made.volumes[name]
        return answer

    async def look_up(self, volume_id: str) -> Volume | Refused | None:
        """A volume as the driver tells of it now; None when it cannot tell."""
        if csi.ControllerServiceCapability.RPC.GET_VOLUME in self.can.rpcs:
            asked = csi.ControllerGetVolumeRequest(volume_id=volume_id)
            answer = await tried(self._controller.controller_volume(asked))
            return answer if isinstance(answer, Refused) else Volume.of(answer.volume)
        if csi.ControllerServiceCapability.RPC.LIST_VOLUMES not in self.can.rpcs:
            return None
        listed = await self._listed()
        if isinstance(listed, Refused):
            return listed
        found = [each.volume for each in listed if each.volume.volume_id == volume_id]
        return Volume.of(found[0]) if found else Refused(Code.NOT_FOUND, f"ListVolumes does not have {volume_id}")

    async def attached_to(self, node_id: str) -> int:
        """How many volumes a node has already, as far as the driver tells."""
        if not self.can.list_volumes_published_nodes:
            return 0
        listed = await self._listed()
        return 0 if isinstance(listed, Refused) else sum(node_id in each.status.published_node_ids for each in listed)

    async def _listed(self) -> list[csi.ListVolumesResponse.Entry] | Refused:
        entries: list[csi.ListVolumesResponse.Entry] = []
        token = ""
        for _ in range(_PAGES):
            answer = await tried(self._controller.list_volumes(csi.ListVolumesRequest(starting_token=token)))
            if isinstance(answer, Refused):
                return answer
            entries.extend(answer.entries)
            token = answer.next_token
            if not token:
                break
        return entries

    # -- on nodes -----------------------------------------------------------------------------------------------------

    async def use(self, volume_id: str, node: Node, node_id: str = "") -> Refused | None:
        """Take a slot for a volume on a node: attach it, or without attaching stage it. `node_id` is another's."""
        if not self.attaches:
            return await self.stage(volume_id, node)
        use = Use(volume_id, node_id or node.info.node_id)
        is_new = use not in self.made.published
        if is_new:
            self.made.published.append(use)
        request = csi.ControllerPublishVolumeRequest(
            volume_id=volume_id,
            node_id=use.node_id,
            volume_capability=_capability(),
            volume_context=self._volume_contexts.get(volume_id, {}),
            secrets=self._secrets("ControllerPublishVolume"),
        )
        answer = await tried(self._controller.controller_publish(request))
        if isinstance(answer, Refused):
            if is_new and not is_in_doubt(answer.code):
                self.made.published.remove(use)
            return answer
        self._contexts[volume_id, use.node_id] = dict(answer.publish_context)
        return None

    async def let_go(self, volume_id: str, node: Node) -> Refused | None:
        """The other way round, as often as one likes."""
        if not self.attaches:
            return await self.unstage(volume_id, node)
        return await self._unpublish(Use(volume_id, node.info.node_id))

    async def _unpublish(self, use: Use) -> Refused | None:
        request = csi.ControllerUnpublishVolumeRequest(
            volume_id=use.volume_id, node_id=use.node_id, secrets=self._secrets("ControllerUnpublishVolume")
        )
        answer = refusal(await tried(self._controller.controller_unpublish(request)))
        if answer is None and use in self.made.published:
            self.made.published.remove(use)
        return answer

    def _staging(self, volume_id: str, node: Node) -> Path:
        number = sorted([*self.made.volume_ids, volume_id]).index(volume_id)
        name = self.made.name_of(volume_id).removeprefix(f"{self.settings.prefix}-") or f"other-{number}"
        return self.settings.work_dir / f"{self._place(node)}-{name}" / "staging"

    def _place(self, node: Node) -> int:
        return next(place for place, each in enumerate(self.nodes) if each is node)

    async def stage(self, volume_id: str, node: Node) -> Refused | None:
        if not node.can.stage_unstage_volume:
            return None
        path = self._staging(volume_id, node)
        path.mkdir(parents=True, exist_ok=True)
        use = Use(volume_id, node.info.node_id, path)
        is_new = use not in self.made.staged
        if is_new:
            self.made.staged.append(use)
        request = csi.NodeStageVolumeRequest(
            volume_id=volume_id,
            staging_target_path=str(path),
            volume_capability=_capability(),
            publish_context=self._contexts.get((volume_id, node.info.node_id), {}),
            volume_context=self._volume_contexts.get(volume_id, {}),
            secrets=self._secrets("NodeStageVolume"),
        )
        answer = refusal(await tried(node.client.stage(request)))
        if answer is not None and is_new and not is_in_doubt(answer.code):
            self.made.staged.remove(use)
        return answer

    async def unstage(self, volume_id: str, node: Node) -> Refused | None:
        if not node.can.stage_unstage_volume:
            return None
        use = Use(volume_id, node.info.node_id, self._staging(volume_id, node))
        request = csi.NodeUnstageVolumeRequest(volume_id=volume_id, staging_target_path=str(use.path))
        answer = refusal(await tried(node.client.unstage(request)))
        if answer is None and use in self.made.staged:
            self.made.staged.remove(use)
        return answer

    async def show(self, volume_id: str, node: Node) -> Path | Refused:
        """Stage and publish a volume, as for a pod; the path that it is at."""
        refused = await self.stage(volume_id, node)
        if refused is not None:
            return refused
        staging = self._staging(volume_id, node)
        target = staging.with_name("target")
        target.parent.mkdir(parents=True, exist_ok=True)
        use = Use(volume_id, node.info.node_id, target)
        self.made.targets.append(use)
        request = csi.NodePublishVolumeRequest(
            volume_id=volume_id,
            staging_target_path=str(staging) if node.can.stage_unstage_volume else "",
            target_path=str(target),
            volume_capability=_capability(),
            publish_context=self._contexts.get((volume_id, node.info.node_id), {}),
            volume_context=self._volume_contexts.get(volume_id, {}),
            secrets=self._secrets("NodePublishVolume"),
        )
        answer = refusal(await tried(node.client.publish(request)))
        if answer is not None and not is_in_doubt(answer.code):
            self.made.targets.remove(use)
        return answer or target

    async def hide(self, volume_id: str, node: Node) -> Refused | None:
        """The other way round."""
        for use in [each for each in self.made.targets if each.volume_id == volume_id]:
            if use.node_id == node.info.node_id:
                request = csi.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=str(use.path))
                answer = refusal(await tried(node.client.unpublish(request)))
                if answer is not None:
                    return answer
                self.made.targets.remove(use)
        return await self.unstage(volume_id, node)

    # -- undoing ------------------------------------------------------------------------------------------------------

    async def discard(self, volume_ids: Collection[str]) -> None:
        """Take these volumes away again, wherever they are; what is left is undone at the end."""
        by_id = {node.info.node_id: node for node in self.nodes}
        for volume_id in volume_ids:
            for use in [*self.made.targets, *self.made.staged]:
                if use.volume_id == volume_id and use.node_id in by_id:
                    await self.hide(volume_id, by_id[use.node_id])
            for use in [each for each in self.made.published if each.volume_id == volume_id]:
                await self._unpublish(use)
            await self.delete(volume_id)

    async def undo_all(self) -> list[str]:
        """Undo everything that is left; what could not be undone, in words."""
        left: list[str] = []
        for name, each in list(self.made.volumes.items()):
            if not each.volume_id:
                answer = await self._ask_again(each)
                if answer is not None and is_in_doubt(answer.code):
                    left.append(f"volume {name}, if there is one: {answer}")
        for volume_id in self.made.volume_ids:
            try:
                await self.discard([volume_id])
            except CsiError:  # the driver is away: each further call would wait as long
                break
        left += [f"volume {each.volume_id} at {each.path} on {each.node_id}" for each in self.made.targets]
        left += [f"volume {each.volume_id} staged at {each.path} on {each.node_id}" for each in self.made.staged]
        left += [f"volume {each.volume_id} published on {each.node_id}" for each in self.made.published]
        left += [f"volume {each.volume_id} ({name})" for name, each in self.made.volumes.items() if each.volume_id]
        return left

    async def _ask_again(self, known: MadeVolume) -> Refused | None:
        """The id of a volume of which nobody knows whether it was made: it is made now, and has one."""
        try:
            answer = await self._controller.create_volume(known.request)
        except CsiError as exc:
            return Refused(exc.code, exc.told)
        known.volume_id = answer.volume.volume_id
        return None

    def _secrets(self, call: str) -> dict[str, str]:
        return dict(self.settings.secrets.get(call, {}))


def _capability() -> csi.VolumeCapability:
    return volume_capability(WRITER, is_block=False)
