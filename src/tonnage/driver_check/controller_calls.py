"""The calls to a driver's controller that checks make, each with its answer or its refusal.

What is made is noted in `made`. A driver that is away (Unavailable, after the client's retries) is no finding: CsiError
is raised, and the examination ends with it.

What was made for the checks, and how it goes again: also after a failure, a timeout or Ctrl-C.

Everything is noted before it is asked for, so that what a call did before it was cut off is known. A volume whose id
never came is asked for once more under its name, which CSI answers with the same volume, and then deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from tonnage.clock import Clock
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.client import CsiClient
from tonnage.csi.driver_capabilities import ControllerCapabilities, NodeCapabilities, PluginCapabilities
from tonnage.csi.errors import Code, CsiError, is_in_doubt
from tonnage.csi.volume_capabilities import volume_capability
from tonnage.driver_check.answers import CallRefused, Capacity, CheckedVolume, NodeInfo, Segments
from tonnage.driver_check.results import CheckOutcome, CheckVerdict
from tonnage.driver_check.settings import CheckSettings


@dataclass(slots=True)
class MadeVolume:
    request: csi.CreateVolumeRequest
    volume_id: str = ""
    """Empty until the driver has told it."""


@dataclass(frozen=True, slots=True)
class Use:
    """A volume on a node: published there by the controller, or staged or published at a path."""

    volume_id: str
    node_id: str
    path: Path | None = None


@dataclass(slots=True)
class Made:
    """What there is now, the latest last."""

    volumes: dict[str, MadeVolume] = field(default_factory=dict)
    """By name."""
    published: list[Use] = field(default_factory=list)
    staged: list[Use] = field(default_factory=list)
    targets: list[Use] = field(default_factory=list)

    def name_of(self, volume_id: str) -> str:
        return next((name for name, each in self.volumes.items() if each.volume_id == volume_id), "")

    @property
    def volume_ids(self) -> list[str]:
        return [each.volume_id for each in self.volumes.values() if each.volume_id]


T = TypeVar("T")
WRITER: Final = csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
_PAUSE_S: Final = 0.2
_PAGES: Final = 1000


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """A node's own service."""

    client: CsiClient
    info: NodeInfo
    can: NodeCapabilities


async def tried(call: Awaitable[T]) -> T | CallRefused:
    """A call's answer, or how it was refused. Raises CsiError when the driver is away."""
    try:
        return await call
    except CsiError as exc:
        if exc.code is Code.UNAVAILABLE:
            raise
        return CallRefused(exc.code, exc.told)


def refusal(answer: object) -> CallRefused | None:
    return answer if isinstance(answer, CallRefused) else None


class ControllerCalls:
    """One driver's capacity and volumes."""

    def __init__(
        self,
        controller: CsiClient,
        nodes: Sequence[CheckedNode],
        settings: CheckSettings,
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
    def home_node(self) -> CheckedNode | None:
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

    async def capacity(self, segments: Segments) -> Capacity | CallRefused:
        request = csi.GetCapacityRequest(
            volume_capabilities=[writer_capability()], parameters=dict(self.settings.parameters)
        )
        if segments:
            request.accessible_topology.CopyFrom(csi.Topology(segments=dict(segments)))
        answer = await tried(self._controller.get_capacity(request))
        return answer if isinstance(answer, CallRefused) else Capacity.of(answer)

    async def figures(self, segments: Segments) -> Capacity:
        """The same, nothing where it is refused."""
        answer = await self.capacity(segments)
        return Capacity() if isinstance(answer, CallRefused) else answer

    async def settled(self, judge: Callable[[], Awaitable[CheckVerdict]]) -> CheckVerdict:
        """A verdict on figures, once they follow, or the last one after a while: drivers may look at disks in turn."""
        until = self._clock.monotonic() + self.settings.settle_s
        while True:
            verdict = await judge()
            if verdict.outcome is not CheckOutcome.FAILED or self._clock.monotonic() >= until:
                return verdict
            await self._clock.sleep(_PAUSE_S)

    async def create(self, size_bytes: int, segments: Segments, name: str = "") -> CheckedVolume | CallRefused:
        """A volume of a new name, or asked for again by its own."""
        request = csi.CreateVolumeRequest(
            name=name or self.new_name(),
            capacity_range=csi.CapacityRange(required_bytes=size_bytes),
            volume_capabilities=[writer_capability()],
            parameters=dict(self.settings.parameters),
            secrets=self.secrets_of("CreateVolume"),
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
        if isinstance(answer, CallRefused):
            if not known.volume_id and not is_in_doubt(answer.code):
                del self.made.volumes[request.name]
            return answer
        found = CheckedVolume.of(answer.volume)
        if known.volume_id and known.volume_id != found.volume_id:  # a second one under the same name: it goes too
            known = self.made.volumes[f"{request.name}, number {len(self.made.volumes) + 1}"] = MadeVolume(request)
        known.volume_id = found.volume_id
        self._volume_contexts[found.volume_id] = dict(answer.volume.volume_context)
        return found

    async def delete(self, volume_id: str) -> CallRefused | None:
        request = csi.DeleteVolumeRequest(volume_id=volume_id, secrets=self.secrets_of("DeleteVolume"))
        answer = refusal(await tried(self._controller.delete_volume(request)))
        name = self.made.name_of(volume_id)
        if answer is None and name:
            del self.made.volumes[name]
        return answer

    async def look_up(self, volume_id: str) -> CheckedVolume | CallRefused | None:
        """A volume as the driver tells of it now; None when it cannot tell."""
        if csi.ControllerServiceCapability.RPC.GET_VOLUME in self.can.rpcs:
            asked = csi.ControllerGetVolumeRequest(volume_id=volume_id)
            answer = await tried(self._controller.controller_volume(asked))
            return answer if isinstance(answer, CallRefused) else CheckedVolume.of(answer.volume)
        if csi.ControllerServiceCapability.RPC.LIST_VOLUMES not in self.can.rpcs:
            return None
        listed = await self._listed()
        if isinstance(listed, CallRefused):
            return listed
        found = [each.volume for each in listed if each.volume.volume_id == volume_id]
        return (
            CheckedVolume.of(found[0])
            if found
            else CallRefused(Code.NOT_FOUND, f"ListVolumes does not have {volume_id}")
        )

    async def attached_to(self, node_id: str) -> int:
        """How many volumes a node has already, as far as the driver tells."""
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
            answer = await tried(self._controller.list_volumes(csi.ListVolumesRequest(starting_token=token)))
            if isinstance(answer, CallRefused):
                return answer
            entries.extend(answer.entries)
            token = answer.next_token
            if not token:
                break
        return entries

    def secrets_of(self, call: str) -> dict[str, str]:
        return dict(self.settings.secrets.get(call, {}))


def writer_capability() -> csi.VolumeCapability:
    return volume_capability(WRITER, is_block=False)
