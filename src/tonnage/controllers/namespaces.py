"""Namespaces: what each gets when it is made, its quotas, and its deletion with everything in it.

An active namespace always has the ServiceAccount `default` and the ConfigMap with the server's CA. `status.used` of
every quota equals what the namespace holds: the API server charges quotas when objects are created; they are counted
again when objects go, when a quota is new, and every few minutes. A quota charged meanwhile conflicts and is counted
again.

In a Terminating namespace everything is deleted, pods first, then the namespace is finalized. Five conditions show what
it waits for; a condition is "True" while something stands in the way. Every sync starts from the server's state.

Mirrors status_condition_utils.go, serviceaccounts_controller.go, rootcacertpublisher/publisher.go, resourcequota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tonnage import clock, errors, logs
from tonnage.client import cache, recorder
from tonnage.client.discovered_kinds import (
    discovered_resources,
    metadata_class,
    served_resources,
    wait_for_served_resources,
)
from tonnage.controllers.controller_context import (
    ControllerContext,
    QueueController,
    is_namespace_terminating,
    namespace_of,
)
from tonnage.documents.kinds.resource_quota import is_counted, is_same_status, names_for, recounted
from tonnage.objects import codec, resources
from tonnage.objects.core_v1 import ConfigMap, Namespace, PersistentVolumeClaim, Pod, ResourceQuota, ServiceAccount
from tonnage.objects.document import Doc, encode, same
from tonnage.objects.meta import Key, Object

_log = logs.logger("tonnage.controllers.namespaces.namespace_objects")
_quotas_log = logs.logger("tonnage.controllers.namespaces.resource_quotas")
_namespaces_log = logs.logger("tonnage.controllers.namespaces.namespace_controller")


DEFAULT_SERVICE_ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
_DESCRIPTION: Final = "kubernetes.io/description"
_ROOT_CA_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def service_account(namespace: str) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": DEFAULT_SERVICE_ACCOUNT, "namespace": namespace},
    }


def root_ca(namespace: str, ca_pem: bytes) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": ROOT_CA,
            "namespace": namespace,
            "annotations": {_DESCRIPTION: _ROOT_CA_DESCRIPTION},
        },
        "data": {"ca.crt": ca_pem.decode()},
    }


def correction(found: Object, wanted: Doc) -> Doc | None:
    """A merge patch that sets the wanted data; None when the object has them. An existing description stays."""
    if "data" not in wanted:
        return None
    has: Doc = codec.to_doc(found)
    data, annotations = has.get("data", {}), has["metadata"].get("annotations", {})
    if data == wanted["data"] and annotations.get(_DESCRIPTION):
        return None
    return {
        "metadata": {
            "uid": found.uid,
            "resourceVersion": found.metadata.resource_version,
            "annotations": wanted["metadata"]["annotations"],
        },
        "data": {**dict.fromkeys(data), **wanted["data"]},
    }


class NamespaceObjectController(QueueController):
    """Keeps one object in every active namespace; `wanted` builds it for a namespace."""

    def __init__(self, context: ControllerContext, cls: type[Object], name: str, wanted: Callable[[str], Doc]) -> None:
        super().__init__(context)
        self._name = name
        self._wanted = wanted
        self._namespaces = context.informers.of(Namespace)
        self._objects = context.informers.of(cls)
        queue = self._add_queue(name, self._reconcile)
        queue.follow(self._namespaces)
        queue.follow(self._objects, lambda found: (found.namespace,) if found.name == name else ())

    async def _reconcile(self, namespace: Key) -> None:
        shown = self._namespaces.get(namespace)
        if shown is None or shown.metadata.is_terminating or shown.status.phase != "Active":
            return
        found, wanted = self._objects.get(f"{namespace}/{self._name}"), self._wanted(namespace)
        if found is None:
            await self._create(namespace, wanted)
        elif (patch := correction(found, wanted)) is not None:
            await self._client.patch(type(found), found.key, patch)
            _log.info("Put right", kind=wanted["kind"], object=found.key)

    async def _create(self, namespace: str, wanted: Doc) -> None:
        try:
            await self._client.create_doc(wanted)
        except errors.ApiError as exc:
            if not is_namespace_terminating(exc):
                raise
            return
        _log.debug("Created", kind=wanted["kind"], name=self._name, namespace=namespace)


def service_account_controller(context: ControllerContext) -> QueueController:
    return NamespaceObjectController(context, ServiceAccount, DEFAULT_SERVICE_ACCOUNT, service_account)


def root_ca_publisher(context: ControllerContext) -> QueueController:
    """It does nothing if the cluster has no certificate authority of its own."""
    if not (ca_pem := context.configuration.root_ca_pem):
        return QueueController(context)
    return NamespaceObjectController(context, ConfigMap, ROOT_CA, lambda namespace: root_ca(namespace, ca_pem))


RESYNC_S: Final = 300.0
"""Upstream's --resource-quota-sync-period."""
_QUOTAS: Final = resources.BY_PLURAL["", "resourcequotas"]


class ResourceQuotaController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._quotas = context.informers.of(ResourceQuota)
        self._reconciler = self._add_queue("resource-quota", self._reconcile)
        # Not queued when the server charges a quota: the charged object does not exist yet and would not be counted.
        self._reconciler.follow(self._quotas, lambda quota: () if quota.is_counted else (quota.namespace,))
        self._by_namespace = cache.Indexer(self._quotas, namespace_of)
        self._counted: tuple[resources.Resource, ...] = ()

    async def run(self) -> None:
        """Count until cancelled. Nothing is counted before every informer is synced."""
        self._counted = tuple(
            filter(is_counted, await wait_for_served_resources(self._client, clock=self._clock, rng=self._rng))
        )
        known = self._informers.followed()  # whole objects, for other controllers; of other kinds only metadata is read
        for resource in self._counted:
            if resource != _QUOTAS:
                self._reconciler.follow(
                    self._informers.of(known.get(resource) or metadata_class(resource)),
                    lambda found: (found.namespace,) if self._by_namespace(found.namespace) else (),
                )
        await self._informers.wait_synced()
        for quota in self._quotas:  # objects that went while no controller ran
            self._reconciler.add(quota.namespace)
        await super().run()

    async def _reconcile(self, namespace: Key) -> float | None:
        quotas = await self._client.list_docs(_QUOTAS, namespace=namespace)
        if not quotas:
            return None
        content: dict[resources.Resource, tuple[Doc, ...]] = {}
        for resource in self._counted:
            if any(names_for(resource, quota.get("spec", {}).get("hard", {})) for quota in quotas):
                content[resource] = await self._client.list_docs(resource, namespace=namespace)
        for quota in quotas:
            await self._write(quota, recounted(quota, content, self._clock.now()))
        return RESYNC_S

    async def _write(self, quota: Doc, status: Doc) -> None:
        was = quota.get("status", {})
        if is_same_status(was, status) and same(was.get("hard"), status.get("hard")):
            return
        await self._client.update_doc({**quota, "status": status}, subresource="status")
        _quotas_log.debug("Counted", quota=f"{quota['metadata']['namespace']}/{quota['metadata']['name']}")


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

    by_resource: Counter[resources.Resource] = field(default_factory=Counter)
    by_finalizer: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    discovery_failure: str = ""

    def add(self, resource: resources.Resource, finalizers: Iterable[Iterable[str]]) -> None:
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
        since = was["lastTransitionTime"] if was is not None and was["status"] == status else clock.rfc3339(now)
        by_type[type_] = {"type": type_, "status": status, "lastTransitionTime": since, "reason": reason}
        by_type[type_]["message"] = recorder.truncated(message, _MAX_MESSAGE_BYTES)
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
_PODS: Final = codec.resource_of(Pod)
_BACKGROUND: Final = encode({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})


class NamespaceController(QueueController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
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
        except errors.NotFound:
            return None
        if "deletionTimestamp" not in doc["metadata"] or _FINALIZER not in doc.get("spec", {}).get("finalizers", ()):
            return None
        remains, estimate_s = await self._empty(doc)
        doc = await self._report(doc, remains)
        if remains.are_none:
            await self._finalize(doc)
            _namespaces_log.info("A namespace is empty and gone", namespace=key)
            return None
        if remains.failures or remains.discovery_failure:
            failures = remains.discovery_failure or ", ".join(remains.failures)
            raise errors.TonnageError(f'the namespace "{key}" could not be emptied: {failures}')
        return estimate_s // 2 + 1

    async def _empty(self, doc: Doc) -> tuple[Remains, int]:
        """Delete the content, pods first. Returns the remains, and after how many seconds to check again."""
        name, remains = doc["metadata"]["name"], Remains()
        pods = (await self._client.list(Pod, namespace=name)).items
        grace_s = max((pod.spec.termination_grace_period_seconds for pod in pods if not pod.is_terminal), default=0)
        if self._ages.age_s(name, clock.parse_rfc3339(doc["metadata"]["deletionTimestamp"])) >= grace_s:
            grace_s = 0  # it should be over by now
        estimate_s = max(await self._delete_all(_PODS, name, remains), grace_s)
        if remains.by_resource:
            return remains, estimate_s
        try:
            served = (*await served_resources(self._client), *await discovered_resources(self._client))
        except errors.ApiError as exc:
            remains.discovery_failure = exc.message
            return remains, estimate_s
        for resource in served:
            # A resource that only shows objects of another resource has nothing of its own to delete.
            if resource.namespaced and resource is not _PODS and resource.stored_as is None:
                estimate_s = max(await self._delete_all(resource, name, remains), estimate_s)
        return remains, estimate_s

    async def _delete_all(self, resource: resources.Resource, name: str, remains: Remains) -> int:
        """Delete all objects of one kind. Returns the seconds that the finalizers of the remaining objects may take."""
        path, head = resource.path(name), metadata_class(resource)
        try:
            try:
                await self._client.raw("DELETE", path, _BACKGROUND)
            except errors.MethodNotAllowed:
                for each in (await self._client.list(head, namespace=name)).items:
                    await self._client.delete(resource, each.key, uid=each.uid, propagation="Background")
            left = (await self._client.list(head, namespace=name)).items
        except errors.NotFound:
            return 0  # the kind itself is gone, with all its objects
        except errors.ApiError as exc:
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
        except (errors.RequestEntityTooLarge, errors.Invalid) as exc:  # it has no room for them, and goes all the same
            _namespaces_log.warning(
                "A namespace's conditions cannot be written", namespace=metadata["name"], error=exc.message
            )
            return doc

    async def _finalize(self, doc: Doc) -> None:
        kept = [each for each in doc["spec"]["finalizers"] if each != _FINALIZER]
        doc = {**doc, "apiVersion": "v1", "kind": "Namespace", "spec": {**doc["spec"], "finalizers": kept}}
        await self._client.update_doc(doc, subresource="finalize")
