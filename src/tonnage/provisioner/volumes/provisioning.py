"""Provisioning: every claim that is ours gets exactly one volume, whatever fails in between.

Work is keyed by the claim's uid. Two kinds of volumes are remembered, because nobody else would find them: `_in_doubt`
are requests without a clear answer, repeated unchanged even when their claim is gone; `_unsaved` are volumes whose
PersistentVolume the server has not taken yet. After a kill, a new run asks for a volume of the same name.

In node-deployment mode a claim with a selected node belongs to the provisioner there. For others (immediate binding)
provisioners with capacity compete: the first to write its node into selected-node wins; losers wait longer next time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from typing import Final

from tonnage import clock, errors, logs
from tonnage.client.cache import Indexer, MutationCache
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import CsiError, error_text
from tonnage.objects.core_v1 import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.storage_v1 import StorageClass
from tonnage.provisioner.context import InvalidClaim, NodeDeployment, ProvisionerContext, ProvisionerPart
from tonnage.provisioner.metrics import class_and_source
from tonnage.provisioner.volumes import claims, create_volume
from tonnage.provisioner.volumes.create_volume import NotProvisioned, Prepared, ProvisioningState, VolumeCreator
from tonnage.provisioner.volumes.preparation import Preparation

_NOT_OURS: Final = (False, None)


def delay_s(tries: int, deployment: NodeDeployment, rng: random.Random) -> float:
    """Seconds before try number `tries` (from 0): doubled every time, less a random part of the first delay."""
    plain_s = clock.exponential_s(deployment.base_delay_s, tries, max_s=deployment.max_delay_s)
    return max(plain_s - deployment.base_delay_s * rng.random(), 0.0)


class Ownership(ProvisionerPart):
    def __init__(self, context: ProvisionerContext, deployment: NodeDeployment, preparation: Preparation) -> None:
        super().__init__(context)
        self._deployment = deployment
        self._preparation = preparation
        self._attempts: dict[str, tuple[int, float]] = {}
        """By claim uid: the number of tries before this one, and when it is due."""

    async def decide(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> tuple[bool, float | None]:
        """Whether the claim is ours, and in how many seconds to ask again; None: when something changes.

        After its delay, try to become the owner of a claim that nobody owns.
        """
        if claim.selected_node:
            self.forget(claim.uid)
            return claim.selected_node == self._deployment.node_name, None
        if storage_class.waits_for_consumer or not self._deployment.immediate_binding:
            return _NOT_OURS
        if storage_class.allowed_topologies and self._has_topology:
            try:
                await self._preparation.accessibility_requirements(claim, storage_class, self._deployment.node_name)
            except NotProvisioned:
                return _NOT_OURS  # the class does not allow this node
        if claim.uid not in self._attempts:
            return False, self._wait(claim.uid, 0)
        tries, due_at_s = self._attempts[claim.uid]
        left_s = due_at_s - self._clock.monotonic()
        if left_s > 0:
            return False, left_s
        if await self._has_room(claim, storage_class) and await self._take(claim):
            self.forget(claim.uid)
            return _NOT_OURS  # our own write arrives as an event, and then it is ours
        return False, self._wait(claim.uid, tries + 1)

    def forget(self, uid: str) -> None:
        self._attempts.pop(uid, None)

    def _wait(self, uid: str, tries: int) -> float:
        pause_s = delay_s(tries, self._deployment, self._rng)
        self._attempts[uid] = tries, self._clock.monotonic() + pause_s
        return pause_s

    async def _take(self, claim: PersistentVolumeClaim) -> bool:
        node = self._deployment.node_name
        metadata = {"resourceVersion": claim.metadata.resource_version, "annotations": {SELECTED_NODE: node}}
        try:
            await self._client.patch(PersistentVolumeClaim, claim.key, {"metadata": metadata})
        except errors.Conflict:
            _log.debug("Another was faster, or changed the claim", claim=claim.key, node=node)
            return False
        _log.info("Became the owner of a claim", claim=claim.key, node=node)
        return True

    async def _has_room(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
        """Ask the driver; last, because it is expensive. True if that fails: the attempt will report why."""
        try:
            asked = await self._preparation.request_for(claim, storage_class, self._deployment.node_name)
            size_bytes = asked.request.capacity_range.required_bytes
            if not size_bytes:
                return True
            places: list[csi.Topology | None] = list(asked.request.accessibility_requirements.requisite)
            for place in places or [None]:
                request = csi.GetCapacityRequest(
                    volume_capabilities=asked.request.volume_capabilities,
                    parameters=asked.request.parameters,
                    accessible_topology=place,
                )
                if size_bytes <= (await self._driver.get_capacity(request)).available_capacity:
                    return True
        except (NotProvisioned, CsiError) as exc:
            _log.info("It is not known whether there is room; trying", claim=claim.key, reason=exc.message)
            return True
        return False


_LOOK_AGAIN_S = 30.0
"""When to look again for a new PersistentVolume that has not arrived by watch: it may be deleted already."""

_log = logs.logger("tonnage.provisioner")


class ProvisionController(ProvisionerPart):
    def __init__(self, context: ProvisionerContext) -> None:
        super().__init__(context)
        caches, deployment = context.caches, context.options.node_deployment
        self._driver_name = context.driver_info.name
        self._preparation = Preparation(context)
        self._creator = VolumeCreator(context)
        self._newest = MutationCache(caches.claims, clock=context.clock)
        self._newest_volumes = MutationCache(caches.volumes, clock=context.clock)
        self._rescheduling = claims.Rescheduling(context, self._newest_volumes)
        self._ownership = Ownership(context, deployment, self._preparation) if deployment is not None else None
        self._backoff = context.new_backoff()
        self._of_uid = Indexer(caches.claims, lambda claim: (claim.uid,))
        self._in_doubt: dict[str, Prepared] = {}
        self._unsaved: dict[str, tuple[Prepared, PersistentVolume]] = {}
        self._refused: set[str] = set()  # claims that the driver has clearly refused
        self._node_gone_since_s: dict[str, float] = {}  # of claims that may have a volume there
        self._saved_at_s: dict[str, float] = {}
        self.work = context.queue("provisioning", self.reconcile)
        self.work.follow(caches.claims, lambda claim: (claim.uid,))
        self.work.follow(caches.volumes, lambda volume: (volume.spec.claim_ref.uid,) if volume.spec.claim_ref else ())
        caches.classes.on_change(lambda found: self._enqueue_where(lambda claim: claim.class_name == found.name))
        caches.nodes.add_handlers(
            on_delete=lambda node: self._enqueue_where(lambda claim: claim.selected_node == node.name)
        )

    def _enqueue_where(self, is_meant: Callable[[PersistentVolumeClaim], bool]) -> None:
        for claim in self._claims:
            if claims.is_for(claim, self._driver_name) and is_meant(claim):
                self.work.add(claim.uid)

    # -- one claim ----------------------------------------------------------------------------------------------------

    async def reconcile(self, uid: str) -> float | None:
        """Provision one claim; safe to run twice, late, or after a missed event."""
        if uid in self._unsaved:
            return await self._save(*self._unsaved[uid])
        if (asked := self._in_doubt.get(uid)) is not None:
            attempt_key: Hashable = asked.name
            return self._backoff.left_s(uid, attempt_key) or await self._try(
                asked.claim, asked.storage_class, attempt_key
            )
        claim = next((self._newest.get(shown.key) for shown in self._of_uid(uid)), None)
        if claim is None or claim.uid != uid or claims.provisioner_of(claim) != self._driver_name:
            self._forget(uid)
            return None
        if not claims.is_for(claim, self._driver_name) or self._made_for(claim) is not None:
            return await self._done_with(claim)
        is_going = claim.metadata.is_terminating
        if is_going and (not claims.is_protected(claim) or uid in self._refused):
            return await self._done_with(claim)  # nothing was created for it, and nothing shall be
        name = claim.class_name
        storage_class = self._classes.get(name)
        if storage_class is None:
            if is_going:
                _log.warning("A volume made for a claim may be left: its class is gone", claim=claim.key)
                return await self._done_with(claim)
            # It can be created (again) at any time, which queues this claim.
            _log.info("The class of a claim does not exist", claim=claim.key, storage_class=name)
            return None
        if not claims.is_due(claim, storage_class):
            # The selected node is removed only after a clear refusal, so there is no volume to find.
            return await (self._done_with(claim) if is_going else self._rescheduling.remind(claim))
        if storage_class.provisioner != self._driver_name:
            _log.info(
                "The class of a claim is another driver's", claim=claim.key, provisioner=storage_class.provisioner
            )
            return None
        if self._ownership is not None:
            is_ours, again_s = await self._ownership.decide(claim, storage_class)
            if not is_ours:
                return again_s
        attempt_key = self._attempt_key(claim, storage_class)
        return self._backoff.left_s(uid, attempt_key) or await self._try(claim, storage_class, attempt_key)

    def _attempt_key(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Hashable:
        """What an attempt depends on: after a failure, a changed key is tried at once."""
        node = self._nodes.get(claim.selected_node)
        return claim.selected_node, node.uid if node is not None else "", storage_class.uid

    def _made_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that was made for a claim, by the cache or by our own last write."""
        try:
            return self._newest_volumes.get(self._options.volume_name(claim.uid))
        except InvalidClaim:
            return None

    async def _done_with(self, claim: PersistentVolumeClaim) -> float | None:
        """The claim has its volume, or gets none; returns seconds to wait while the binder may remove our finalizer."""
        await claims.write_refusal(self._client, claim, "")
        if claims.is_protected(claim):
            saved_at_s = self._saved_at_s.get(claim.uid)
            if saved_at_s is not None and not (claim.spec.volume_name or claim.metadata.is_terminating):
                left_s = saved_at_s + claims.BINDER_S - self._clock.monotonic()
                if left_s > 0:
                    return left_s
            await claims.unprotect(self._client, claim)
        self._forget(claim.uid)
        made = self._made_for(claim)
        return None if made is None or made.name in self._volumes else _LOOK_AGAIN_S

    def _forget(self, uid: str) -> None:
        self._backoff.forget(uid)
        self._refused.discard(uid)
        self._node_gone_since_s.pop(uid, None)
        self._rescheduling.forget(uid)
        if not self._of_uid(uid):
            self._saved_at_s.pop(uid, None)
            if self._ownership is not None:
                self._ownership.forget(uid)

    async def _try(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, attempt_key: Hashable
    ) -> float | None:
        """One attempt; returns the pause before the next, if there is one."""
        note = f'External provisioner is provisioning volume for claim "{claim.key}"'
        self._recorder.event(claim, "Normal", "Provisioning", "Provisioning", note)
        started_at_s = self._clock.monotonic()
        asked = self._in_doubt.get(claim.uid)
        try:
            if asked is None:
                asked = await self._preparation.request_for(claim, storage_class, claim.selected_node)
                await claims.protect(self._client, claim)
            self._node_gone_since_s.pop(claim.uid, None)
            self._refused.discard(claim.uid)
            volume = await self._creator.create(asked)
        except (NotProvisioned, CsiError) as exc:
            return await self._failed(claim, storage_class, asked, exc, attempt_key)
        self._in_doubt.pop(claim.uid, None)
        self._refresher.refresh_volume(volume)
        self._unsaved[claim.uid] = (asked, volume)
        again_s = await self._save(asked, volume)
        if claim.uid not in self._refused:
            self._metrics.provision.done(self._clock.monotonic() - started_at_s, *class_and_source(claim))
        return again_s

    async def _save(self, asked: Prepared, volume: PersistentVolume) -> float | None:
        """Write the PersistentVolume. It is retried until the server takes it, because the volume exists."""
        claim = asked.claim
        attempt_key: Hashable = ("save", volume.name)
        if (left_s := self._backoff.left_s(claim.uid, attempt_key)) > 0:
            return left_s
        try:
            written = await self._client.create(volume)
        except errors.AlreadyExists:
            _log.debug("The volume was written before", volume=volume.name)
            written = await self._client.get(PersistentVolume, volume.name)
        except errors.TonnageError as exc:
            _log.error("A volume is made and cannot be written", volume=volume.name, error=exc.message)
            told = f"error saving volume {volume.name}: {exc.message}"
            self._recorder.event(claim, "Warning", "ProvisioningFailed", "Provisioning", told)
            if not create_volume.is_refused_for_good(exc) or not await self._discarded(asked, volume):
                return self._backoff.failed(claim.uid, attempt_key)
            self._metrics.provision.failed(*class_and_source(claim))
            attempt_key = self._attempt_key(claim, asked.storage_class)
            return self._pause_s(claim, attempt_key, at_least_s=self._options.retry_max_s)
        del self._unsaved[claim.uid]
        self._backoff.forget(claim.uid)
        self._rescheduling.forget(claim.uid)
        self._newest_volumes.store(written)
        self._saved_at_s[claim.uid] = self._clock.monotonic()
        _log.info("Provisioned", claim=claim.key, volume=volume.name)
        told = f"Successfully provisioned volume {volume.name}"
        self._recorder.event(claim, "Normal", "ProvisioningSucceeded", "Provisioning", told)
        await self._rescheduling.send_events(claim)
        return claims.BINDER_S if self._of_uid(claim.uid) else None

    async def _discarded(self, asked: Prepared, volume: PersistentVolume) -> bool:
        """True if a volume that cannot be saved is deleted; one whose PersistentVolume exists after all is kept."""
        claim = asked.claim
        try:
            await self._client.get_doc(PersistentVolume, volume.name)
            return False  # the next attempt to save it finds it
        except errors.NotFound:
            pass
        try:
            await self._creator.discard(asked, volume.spec.csi.volume_handle if volume.spec.csi is not None else "")
        except NotProvisioned as exc:
            self._recorder.event(claim, "Warning", "ProvisioningCleanupFailed", "Provisioning", exc.message)
            return False
        del self._unsaved[claim.uid]
        self._refused.add(claim.uid)
        self._refresher.refresh_volume(volume)
        _log.warning("A volume that cannot be written was deleted", claim=claim.key, volume=volume.name)
        return True

    # -- when it fails ------------------------------------------------------------------------------------------------

    async def _failed(
        self,
        claim: PersistentVolumeClaim,
        storage_class: StorageClass,
        asked: Prepared | None,
        failure: NotProvisioned | CsiError,
        attempt_key: Hashable,
    ) -> float | None:
        node = asked.selected_node if asked is not None else claim.selected_node
        state = self._state(claim, failure, node)
        if isinstance(failure, NotProvisioned) and not failure.is_ours:
            _log.info("Left to others", claim=claim.key, reason=failure.message)
            return None
        if state is ProvisioningState.IN_BACKGROUND and asked is not None:
            self._in_doubt[claim.uid] = asked
            attempt_key = asked.name
        elif state is not ProvisioningState.NO_CHANGE:
            self._in_doubt.pop(claim.uid, None)
            self._refused.add(claim.uid)
        if state is not ProvisioningState.NO_CHANGE:
            # Whatever went wrong, the capacity that led here may be old.
            self._refresher.refresh(storage_class.name)
        self._metrics.provision.failed(*class_and_source(claim))
        if create_volume.is_out_of_room(failure):
            self._metrics.refused.labels(claim.class_name).inc()
        told = error_text(failure)
        _log.warning("Not provisioned", claim=claim.key, node=node, outcome=state, error=told)
        await claims.write_refusal(self._client, claim, told)
        if create_volume.is_infeasible(failure):
            told = f"Volume provisioning failed with infeasible error. Retries will be delayed. {told}"
            self._recorder.event(claim, "Warning", "ProvisioningFailed", "Provisioning", told)
            return self._pause_s(claim, attempt_key, at_least_s=self._options.retry_max_s)
        self._recorder.event(claim, "Warning", "ProvisioningFailed", "Provisioning", told)
        if node and create_volume.is_out_of_room(failure):
            self._rescheduling.refused(claim, node, told)
            await self._rescheduling.send_events(claim)
        if node and state is ProvisioningState.RESCHEDULE and await self._rescheduled(claim, node):
            self._backoff.forget(claim.uid)
            return 0.0  # at once: the scheduler may have chosen another node already
        return self._pause_s(claim, attempt_key)

    def _pause_s(self, claim: PersistentVolumeClaim, attempt_key: Hashable, *, at_least_s: float = 0.0) -> float:
        """Note a failure; returns the seconds to wait. A deleted claim without a volume is released at once."""
        pause_s = self._backoff.failed(claim.uid, attempt_key, at_least_s=at_least_s)
        found = self._claims.get(claim.key)
        is_going = found is None or found.uid != claim.uid or found.metadata.is_terminating
        return 0.0 if is_going and claim.uid in self._refused else pause_s

    def _state(self, claim: PersistentVolumeClaim, failure: NotProvisioned | CsiError, node: str) -> ProvisioningState:
        if isinstance(failure, NotProvisioned):
            # A node that is gone for a short time: an earlier run may have made the volume there.
            is_gone = failure.state is ProvisioningState.RESCHEDULE
            if is_gone and claims.is_protected(claim) and claim.uid not in self._refused:
                now_s = self._clock.monotonic()
                if now_s - self._node_gone_since_s.setdefault(claim.uid, now_s) < self._options.node_may_return_s:
                    return ProvisioningState.NO_CHANGE
            return failure.state
        # Rescheduling only makes sense for a driver with topology and a claim with a selected node.
        return create_volume.state_of(failure.code, may_reschedule=bool(node) and self._has_topology)

    async def _rescheduled(self, claim: PersistentVolumeClaim, node: str) -> bool:
        """True if the scheduler has been asked for another node; otherwise this one is retried later."""
        try:
            newest = await self._rescheduling.remove_selected_node(claim, node)
        except errors.TonnageError as exc:
            _log.info("The node could not be taken back", claim=claim.key, node=node, error=exc.message)
            return False
        if newest is not None:
            self._newest.store(newest)
        return newest is not None
