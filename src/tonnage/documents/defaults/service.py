"""Defaults of Service and NetworkPolicy. Nothing is allocated: addresses and node ports are what a client gave.

A stock server would draw a cluster IP from its range; here nothing listens on one, and an address that leads nowhere is
worse than none. Headless services, which is what StatefulSets need, are complete.
"""

from __future__ import annotations

from tonnage.objects.document import Doc

_AFFINITY_TIMEOUT_S = 10800
_INTERNAL_TYPES = ("ClusterIP", "NodePort", "LoadBalancer")


def default_service(doc: Doc) -> None:
    """Fill in a Service, in place. Mirrors SetDefaults_Service."""
    spec = doc.setdefault("spec", {})
    for field in ("sessionAffinity", "type", "clusterIP", "externalName", "externalTrafficPolicy"):
        if spec.get(field) == "":
            del spec[field]
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig", {}).get("clientIP", {})
        if "timeoutSeconds" not in config:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_TIMEOUT_S}}
    for port in spec.get("ports", ()):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
        if not port.get("nodePort", True):
            del port["nodePort"]
    if is_externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] in _INTERNAL_TYPES:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in doc.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def is_externally_accessible(spec: Doc) -> bool:
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def settle_addresses(spec: Doc, was: Doc | None = None) -> None:
    """Bring the single and the plural address fields into line, in place; an update inherits what it leaves out.

    What a stock server would allocate stays absent, and with it nothing else is: families and policy are filled in as
    if it had.
    """
    if spec["type"] == "ExternalName":
        if was is not None and was["type"] != "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if spec.get(field) == was.get(field):
                    spec.pop(field, None)
        _mirror_single(spec)
        return
    if was is not None and was["type"] != "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if field in was and field not in spec:
                spec[field] = was[field]
    _mirror_single(spec)
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _mirror_single(spec: Doc) -> None:
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def default_network_policy(doc: Doc) -> None:
    """Fill in a NetworkPolicy, in place. Mirrors SetDefaults_NetworkPolicy and SetDefaults_NetworkPolicyPort."""
    spec = doc.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")
