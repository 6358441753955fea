"""Making volumes: every claim that is ours gets one, once, whatever fails in between.

Work is named by the claim's uid, not its name: a claim that was deleted and made again is another one. What an attempt
may leave behind, and what follows from it, is drawn in `outcomes`. Two things are remembered, both for the sake of
volumes that nobody else would find again:

- `_in_doubt`: requests without a clear answer. They are repeated word for word, even when their claim is gone;
- `_unsaved`: volumes that were made and whose PersistentVolume the server has not taken yet.

Killed at any point, a new run finds the claim as it was and asks for a volume of the same name: a claim that is deleted
meanwhile waits for that (`claim_protection`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable

from tonnage import logs
from tonnage.backoff import KeyedBackoff
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.reconciler import Reconciler
from tonnage.client.recorder import Recorder
from tonnage.clock import Clock
from tonnage.csi.errors import CsiError
from tonnage.errors import AlreadyExists, TonnageError
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import StorageClass
from tonnage.provisioner.capacity.refresher import Refresher
from tonnage.provisioner.metrics import Meter
from tonnage.provisioner.options import Options
from tonnage.provisioner.volumes import outcomes
from tonnage.provisioner.volumes.claim_protection import ClaimProtection, is_held
from tonnage.provisioner.volumes.claims import is_due, is_for, provisioner_of
from tonnage.provisioner.volumes.create_volume import Creation
from tonnage.provisioner.volumes.node_deployment import Owner, Ownership
from tonnage.provisioner.volumes.outcomes import NotProvisioned, Outcome, outcome_of, wording
from tonnage.provisioner.volumes.preparation import Preparation
from tonnage.provisioner.volumes.requests import InvalidClaim, Prepared, volume_name
from tonnage.provisioner.volumes.rescheduling import Rescheduling

_SEEN_WITHIN_S = 30.0
"""How long our own PersistentVolume may take to come back by watch before the claim is looked at as if it had none."""

_log = logs.logger("tonnage.provisioner")


class Provisioning:
    """Brings claims of one driver to their volumes."""

    def __init__(
        self,
        client: Client,
        driver_name: str,
        options: Options,
        recorder: Recorder,
        meter: Meter,
        refresher: Refresher,
        *,
        claims: Cache[PersistentVolumeClaim],
        volumes: Cache[PersistentVolume],
        classes: Cache[StorageClass],
        nodes: Cache[Node],
        preparation: Preparation,
        creation: Creation,
        rescheduling: Rescheduling,
        ownership: Ownership | None,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._driver_name = driver_name
        self._options = options
        self._recorder = recorder
        self._meter = meter
        self._refresher = refresher
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self._nodes = nodes
        self._preparation = preparation
        self._creation = creation
        self._rescheduling = rescheduling
        self._ownership = ownership
        self._protection = ClaimProtection(client)
        self._clock = clock
        self._backoff = KeyedBackoff(clock=clock, rng=rng, first_s=options.retry_start_s, max_s=options.retry_max_s)
        self._keys: dict[str, Key] = {}
        self._in_doubt: dict[str, Prepared] = {}
        self._unsaved: dict[str, tuple[PersistentVolumeClaim, PersistentVolume]] = {}
        self._not_made: set[str] = set()  # claims that the driver has clearly refused a volume
        self._saved_at_s: dict[str, float] = {}
        self._settled: dict[str, frozenset[str]] = {}  # states of a claim that we have answered; caches lag behind
        self.work = Reconciler("provisioning", self.bring, clock=clock, workers=options.worker_threads)
        claims.add_handlers(on_add=self._noted, on_update=lambda _, claim: self._noted(claim), on_delete=self._gone)
        self.work.follow(volumes, lambda volume: (volume.spec.claim_ref.uid,) if volume.spec.claim_ref else ())
        classes.on_change(lambda found: self._wake(lambda claim: claim.class_name == found.name))
        nodes.add_handlers(on_delete=lambda node: self._wake(lambda claim: claim.selected_node == node.name))

    # -- what to look at ----------------------------------------------------------------------------------------------

    def _noted(self, claim: PersistentVolumeClaim) -> None:
        self._keys[claim.uid] = claim.key
        self.work.add(claim.uid)

    def _gone(self, claim: PersistentVolumeClaim) -> None:
        self._keys.pop(claim.uid, None)
        self.work.add(claim.uid)  # what is in doubt goes on without its claim

    def _wake(self, is_concerned: Callable[[PersistentVolumeClaim], bool]) -> None:
        for claim in self._claims:
            if is_for(claim, self._driver_name) and is_concerned(claim):
                self.work.add(claim.uid)

    # -- one claim ----------------------------------------------------------------------------------------------------

    async def bring(self, uid: str) -> float | None:
        """Bring one claim to its volume; safe to run twice, late, or after a missed event."""
        if uid in self._unsaved:
            return await self._save(*self._unsaved[uid])
        if (asked := self._in_doubt.get(uid)) is not None:
            question: Hashable = asked.name
            return self._backoff.left_s(uid, question) or await self._try(asked.claim, asked.storage_class, question)
        claim = self._claims.get(self._keys.get(uid, ""))
        if claim is None or claim.uid != uid or provisioner_of(claim) != self._driver_name:
            self._forget(uid)
            return None
        if not is_for(claim, self._driver_name) or self._has_volume(claim):
            return await self._done_with(claim)
        if claim.metadata.resource_version in self._settled.get(uid, ()):
            return None  # an old picture: the newer one is on its way
        is_going = claim.metadata.is_terminating
        if is_going and (not is_held(claim) or uid in self._not_made):
            return await self._done_with(claim)  # nothing was made for it, and nothing shall be
        name = claim.class_name
        storage_class = self._classes.get(name)
        if storage_class is None:
            if is_going:
                _log.warning("A volume made for a claim may be left: its class is gone", claim=claim.key)
                return await self._done_with(claim)
            # It can be made (again) any time, and wakes us then.
            _log.info("The class of a claim does not exist", claim=claim.key, storage_class=name)
            return None
        if not is_due(claim, storage_class):
            # The choice of a node is taken back only after a clear refusal: there is nothing to find.
            return await (self._done_with(claim) if is_going else self._rescheduling.remind(claim))
        if storage_class.provisioner != self._driver_name:
            _log.info(
                "The class of a claim is another driver's", claim=claim.key, provisioner=storage_class.provisioner
            )
            return None
        if self._ownership is not None:
            decision = await self._ownership.decide(claim, storage_class)
            if decision.owner is not Owner.OURS:
                return decision.again_s
        node = self._nodes.get(claim.selected_node)
        question = (claim.selected_node, node.uid if node is not None else "", storage_class.uid)
        return self._backoff.left_s(uid, question) or await self._try(claim, storage_class, question)

    def _has_volume(self, claim: PersistentVolumeClaim) -> bool:
        """Its volume exists, as far as the cache shows or as we know better."""
        try:
            options = self._options
            name = volume_name(options.volume_name_prefix, claim.uid, options.volume_name_uuid_length)
        except InvalidClaim:
            return False
        if name in self._volumes:
            return True
        saved_at_s = self._saved_at_s.get(claim.uid)
        return saved_at_s is not None and self._clock.monotonic() - saved_at_s < _SEEN_WITHIN_S

    async def _done_with(self, claim: PersistentVolumeClaim) -> float | None:
        """It has its volume, or shall have none; there is nothing to look at again."""
        if is_held(claim):
            await self._protection.let_go(claim)
        self._forget(claim.uid)
        return None

    def _forget(self, uid: str) -> None:
        self._backoff.forget(uid)
        self._not_made.discard(uid)
        self._settled.pop(uid, None)
        self._rescheduling.forget(uid)
        if uid not in self._keys:
            self._saved_at_s.pop(uid, None)
            if self._ownership is not None:
                self._ownership.forget(uid)

    async def _try(self, claim: PersistentVolumeClaim, storage_class: StorageClass, question: Hashable) -> float | None:
        """One attempt; the pause before the next, if there has to be one."""
        note = f'External provisioner is provisioning volume for claim "{claim.key}"'
        self._recorder.event(claim, "Normal", "Provisioning", "Provisioning", note)
        started_at_s = self._clock.monotonic()
        asked = self._in_doubt.get(claim.uid)
        try:
            if asked is None:
                asked = await self._preparation.request_for(claim, storage_class, claim.selected_node)
                await self._protection.hold(claim)
            self._not_made.discard(claim.uid)
            volume = await self._creation.create(asked)
        except (NotProvisioned, CsiError) as exc:
            return await self._failed(claim, storage_class, asked, exc, question)
        self._in_doubt.pop(claim.uid, None)
        self._refresher.refresh_volume(volume)
        self._unsaved[claim.uid] = (claim, volume)
        again_s = await self._save(claim, volume)
        self._meter.provisioned(claim, self._clock.monotonic() - started_at_s)
        return again_s

    async def _save(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> float | None:
        """Write the PersistentVolume, at every attempt until the server has taken it: the volume exists."""
        question = ("save", volume.name)
        if (left_s := self._backoff.left_s(claim.uid, question)) > 0:
            return left_s
        try:
            await self._client.create(volume)
        except AlreadyExists:
            _log.debug("The volume was written before", volume=volume.name)
        except TonnageError as exc:
            _log.error("A volume is made and cannot be written", volume=volume.name, error=exc.message)
            told = f"error saving volume {volume.name}: {exc.message}"
            self._recorder.event(claim, "Warning", "ProvisioningFailed", "Provisioning", told)
            return self._backoff.failed(claim.uid, question)
        del self._unsaved[claim.uid]
        self._backoff.forget(claim.uid)
        self._rescheduling.made(claim, volume)
        self._saved_at_s[claim.uid] = self._clock.monotonic()
        try:
            await self._protection.let_go(claim)
        except TonnageError as exc:
            _log.debug("The claim is let go later", claim=claim.key, error=exc.message)
        _log.info("Provisioned", claim=claim.key, volume=volume.name)
        told = f"Successfully provisioned volume {volume.name}"
        self._recorder.event(claim, "Normal", "ProvisioningSucceeded", "Provisioning", told)
        await self._rescheduling.tell_pods(claim)
        return _SEEN_WITHIN_S if claim.uid in self._keys else None

    # -- when it fails ------------------------------------------------------------------------------------------------

    async def _failed(
        self,
        claim: PersistentVolumeClaim,
        storage_class: StorageClass,
        asked: Prepared | None,
        failure: NotProvisioned | CsiError,
        question: Hashable,
    ) -> float | None:
        node = asked.selected_node if asked is not None else claim.selected_node
        outcome = self._outcome(failure, node)
        if isinstance(failure, NotProvisioned) and not failure.is_ours:
            _log.info("Left to others", claim=claim.key, reason=failure.message)
            return None
        if outcome is Outcome.IN_BACKGROUND and asked is not None:
            self._in_doubt[claim.uid] = asked
            question = asked.name
        elif outcome is not Outcome.NO_CHANGE:
            self._in_doubt.pop(claim.uid, None)
            self._not_made.add(claim.uid)
        if outcome is not Outcome.NO_CHANGE:
            # Whatever went wrong, the figures that led here may be old.
            self._refresher.refresh(storage_class.name)
        self._meter.provision_failed(claim)
        told = wording(failure)
        _log.warning("Not provisioned", claim=claim.key, node=node, outcome=outcome, error=told)
        if outcomes.is_infeasible(failure):
            told = f"Volume provisioning failed with infeasible error. Retries will be delayed. {told}"
            self._recorder.event(claim, "Warning", "ProvisioningFailed", "Provisioning", told)
            return self._backoff.failed(claim.uid, question, at_least_s=self._options.retry_max_s)
        self._recorder.event(claim, "Warning", "ProvisioningFailed", "Provisioning", told)
        if node and outcomes.is_out_of_room(failure):
            self._rescheduling.refused(claim, node, told)
            await self._rescheduling.tell_pods(claim)
        if node and outcome is Outcome.RESCHEDULE and await self._rescheduled(claim, node):
            self._backoff.forget(claim.uid)
            return 0.0  # at once: the scheduler may have chosen another node already
        return self._backoff.failed(claim.uid, question)

    def _outcome(self, failure: NotProvisioned | CsiError, node: str) -> Outcome:
        if isinstance(failure, NotProvisioned):
            return failure.outcome
        # Elsewhere only makes sense for a driver whose volumes are somewhere, and a claim that was sent somewhere.
        return outcome_of(failure.code, may_reschedule=bool(node) and self._preparation.has_topology)

    async def _rescheduled(self, claim: PersistentVolumeClaim, node: str) -> bool:
        """Whether the scheduler has been asked for another node; if not, this one is tried again later."""
        try:
            version = await self._rescheduling.take_back(claim, node)
        except TonnageError as exc:
            _log.info("The node could not be taken back", claim=claim.key, node=node, error=exc.message)
            return False
        self._settled[claim.uid] = frozenset({version, claim.metadata.resource_version})
        return True
