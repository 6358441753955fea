"""Service. Nothing is allocated: pods of an embedded cluster have no network.

Addresses and node ports are the client's, and never required: nothing listens on a cluster IP here, and an address that
leads nowhere is worse than none. Headless services, which StatefulSets need, are complete. CIDRs that a Service already
had are not validated again. Mirrors validateService.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Set
from typing import ClassVar

from tonnage.documents.strategy import Strategy, TypeRules, fill
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, duplicate, forbidden, invalid, required

# Fields that some types have. An update to another type drops their unchanged values.
_OF_BALANCERS = ("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort")
_ADDRESSES = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


class ServiceStrategy(Strategy):
    name_rule: ClassVar[names.NameRule] = staticmethod(names.dns_label)
    create_on_update = True
    selectable = ("spec.clusterIP", "spec.type")

    def default(self, doc: Doc) -> None:
        super().default(doc)
        spec = doc["spec"]
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        for port in spec.get("ports", ()):
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if spec["type"] == "LoadBalancer":
            for ingress in doc.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
                if ingress.get("ip"):
                    ingress.setdefault("ipMode", "VIP")

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"loadBalancer": {}}
        settle_addresses(doc["spec"])

    def validate(self, doc: Doc, old: Doc | None = None) -> Errors:
        spec = doc["spec"]
        was = old["spec"] if old is not None else {}
        is_headless = spec.get("clusterIPs") == ["None"]
        errors = _validate_kept(spec, was) if old is not None else []
        if not spec.get("ports") and not is_headless and spec["type"] != "ExternalName":
            errors.append(required("spec.ports"))
        if is_headless and spec["type"] in ("LoadBalancer", "NodePort"):
            told = f"may not be set to 'None' for {spec['type']} services"
            errors.append(invalid("spec.clusterIPs[0]", "None", told))
        errors += _SPEC(spec, "spec", "externalName")
        errors += _validate_ports(spec.get("ports", []))
        errors += _SPEC(spec, "spec", "selector..sessionAffinity")
        errors += _validate_addresses(spec, was)
        kept = set(was.get("externalIPs", ()))
        external_ip = rules.each(lambda address, at: _validate_external_ip(address, at, kept))
        errors += external_ip(spec.get("externalIPs", ()), "spec.externalIPs")
        errors += _SPEC(spec, "spec", "type")
        errors += _validate_port_clashes(spec)
        errors += _validate_balancer_fields(spec, was)
        return errors + _validate_traffic(spec)

    validate_update = validate

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        spec, was = new["spec"], old["spec"]
        settle_addresses(spec, was)
        if was["type"] == "LoadBalancer" and spec["type"] != "LoadBalancer":
            _drop_untouched(spec, was, _OF_BALANCERS)
            new["status"] = {**new.get("status", {}), "loadBalancer": {}}
        if spec["type"] in ("ClusterIP", "ExternalName") and was["type"] in ("NodePort", "LoadBalancer"):
            _drop_untouched(spec, was, ("externalTrafficPolicy",))
            now, before = ([port.get("nodePort", 0) for port in each.get("ports", ())] for each in (spec, was))
            for port in spec.get("ports", ()) if now == before else ():
                port.pop("nodePort", None)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """The status of a load balancer. Mirrors ValidateLoadBalancerStatus."""
        ingresses = new.get("status", {}).get("loadBalancer", {}).get("ingress", [])
        path = "status.loadBalancer.ingress"
        if ingresses and new["spec"]["type"] != "LoadBalancer":
            return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
        before = old.get("status", {}).get("loadBalancer", {}).get("ingress", [])
        kept = {item["ip"] for item in before if item.get("ip")}
        return rules.each(lambda ingress, at: _validate_ingress(ingress, at, kept))(ingresses, path)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """Warnings about fields that a headless service ignores, and about external addresses, which are deprecated."""
        spec = new["spec"]
        if spec.get("clusterIPs") == ["None"]:
            ignored = {
                "loadBalancerIP": bool(spec.get("loadBalancerIP")),
                "externalIPs": bool(spec.get("externalIPs")),
                "SessionAffinity": spec["sessionAffinity"] != "None",
            }
            return [f"spec.{field} is ignored for headless services" for field, is_set in ignored.items() if is_set]
        if spec.get("externalIPs") and spec["type"] != "ExternalName":
            return ["spec.externalIPs is deprecated and may no longer be implemented in some clusters"]
        return []


def _validate_ingress(ingress: Doc, path: str, kept: Set[str]) -> Errors:
    address = ingress.get("ip", "")
    errors = rules.validate_ip(address, f"{path}.ip", kept) if address else []
    return errors + _INGRESS(ingress, path)


def _drop_untouched(spec: Doc, was: Doc, fields: tuple[str, ...]) -> None:
    for field in fields:
        if spec.get(field) == was.get(field):
            spec.pop(field, None)


def is_externally_accessible(spec: Doc) -> bool:
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def settle_addresses(spec: Doc, was: Doc | None = None) -> None:
    """Make the single and the plural address fields agree, in place; an update keeps the fields it leaves out."""
    was = was if was is not None and was["type"] != "ExternalName" else {}
    if spec["type"] == "ExternalName":
        _drop_untouched(spec, was, _ADDRESSES)
    else:
        for field in _ADDRESSES:
            if field in was and field not in spec:
                spec[field] = was[field]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec["type"] != "ExternalName":
        fill(spec, {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"})


def _validate_ports(ports: list[Doc]) -> Wrong:
    unique = rules.unique()
    for idx, port in enumerate(ports):
        at, name = f"spec.ports[{idx}]", port.get("name", "")
        if name:
            yield from rules.sentences(f"{at}.name", name, names.dns_label(name))
            yield from unique(name, f"{at}.name")
        elif len(ports) > 1:
            yield required(f"{at}.name")
        yield from _PORT(port, at)


def _validate_port_clashes(spec: Doc) -> Wrong:
    ports = spec.get("ports", [])
    if spec["type"] == "ClusterIP":
        told = "may not be used when `type` is 'ClusterIP'"
        number = rules.if_set(lambda _, at: [forbidden(at, told)])
        yield from rules.each({"nodePort": number})(ports, "spec.ports")
    is_node_port_taken, is_port_taken = rules.unique(), rules.unique()
    for idx, port in enumerate(ports):
        protocol, number, outer = port.get("protocol", ""), port.get("port", 0), port.get("nodePort", 0)
        if outer and is_node_port_taken((protocol, outer), ""):
            yield duplicate(f"spec.ports[{idx}].nodePort", outer)
        if is_port_taken((protocol, number), ""):
            shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number}
            yield duplicate(f"spec.ports[{idx}]", {**shown, "TargetPort": 0, "NodePort": 0})


def _validate_addresses(spec: Doc, was: Doc) -> Wrong:
    """clusterIP, clusterIPs and the families. Mirrors ValidateServiceClusterIPsRelatedFields."""
    if spec["type"] == "ExternalName":
        return
    single, several, families = spec.get("clusterIP", ""), spec.get("clusterIPs", []), spec.get("ipFamilies", [])
    if single and several[:1] != [single]:
        told = "first value must match `clusterIP`"
        yield invalid("spec.clusterIPs", several, told) if several else required("spec.clusterIPs")
    elif not single and several:
        yield invalid("spec.clusterIPs", several, "must be empty when `clusterIP` is not specified")
    yield from _SPEC(spec, "spec", "ipFamilies", "ipFamilyPolicy")

    wrong: Errors = []
    if several[:1] == ["None"] and len(several) > 1:
        wrong.append(invalid("spec.clusterIPs", several, "'None' must be the first and only value"))
    kept = set(was.get("clusterIPs", ()))
    for idx, address in enumerate(several):
        if idx > 0 or address != "None":
            wrong += rules.validate_ip(address, f"spec.clusterIPs[{idx}]", kept)
    yield from wrong
    if len(several) > 2:
        yield invalid("spec.clusterIPs", several, "may only hold up to 2 values")
    if wrong:
        return
    if len(several) > 1 and not rules.is_dual_stack(several):
        yield invalid("spec.clusterIPs", several, "may specify no more than one IP for each IP family")
    for idx, (address, family) in enumerate(zip(several, families, strict=False)):
        parsed = rules.parse_ip(address)
        if parsed is not None and family in ("IPv4", "IPv6") and family != f"IPv{parsed.version}":
            told = f"expected an {family} value as indicated by `ipFamilies[{idx}]`"
            yield invalid(f"spec.clusterIPs[{idx}]", address, told)


def _validate_kept(spec: Doc, was: Doc) -> Errors:
    """The primary address never changes, unless the service becomes or was an ExternalName."""
    if "ExternalName" in (spec["type"], was["type"]):
        return []
    now, before = spec.get("clusterIPs", []), was.get("clusterIPs", [])
    if before and not now:
        return [invalid("spec.clusterIPs[0]", None, "primary clusterIP can not be unset")]
    if before and now[0] != before[0]:
        return [invalid("spec.clusterIPs[0]", now, "may not change once set")]
    return []


def _validate_external_ip(address: str, path: str, kept: set[str]) -> Errors:
    if errors := rules.validate_ip(address, path, kept):
        return errors
    parsed = rules.parse_ip(address)
    if parsed is None:
        return []
    is_multicast = any(parsed in network for network in _LINK_LOCAL_MULTICAST if network.version == parsed.version)
    wrong = (
        (parsed.is_unspecified, f"may not be unspecified ({address})"),
        (parsed.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (parsed.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (is_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    )
    return [invalid(path, address, told) for is_wrong, told in wrong if is_wrong][:1]


def _validate_balancer_fields(spec: Doc, was: Doc) -> Wrong:
    yield from _SPEC(spec, "spec", "loadBalancerSourceRanges")
    kept = {item.strip() for item in was.get("loadBalancerSourceRanges", ())}
    for idx, text in enumerate(spec.get("loadBalancerSourceRanges", [])):
        yield from rules.validate_cidr(text.strip(), f"spec.LoadBalancerSourceRanges[{idx}]", kept)
    yield from _SPEC(spec, "spec", "allocateLoadBalancerNodePorts", "loadBalancerClass")
    name, are_balancers = spec.get("loadBalancerClass"), spec["type"] == was.get("type") == "LoadBalancer"
    if are_balancers and name != was.get("loadBalancerClass"):
        yield invalid("spec.loadBalancerClass", name, "may not change once set")


def _validate_traffic(spec: Doc) -> Errors:
    policy = spec.get("externalTrafficPolicy")
    errors: Errors = []
    if is_externally_accessible(spec):
        errors += _SPEC(spec, "spec", "externalTrafficPolicy")
    elif policy is not None:
        told = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", policy, told))
    return errors + _SPEC(spec, "spec", "healthCheckNodePort", "internalTrafficPolicy", "trafficDistribution")


_NOT_AN_IP = rules.must_be(lambda host: rules.parse_ip(host) is None, "must be a DNS name, not an IP address")
_SPEC, _PORT = TypeRules("core.ServiceSpec"), TypeRules("core.ServicePort")
_INGRESS = TypeRules("core.LoadBalancerIngress", hostname=_NOT_AN_IP)
