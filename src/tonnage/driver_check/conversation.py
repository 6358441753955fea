"""What checks say to a driver: to its controller, to its nodes and, in the end, to undo what was made.

Everything is noted before the call, so that it can be undone. A driver that is away is not a finding:
CsiError ends the examination.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from tonnage.clock import Clock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.csi.conversion import volume_capability
from tonnage.csi.driver_capabilities import ControllerCapabilities, NodeCapabilities, PluginCapabilities
from tonnage.csi.errors import Code, CsiError, is_in_doubt
from tonnage.driver_check.contracts import CallRefused, Capacity, CheckedVolume, NodeInfo, Segments
from tonnage.driver_check.results import CheckOutcome, CheckVerdict
from tonnage.driver_check.settings import CheckSettings


@dataclass(slots=True)
class MadeVolume:
    request: csi.CreateVolumeRequest
    volume_id: str = ""


class UseKind(Enum):
    """In the order in which uses are undone, with what is said of one that cannot be."""

    PUBLISHED = "at {path} on"
    STAGED = "staged at {path} on"
    ATTACHED = "published on"


class Use(NamedTuple):
    """A volume on a node: attached by the controller, or staged or published at a path."""

    kind: UseKind
    volume_id: str
    node_id: str
    path: Path = Path()

    def __str__(self) -> str:
        return f"volume {self.volume_id} {self.kind.value.format(path=self.path)} {self.node_id}"


def _undone_at(use: Use) -> int:
    return list(UseKind).index(use.kind)


NOT_CLAIMED: Final = "the driver does not claim GET_CAPACITY"
T = TypeVar("T")
_WRITER_CAPABILITY: Final = volume_capability(csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER, is_block=False)
_PAUSE_S: Final = 0.2
_PAGES: Final = 1000


@dataclass(frozen=True, slots=True)
class CheckedNode:
    client: CsiClient
    info: NodeInfo
    can: NodeCapabilities


async def tried(call: Awaitable[T]) -> T | CallRefused:
    """A call's answer, or its refusal. Raises CsiError if the driver is away."""
    try:
        return await call
    except CsiError as exc:
        if exc.code is Code.UNAVAILABLE:
            raise
        return CallRefused(exc.code, exc.told)


def refusal(answer: object) -> CallRefused | None:
    return answer if isinstance(answer, CallRefused) else None


@dataclass
class Conversation:
    """The calls to one driver; all of them return the answer or the refusal."""

    controller: CsiClient
    nodes: Sequence[CheckedNode]
    settings: CheckSettings
    plugin: PluginCapabilities
    can: ControllerCapabilities
    clock: Clock
    volumes: dict[str, MadeVolume] = field(default_factory=dict)
    """By name, what exists or may exist now."""
    uses: list[Use] = field(default_factory=list)
    _numbers: int = 0
    _contexts: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    _volume_contexts: dict[str, dict[str, str]] = field(default_factory=dict)

    # -- where --------------------------------------------------------------------------------------------------------

    @property
    def has_topology(self) -> bool:
        return self.plugin.volume_accessibility_constraints

    @property
    def attaches(self) -> bool:
        return self.can.publish_unpublish_volume and self.settings.with_attach

    @property
    def segments(self) -> list[Segments]:
        """The topologies to ask about; without any, the empty one, which is everywhere."""
        known = [*self.settings.segments] or [node.info.topology for node in self.nodes if node.info.topology]
        return [dict(each) for each in dict.fromkeys(tuple(sorted(each.items())) for each in known)] or [{}]

    @property
    def home_node(self) -> CheckedNode | None:
        """The node for new volumes: the named one that is out of use, else the first."""
        named = [node for node in self.nodes if node.info.node_id == self.settings.cordoned_node]
        return next(iter([*named, *self.nodes]), None)

    @property
    def home(self) -> Segments:
        node = self.home_node
        if node is not None and node.info.topology and not (self.settings.segments and node is self.nodes[0]):
            return node.info.topology
        return self.segments[0]

    @property
    def cannot_use(self) -> str:
        """Why volumes cannot be used on a node; empty if they can."""
        if not self.nodes:
            return "no Node service is known: give --node-address"
        if self.attaches:
            return ""
        if not all(node.can.stage_unstage_volume for node in self.nodes):
            return "the driver claims neither PUBLISH_UNPUBLISH_VOLUME nor STAGE_UNSTAGE_VOLUME"
        return ""

    @property
    def volume_ids(self) -> list[str]:
        return [volume.volume_id for volume in self.volumes.values() if volume.volume_id]

    def name_of(self, volume_id: str) -> str:
        return next((name for name, each in self.volumes.items() if each.volume_id == volume_id), "")

    # -- capacity and volumes -----------------------------------------------------------------------------------------

    async def capacity(self, segments: Segments) -> Capacity | CallRefused:
        request = csi.GetCapacityRequest(
            volume_capabilities=[_WRITER_CAPABILITY], parameters=dict(self.settings.parameters)
        )
        if segments:
            request.accessible_topology.CopyFrom(csi.Topology(segments=dict(segments)))
        answer = await tried(self.controller.get_capacity(request))
        return answer if isinstance(answer, CallRefused) else Capacity.of(answer)

    async def figures(self, segments: Segments) -> Capacity:
        """The capacity, empty if refused."""
        answer = await self.capacity(segments)
        return Capacity() if isinstance(answer, CallRefused) else answer

    async def settled(self, judge: Callable[[], Awaitable[CheckVerdict]]) -> CheckVerdict:
        """Judge until the verdict is not FAILED or the time is over: drivers may measure disks only at intervals."""
        until = self.clock.monotonic() + self.settings.settle_s
        while True:
            verdict = await judge()
            if verdict.outcome is not CheckOutcome.FAILED or self.clock.monotonic() >= until:
                return verdict
            await self.clock.sleep(_PAUSE_S)

    async def create(self, size_bytes: int, segments: Segments, name: str = "") -> CheckedVolume | CallRefused:
        """Create a volume, or request an existing `name` again."""
        if not name:
            self._numbers += 1
            name = f"{self.settings.prefix}-{self._numbers}"
        request = csi.CreateVolumeRequest(
            name=name,
            capacity_range=csi.CapacityRange(required_bytes=size_bytes),
            volume_capabilities=[_WRITER_CAPABILITY],
            parameters=dict(self.settings.parameters),
            secrets=self.secrets_of("CreateVolume"),
        )
        if segments and self.has_topology:
            topology = csi.Topology(segments=dict(segments))
            request.accessibility_requirements.CopyFrom(
                csi.TopologyRequirement(requisite=[topology], preferred=[topology])
            )
        known = self.volumes.get(request.name)
        if known is None:
            known = self.volumes[request.name] = MadeVolume(request)
        answer = await tried(self.controller.create_volume(request))
        if isinstance(answer, CallRefused):
            if not known.volume_id and not is_in_doubt(answer.code):
                del self.volumes[request.name]
            return answer
        volume = CheckedVolume.of(answer.volume)
        if known.volume_id and known.volume_id != volume.volume_id:  # a second volume of the same name: delete it, too
            known = self.volumes[f"{request.name}, number {len(self.volumes) + 1}"] = MadeVolume(request)
        known.volume_id = volume.volume_id
        self._volume_contexts[volume.volume_id] = dict(answer.volume.volume_context)
        return volume

    async def delete(self, volume_id: str) -> CallRefused | None:
        request = csi.DeleteVolumeRequest(volume_id=volume_id, secrets=self.secrets_of("DeleteVolume"))
        answer = refusal(await tried(self.controller.delete_volume(request)))
        name = self.name_of(volume_id)
        if answer is None and name:
            del self.volumes[name]
        return answer

    async def look_up(self, volume_id: str) -> CheckedVolume | CallRefused | None:
        """A volume as the driver describes it now; None if it cannot."""
        if csi.ControllerServiceCapability.RPC.GET_VOLUME in self.can.rpcs:
            asked = csi.ControllerGetVolumeRequest(volume_id=volume_id)
            answer = await tried(self.controller.controller_volume(asked))
            return answer if isinstance(answer, CallRefused) else CheckedVolume.of(answer.volume)
        if csi.ControllerServiceCapability.RPC.LIST_VOLUMES not in self.can.rpcs:
            return None
        listed = await self._listed()
        if isinstance(listed, CallRefused):
            return listed
        for entry in listed:
            if entry.volume.volume_id == volume_id:
                return CheckedVolume.of(entry.volume)
        return CallRefused(Code.NOT_FOUND, f"ListVolumes does not have {volume_id}")

    async def attached_to(self, node_id: str) -> int:
        """How many volumes a node has, as far as the driver tells."""
        if not self.can.list_volumes_published_nodes:
            return 0
        listed = await self._listed()
        return (
            0 if isinstance(listed, CallRefused) else sum(node_id in each.status.published_node_ids for each in listed)
        )

    async def _listed(self) -> list[csi.ListVolumesResponse.Entry] | CallRefused:
        entries: list[csi.ListVolumesResponse.Entry] = []
        token = ""
        for _ in range(_PAGES):
            answer = await tried(self.controller.list_volumes(csi.ListVolumesRequest(starting_token=token)))
            if isinstance(answer, CallRefused):
                return answer
            entries.extend(answer.entries)
            token = answer.next_token
            if not token:
                break
        return entries

    def secrets_of(self, call: str) -> dict[str, str]:
        return dict(self.settings.secrets.get(call, {}))

    # -- on nodes -----------------------------------------------------------------------------------------------------

    async def use(self, volume_id: str, node: CheckedNode, node_id: str = "") -> CallRefused | None:
        """Take a slot for a volume on a node: attach it, or stage it if the driver does not attach."""
        if not self.attaches:
            return await self.stage(volume_id, node)
        use = Use(UseKind.ATTACHED, volume_id, node_id or node.info.node_id)
        common = self._common(volume_id, "ControllerPublishVolume")
        request = csi.ControllerPublishVolumeRequest(node_id=use.node_id, **common)
        answer = await self._noting(use, self.controller.controller_publish(request))
        if isinstance(answer, CallRefused):
            return answer
        self._contexts[volume_id, use.node_id] = dict(answer.publish_context)
        return None

    async def let_go(self, volume_id: str, node: CheckedNode) -> CallRefused | None:
        """Give the slot back. Undoes `use`; may be repeated."""
        if not self.attaches:
            return await self.unstage(volume_id, node)
        return await self._end(Use(UseKind.ATTACHED, volume_id, node.info.node_id))

    async def stage(self, volume_id: str, node: CheckedNode) -> CallRefused | None:
        if not node.can.stage_unstage_volume:
            return None
        use = self._use(UseKind.STAGED, volume_id, node)
        use.path.mkdir(parents=True, exist_ok=True)
        request = csi.NodeStageVolumeRequest(
            staging_target_path=str(use.path),
            publish_context=self._contexts.get((volume_id, use.node_id), {}),
            **self._common(volume_id, "NodeStageVolume"),
        )
        return refusal(await self._noting(use, node.client.stage(request)))

    async def unstage(self, volume_id: str, node: CheckedNode) -> CallRefused | None:
        return await self._end(self._use(UseKind.STAGED, volume_id, node)) if node.can.stage_unstage_volume else None

    async def show(self, volume_id: str, node: CheckedNode) -> Path | CallRefused:
        """Stage and publish a volume, as for a pod; returns its path."""
        refused = await self.stage(volume_id, node)
        if refused is not None:
            return refused
        use, staged = (self._use(kind, volume_id, node) for kind in (UseKind.PUBLISHED, UseKind.STAGED))
        use.path.parent.mkdir(parents=True, exist_ok=True)
        request = csi.NodePublishVolumeRequest(
            staging_target_path=str(staged.path) if node.can.stage_unstage_volume else "",
            target_path=str(use.path),
            publish_context=self._contexts.get((volume_id, use.node_id), {}),
            **self._common(volume_id, "NodePublishVolume"),
        )
        return refusal(await self._noting(use, node.client.publish(request))) or use.path

    async def hide(self, volume_id: str, node: CheckedNode) -> CallRefused | None:
        """Undoes `show`."""
        use = self._use(UseKind.PUBLISHED, volume_id, node)
        refused = await self._end(use) if use in self.uses else None
        return refused or await self.unstage(volume_id, node)

    def _use(self, kind: UseKind, volume_id: str, node: CheckedNode) -> Use:
        """A use on a node, with its path in our folder."""
        name = self.name_of(volume_id).removeprefix(f"{self.settings.prefix}-") or "unknown"
        folder = self.settings.work_dir / f"{self.nodes.index(node)}-{name}"
        path = folder / ("target" if kind is UseKind.PUBLISHED else "staging")
        return Use(kind, volume_id, node.info.node_id, path)

    def _common(self, volume_id: str, call: str) -> dict[str, Any]:
        """What every call that puts a volume to use has."""
        return {
            "volume_id": volume_id,
            "volume_capability": _WRITER_CAPABILITY,
            "volume_context": self._volume_contexts.get(volume_id, {}),
            "secrets": self.secrets_of(call),
        }

    async def _noting(self, use: Use, call: Awaitable[T]) -> T | CallRefused:
        """Note a use before the call; forget it if the call certainly had no effect."""
        is_new = use not in self.uses
        if is_new:
            self.uses.append(use)
        answer = await tried(call)
        if isinstance(answer, CallRefused) and is_new and not is_in_doubt(answer.code):
            self.uses.remove(use)
        return answer

    async def _end(self, use: Use) -> CallRefused | None:
        """End a use, and forget it if that succeeded."""
        client = next((node.client for node in self.nodes if node.info.node_id == use.node_id), self.controller)
        call: Awaitable[object]
        if use.kind is UseKind.ATTACHED:
            unpublish = csi.ControllerUnpublishVolumeRequest(
                volume_id=use.volume_id, node_id=use.node_id, secrets=self.secrets_of("ControllerUnpublishVolume")
            )
            call = self.controller.controller_unpublish(unpublish)
        elif use.kind is UseKind.STAGED:
            unstage = csi.NodeUnstageVolumeRequest(volume_id=use.volume_id, staging_target_path=str(use.path))
            call = client.unstage(unstage)
        else:
            hide = csi.NodeUnpublishVolumeRequest(volume_id=use.volume_id, target_path=str(use.path))
            call = client.unpublish(hide)
        answer = refusal(await tried(call))
        if answer is None and use in self.uses:
            self.uses.remove(use)
        return answer

    # -- undoing ------------------------------------------------------------------------------------------------------

    async def discard(self, volume_ids: Collection[str]) -> None:
        """Delete these volumes wherever they are used; leftovers are undone at the end."""
        for volume_id in volume_ids:
            for use in sorted((each for each in self.uses if each.volume_id == volume_id), key=_undone_at):
                await self._end(use)
            await self.delete(volume_id)

    async def undo_all(self) -> list[str]:
        """Undo everything that is left; returns what could not be undone, as texts."""
        left: list[str] = []
        for name, each in list(self.volumes.items()):
            if not each.volume_id:
                try:  # the outcome is unknown: the same request again gets the volume's id
                    each.volume_id = (await self.controller.create_volume(each.request)).volume.volume_id
                except CsiError as exc:
                    if is_in_doubt(exc.code):
                        left.append(f"volume {name}, if there is one: {CallRefused(exc.code, exc.told)}")
        for volume_id in self.volume_ids:
            try:
                await self.discard([volume_id])
            except CsiError:  # the driver is away: every further call would wait as long
                break
        left += map(str, sorted(self.uses, key=_undone_at))
        left += [f"volume {each.volume_id} ({name})" for name, each in self.volumes.items() if each.volume_id]
        return left
