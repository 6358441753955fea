"""What checks say to a driver: to its controller, on its nodes, and in the end, to undo what was made."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import CsiError, is_in_doubt
from tonnage.driver_check.answers import CallRefused
from tonnage.driver_check.controller_calls import (
    CheckedNode,
    ControllerCalls,
    MadeVolume,
    Use,
    refusal,
    tried,
    writer_capability,
)


class Conversation(ControllerCalls):
    """One driver, and everything that is asked of it."""

    # -- on nodes -----------------------------------------------------------------------------------------------------

    async def use(self, volume_id: str, node: CheckedNode, node_id: str = "") -> CallRefused | None:
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
            volume_capability=writer_capability(),
            volume_context=self._volume_contexts.get(volume_id, {}),
            secrets=self.secrets_of("ControllerPublishVolume"),
        )
        answer = await tried(self._controller.controller_publish(request))
        if isinstance(answer, CallRefused):
            if is_new and not is_in_doubt(answer.code):
                self.made.published.remove(use)
            return answer
        self._contexts[volume_id, use.node_id] = dict(answer.publish_context)
        return None

    async def let_go(self, volume_id: str, node: CheckedNode) -> CallRefused | None:
        """The other way round, as often as one likes."""
        if not self.attaches:
            return await self.unstage(volume_id, node)
        return await self._unpublish(Use(volume_id, node.info.node_id))

    async def _unpublish(self, use: Use) -> CallRefused | None:
        request = csi.ControllerUnpublishVolumeRequest(
            volume_id=use.volume_id, node_id=use.node_id, secrets=self.secrets_of("ControllerUnpublishVolume")
        )
        answer = refusal(await tried(self._controller.controller_unpublish(request)))
        if answer is None and use in self.made.published:
            self.made.published.remove(use)
        return answer

    def _staging(self, volume_id: str, node: CheckedNode) -> Path:
        number = sorted([*self.made.volume_ids, volume_id]).index(volume_id)
        name = self.made.name_of(volume_id).removeprefix(f"{self.settings.prefix}-") or f"other-{number}"
        return self.settings.work_dir / f"{self._place(node)}-{name}" / "staging"

    def _place(self, node: CheckedNode) -> int:
        return next(place for place, each in enumerate(self.nodes) if each is node)

    async def stage(self, volume_id: str, node: CheckedNode) -> CallRefused | None:
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
            volume_capability=writer_capability(),
            publish_context=self._contexts.get((volume_id, node.info.node_id), {}),
            volume_context=self._volume_contexts.get(volume_id, {}),
            secrets=self.secrets_of("NodeStageVolume"),
        )
        answer = refusal(await tried(node.client.stage(request)))
        if answer is not None and is_new and not is_in_doubt(answer.code):
            self.made.staged.remove(use)
        return answer

    async def unstage(self, volume_id: str, node: CheckedNode) -> CallRefused | None:
        if not node.can.stage_unstage_volume:
            return None
        use = Use(volume_id, node.info.node_id, self._staging(volume_id, node))
        request = csi.NodeUnstageVolumeRequest(volume_id=volume_id, staging_target_path=str(use.path))
        answer = refusal(await tried(node.client.unstage(request)))
        if answer is None and use in self.made.staged:
            self.made.staged.remove(use)
        return answer

    async def show(self, volume_id: str, node: CheckedNode) -> Path | CallRefused:
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
            volume_capability=writer_capability(),
            publish_context=self._contexts.get((volume_id, node.info.node_id), {}),
            volume_context=self._volume_contexts.get(volume_id, {}),
            secrets=self.secrets_of("NodePublishVolume"),
        )
        answer = refusal(await tried(node.client.publish(request)))
        if answer is not None and not is_in_doubt(answer.code):
            self.made.targets.remove(use)
        return answer or target

    async def hide(self, volume_id: str, node: CheckedNode) -> CallRefused | None:
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

    async def _ask_again(self, known: MadeVolume) -> CallRefused | None:
        """The id of a volume of which nobody knows whether it was made: it is made now, and has one."""
        try:
            answer = await self._controller.create_volume(known.request)
        except CsiError as exc:
            return CallRefused(exc.code, exc.told)
        known.volume_id = answer.volume.volume_id
        return None
