"""Writes of the StatefulSet controller: pods and claims, one at a time, each with its event.

Claims come before the pod that mounts them. Each write may be repeated: what is there is left as it is. Mirrors
stateful_pod_control.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage.behaviour.workloads import stateful_identity
from tonnage.behaviour.workloads.stateful_identity import (
    claim_names,
    claims_for,
    has_identity,
    identity_labels,
    ordinal_of,
    pod_for,
    pod_name,
)
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.recorder import Recorder
from tonnage.controllers.workloads.expectations import Expectations
from tonnage.errors import AlreadyExists, NotFound, TonnageError
from tonnage.objects import codec
from tonnage.objects.apps_v1 import StatefulSet
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import ObjectReference, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc


class ClaimTerminating(TonnageError):
    """A claim of the right name is on its way out; the pod cannot be made before it is gone."""

    def __init__(self, name: str) -> None:
        super().__init__(f"pvc {name} is being deleted")


class StatefulPodControl:
    """Creates, updates and deletes the pods and claims of StatefulSets."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        pods: Cache[Pod],
        claims: Cache[PersistentVolumeClaim],
        expectations: Expectations,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._pods = pods
        self._claims = claims
        self._expectations = expectations

    async def create(self, owner: StatefulSet, template: Mapping[str, Any], ordinal: int, revision: str) -> None:
        """Make the claims of an ordinal where they are missing, then its pod. Raises what was in the way."""
        name = pod_name(owner, ordinal)
        try:
            await self.create_claims(owner, ordinal)
            made = codec.convert(Pod, await self._client.create_doc(pod_for(owner, template, ordinal, revision)))
        except AlreadyExists:
            raise  # the cache will show it: no failure to record
        except TonnageError as exc:
            self._record_pod_event(owner, "Create", name, exc)
            raise
        self._expectations.expect_written(owner.key, self._pods, made)
        self._record_pod_event(owner, "Create", name, None)

    async def delete(self, owner: StatefulSet, pod: Pod) -> None:
        try:
            await self._client.delete(Pod, pod.key, uid=pod.uid)
        except NotFound:
            pass  # that is what was wanted
        except TonnageError as exc:
            self._record_pod_event(owner, "Delete", pod.name, exc)
            raise
        self._expectations.expect_deleted(owner.key, self._pods, pod.key, pod.uid)
        self._record_pod_event(owner, "Delete", pod.name, None)

    async def update(self, owner: StatefulSet, pod: Pod) -> None:
        """Give an adopted pod the labels of its identity, and its claims the owners that the policy wants.

        Its volumes stay as they are: no API server lets them be changed.
        """
        if not has_identity(pod):
            patch: Doc = {"metadata": {"uid": pod.uid, "labels": identity_labels(pod.name)}}
            try:
                written = await self._client.patch(Pod, pod.key, patch, patch_type="strategic")
            except TonnageError as exc:
                self._record_pod_event(owner, "Update", pod.name, exc)
                raise
            self._expectations.expect_written(owner.key, self._pods, written)
            self._record_pod_event(owner, "Update", pod.name, None)
        await self.update_claims(owner, pod)

    async def create_claims(self, owner: StatefulSet, ordinal: int) -> None:
        """Make the claims of an ordinal that are missing. Raises ClaimTerminating for one that is being deleted."""
        known = {name: self._claims.get(f"{owner.namespace}/{name}") for name in claim_names(owner, ordinal).values()}
        if going := next((name for name, claim in known.items() if claim and claim.metadata.is_terminating), None):
            raise ClaimTerminating(going)
        if all(known.values()):
            return
        owners = [to_doc(each) for each in stateful_identity.owners_at_creation(owner)]
        for doc in claims_for(owner, ordinal):
            name = doc["metadata"]["name"]
            if known[name] is not None:
                continue
            if owners:
                doc["metadata"]["ownerReferences"] = owners
            try:
                made = codec.convert(PersistentVolumeClaim, await self._client.create_doc(doc))
            except TonnageError as exc:
                if not isinstance(exc, AlreadyExists):
                    self._record_claim_event(owner, name, ordinal, exc)
                raise
            self._expectations.expect_written(owner.key, self._claims, made)
            self._record_claim_event(owner, name, ordinal, None)

    async def update_claims(self, owner: StatefulSet, pod: Pod) -> None:
        """Set the claims' owners by the retention policy; those that the cache does not show come next time."""
        for name in claim_names(owner, ordinal_of(pod.name)).values():
            known = self._claims.get(f"{owner.namespace}/{name}")
            if known is None:
                continue
            if stateful_identity.has_unexpected_controller(known, owner, pod):
                note = (
                    f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, "
                    "the retention policy is ignored for this claim"
                )
                self._recorder.event(owner, "Warning", "ConflictingController", "Update", note, known)
            owners = stateful_identity.owners_to_set(known, owner, pod)
            if owners is None:
                continue
            metadata = {"uid": known.uid, "resourceVersion": known.metadata.resource_version}
            patch: Doc = {"metadata": {**metadata, "ownerReferences": [to_doc(each) for each in owners]}}
            try:
                written = await self._client.patch(PersistentVolumeClaim, known.key, patch)
            except TonnageError as exc:
                self._record_pod_event(owner, "Update", pod.name, exc)
                raise
            self._expectations.expect_written(owner.key, self._claims, written)

    # -- events -------------------------------------------------------------------------------------------------------

    def _record_pod_event(self, owner: StatefulSet, verb: str, name: str, failure: TonnageError | None) -> None:
        about = ObjectReference(api_version="v1", kind="Pod", namespace=owner.namespace, name=name)
        what = f"{verb} Pod {name} in StatefulSet {owner.name}"
        if failure is None:
            self._recorder.event(owner, "Normal", f"Successful{verb}", verb, f"{what} successful", about)
        else:
            note = f"{what} failed error: {failure.message}"
            self._recorder.event(owner, "Warning", f"Failed{verb}", verb, note, about)

    def _record_claim_event(self, owner: StatefulSet, name: str, ordinal: int, failure: TonnageError | None) -> None:
        about = ObjectReference(api_version="v1", kind="PersistentVolumeClaim", namespace=owner.namespace, name=name)
        pod = pod_name(owner, ordinal)
        if failure is None:
            note = f"Create Claim {name} Pod {pod} in StatefulSet {owner.name} success"
            self._recorder.event(owner, "Normal", "SuccessfulCreate", "Create", note, about)
        else:
            note = f"Create Claim {name} for Pod {pod} in StatefulSet {owner.name} failed error: {failure.message}"
            self._recorder.event(owner, "Warning", "FailedCreate", "Create", note, about)
