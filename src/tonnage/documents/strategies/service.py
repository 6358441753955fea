"""The rules of Service and NetworkPolicy. Nothing is allocated: see `documents/defaults/service.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tonnage.documents.defaults.service import default_network_policy, default_service, settle_addresses
from tonnage.documents.strategies.base import Generation, Strategy
from tonnage.documents.validation.network_policy import network_policy_warnings, validate_network_policy
from tonnage.documents.validation.service import service_warnings, validate_service, validate_service_status
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors

# Field -> the type that has it. On an update that leaves the type, a value nobody touched goes with it.
_OF_BALANCERS = ("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort")


class ServiceStrategy(Strategy):
    name_rule: ClassVar[Callable[[str], list[str]]] = staticmethod(names.dns_label)
    create_on_update = True
    selectable: ClassVar[dict[str, tuple[str, ...]]] = {
        "spec.clusterIP": ("spec", "clusterIP"),
        "spec.type": ("spec", "type"),
    }

    def default(self, doc: Doc) -> None:
        default_service(doc)

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"loadBalancer": {}}
        settle_addresses(doc["spec"])

    def validate(self, doc: Doc) -> Errors:
        return validate_service(doc)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        spec, was = new["spec"], old["spec"]
        settle_addresses(spec, was)
        if was["type"] == "LoadBalancer" and spec["type"] != "LoadBalancer":
            for field in _OF_BALANCERS:
                if spec.get(field) == was.get(field):
                    spec.pop(field, None)
            new["status"] = {**new.get("status", {}), "loadBalancer": {}}
        if spec["type"] in ("ClusterIP", "ExternalName") and was["type"] in ("NodePort", "LoadBalancer"):
            if spec.get("externalTrafficPolicy") == was.get("externalTrafficPolicy"):
                spec.pop("externalTrafficPolicy", None)
            _drop_untouched_node_ports(spec, was)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_service(new, old)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        return validate_service_status(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return service_warnings(new)


def _drop_untouched_node_ports(spec: Doc, was: Doc) -> None:
    outer = [port.get("nodePort", 0) for port in spec.get("ports", ())]
    if outer == [port.get("nodePort", 0) for port in was.get("ports", ())]:
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)


class NetworkPolicyStrategy(Strategy):
    """Kept, not enforced: pods of an embedded cluster have no network of their own."""

    generation = Generation.COUNTED

    def default(self, doc: Doc) -> None:
        default_network_policy(doc)

    def validate(self, doc: Doc) -> Errors:
        return validate_network_policy(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_network_policy(new, old)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return network_policy_warnings(new)
