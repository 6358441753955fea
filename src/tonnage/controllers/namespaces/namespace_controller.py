"""The namespace controller: it deletes everything in a Terminating namespace, pods first, then finalizes the namespace.

Five conditions show what it waits for; a condition is "True" while something stands in the way
(status_condition_utils.go). Every sync starts from the server's state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tonnage import logs
from tonnage.client.discovered_kinds import discovered_resources, metadata_class, served_resources
from tonnage.client.recorder import truncated
from tonnage.clock import StampAges, parse_rfc3339, rfc3339
from tonnage.controllers.controller_context import ControllerContext, QueueController
from tonnage.errors import ApiError, Invalid, MethodNotAllowed, NotFound, RequestEntityTooLarge, TonnageError
from tonnage.objects.codec import resource_of
from tonnage.objects.core_v1 import Namespace, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc, encode
from tonnage.objects.meta import Key, Object
from tonnage.objects.resources import Resource

_MAX_MESSAGE_BYTES: Final = 8 * 1024
"""Longer messages are cut: objects may have thousands of finalizers, of 300 bytes each."""
_DISCOVERY: Final = "NamespaceDeletionDiscoveryFailure"
_CONTENT_FAILURE: Final = "NamespaceDeletionContentFailure"
_CONTENT: Final = "NamespaceContentRemaining"
_FINALIZERS: Final = "NamespaceFinalizersRemaining"
_ALL_IS_WELL: Final = {
    _DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    _CONTENT_FAILURE: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    _CONTENT: ("ContentRemoved", "All content successfully removed"),
    _FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@dataclass(slots=True)
class Remains:
    """The objects left in a namespace after all were asked to go."""

    by_resource: Counter[Resource] = field(default_factory=Counter)
    by_finalizer: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    discovery_failure: str = ""

    def add(self, resource: Resource, finalizers: Iterable[Iterable[str]]) -> None:
        """Count the remaining objects of one kind; `finalizers` has one entry per object."""
        left = list(finalizers)
        if left:
            self.by_resource[resource] += len(left)
        for each in left:
            self.by_finalizer.update(each)

    @property
    def are_none(self) -> bool:
        return not self.by_resource and not self.failures and not self.discovery_failure


def conditions_after(known: Iterable[Doc], remains: Remains, now: datetime) -> list[Doc] | None:
    """The conditions to write, including conditions of other writers; None when nothing changes."""
    by_type = {each["type"]: each for each in known}
    before = dict(by_type)
    troubles = _troubles(remains)
    for type_, calm in _ALL_IS_WELL.items():
        was = by_type.get(type_)
        status = "True" if type_ in troubles else "False"
        reason, message = troubles.get(type_, calm)
        since = was["lastTransitionTime"] if was is not None and was["status"] == status else rfc3339(now)
        by_type[type_] = {"type": type_, "status": status, "lastTransitionTime": since, "reason": reason}
        by_type[type_]["message"] = truncated(message, _MAX_MESSAGE_BYTES)
    return None if by_type == before else list(by_type.values())


def _troubles(remains: Remains) -> dict[str, tuple[str, str]]:
    """Reason and message of every condition that is "True"."""
    troubles: dict[str, tuple[str, str]] = {}
    if remains.discovery_failure:
        troubles[_DISCOVERY] = ("DiscoveryFailed", remains.discovery_failure)
    if remains.failures:
        failures = ", ".join(sorted(remains.failures))
        message = f"Failed to delete all resource types, {len(remains.failures)} remaining: {failures}"
        troubles[_CONTENT_FAILURE] = ("ContentDeletionFailed", message)
    if remains.by_resource:
        left = sorted(
            f"{resource.plural}.{resource.group} has {count} resource instances"
            for resource, count in remains.by_resource.items()
        )
        troubles[_CONTENT] = ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(left)}")
    if remains.by_finalizer:
        left = sorted(f"{name} in {count} resource instances" for name, count in remains.by_finalizer.items())
        message = f"Some content in the namespace has finalizers remaining: {', '.join(left)}"
        troubles[_FINALIZERS] = ("SomeFinalizersRemain", message)
    return troubles


_FINALIZER: Final = "kubernetes"
_FINALIZER_ESTIMATE_S: Final = 15
"""How long finalizers get before the namespace is checked again."""
_PODS: Final = resource_of(Pod)
_BACKGROUND: Final = encode({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})

_log = logs.logger(__name__)


class NamespaceController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ages = StampAges(context.clock)
        self._namespaces = context.informers.of(Namespace)
        self._reconciler = self._add_queue("namespaces", self._reconcile, workers=10, first_retry_s=0.1)
        self._reconciler.follow(self._namespaces, lambda each: (each.name,) if each.metadata.is_terminating else ())
        # Namespaces wait longest for pods; when the last pod goes, the namespace is checked at once.
        context.informers.of(Pod).add_handlers(on_delete=self._content_deleted)
        context.informers.of(PersistentVolumeClaim).add_handlers(on_delete=self._content_deleted)

    def _content_deleted(self, old: Object) -> None:
        namespace = self._namespaces.get(old.namespace)
        if namespace is not None and namespace.metadata.is_terminating:
            self._reconciler.add(namespace.name)

    async def _reconcile(self, key: Key) -> float | None:
        """Delete everything in a Terminating namespace; finalize the namespace when nothing is left."""
        try:
            doc = await self._client.get_doc(Namespace, key)
        except NotFound:
            return None
        if "deletionTimestamp" not in doc["metadata"] or _FINALIZER not in doc.get("spec", {}).get("finalizers", ()):
            return None
        remains, estimate_s = await self._empty(doc)
        doc = await self._report(doc, remains)
        if remains.are_none:
            await self._finalize(doc)
            _log.info("A namespace is empty and gone", namespace=key)
            return None
        if remains.failures or remains.discovery_failure:
            failures = remains.discovery_failure or ", ".join(remains.failures)
            raise TonnageError(f'the namespace "{key}" could not be emptied: {failures}')
        return estimate_s // 2 + 1

    async def _empty(self, doc: Doc) -> tuple[Remains, int]:
        """Delete the content, pods first. Returns the remains, and after how many seconds to check again."""
        name, remains = doc["metadata"]["name"], Remains()
        pods = (await self._client.list(Pod, namespace=name)).items
        grace_s = max((pod.spec.termination_grace_period_seconds for pod in pods if not pod.is_terminal), default=0)
        if self._ages.age_s(name, parse_rfc3339(doc["metadata"]["deletionTimestamp"])) >= grace_s:
            grace_s = 0  # it should be over by now
        estimate_s = max(await self._delete_all(_PODS, name, remains), grace_s)
        if remains.by_resource:
            return remains, estimate_s
        try:
            served = (*await served_resources(self._client), *await discovered_resources(self._client))
        except ApiError as exc:
            remains.discovery_failure = exc.message
            return remains, estimate_s
        for resource in served:
            # A resource that only shows objects of another resource has nothing of its own to delete.
            if resource.namespaced and resource is not _PODS and resource.stored_as is None:
                estimate_s = max(await self._delete_all(resource, name, remains), estimate_s)
        return remains, estimate_s

    async def _delete_all(self, resource: Resource, name: str, remains: Remains) -> int:
        """Delete all objects of one kind. Returns the seconds that the finalizers of the remaining objects may take."""
        path, head = resource.path(name), metadata_class(resource)
        try:
            try:
                await self._client.raw("DELETE", path, _BACKGROUND)
            except MethodNotAllowed:
                for each in (await self._client.list(head, namespace=name)).items:
                    await self._client.delete(resource, each.key, uid=each.uid, propagation="Background")
            left = (await self._client.list(head, namespace=name)).items
        except NotFound:
            return 0  # the kind itself is gone, with all its objects
        except ApiError as exc:
            remains.failures.append(f"{resource.qualified}: {exc.message}")
            return 0
        remains.add(resource, (each.metadata.finalizers for each in left))
        return _FINALIZER_ESTIMATE_S if any(each.metadata.finalizers for each in left) else 0

    async def _report(self, doc: Doc, remains: Remains) -> Doc:
        """Write the conditions if they changed. Returns the namespace as it is then."""
        status = doc.get("status", {})
        conditions = conditions_after(status.get("conditions", ()), remains, self._clock.now())
        if conditions is None and status.get("phase") == "Terminating":
            return doc
        wanted = {"phase": "Terminating", **({"conditions": conditions} if conditions is not None else {})}
        metadata = doc["metadata"]
        same = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        try:
            return await self._client.patch_doc(
                Namespace, metadata["name"], {"metadata": same, "status": wanted}, subresource="status"
            )
        except (RequestEntityTooLarge, Invalid) as exc:  # it has no room for them, and goes all the same
            _log.warning("A namespace's conditions cannot be written", namespace=metadata["name"], error=exc.message)
            return doc

    async def _finalize(self, doc: Doc) -> None:
        kept = [each for each in doc["spec"]["finalizers"] if each != _FINALIZER]
        doc = {**doc, "apiVersion": "v1", "kind": "Namespace", "spec": {**doc["spec"], "finalizers": kept}}
        try:
            await self._client.update_doc(doc, subresource="finalize")
        except NotFound:
            return
