"""Keeps one fixed object in every active namespace: the ServiceAccount `default`, the ConfigMap with the server's CA.

Mirrors serviceaccounts_controller.go and rootcacertpublisher/publisher.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage import logs
from tonnage.controllers.controller_context import ControllerContext, QueueController
from tonnage.errors import AlreadyExists, ApiError, NotFound
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import ConfigMap, Namespace, ServiceAccount
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object

DEFAULT_SERVICE_ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
_DESCRIPTION: Final = "kubernetes.io/description"
_ROOT_CA_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)

_log = logs.logger(__name__)


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
    has: Doc = to_doc(found)
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
        except (AlreadyExists, NotFound):
            return  # the cache is behind: the object is there, or the namespace is gone
        except ApiError as exc:
            if any(cause.reason == "NamespaceTerminating" for cause in exc.causes):
                return
            raise
        _log.debug("Created", kind=wanted["kind"], name=self._name, namespace=namespace)


class ServiceAccountController(NamespaceObjectController):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, ServiceAccount, DEFAULT_SERVICE_ACCOUNT, service_account)


class RootCACertificatePublisher(NamespaceObjectController):
    def __init__(self, context: ControllerContext) -> None:
        ca_pem = context.configuration.root_ca_pem
        super().__init__(context, ConfigMap, ROOT_CA, lambda namespace: root_ca(namespace, ca_pem))
