"""Services and who may reach them: addresses, and the pods of policies."""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.column import AGE, NAME, Cell, Column, Layout, of, text
from tonnage.objects.document import Doc, dig


def cluster_ip(service: Doc, now: datetime) -> Cell:
    spec = service.get("spec", {})
    first = next(iter(spec.get("clusterIPs", ())), None)
    return str(first or spec.get("clusterIP") or cells.NONE)


def external_ip(service: Doc, now: datetime) -> Cell:
    """Addresses from outside, by type; a load balancer that has none yet is `<pending>`."""
    spec = service.get("spec", {})
    given = list(spec.get("externalIPs", ()))
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or cells.NONE
        case "LoadBalancer":
            ingress = dig(service, "status", "loadBalancer", "ingress") or ()
            balancers = {str(point.get("ip") or point.get("hostname") or "") for point in ingress} - {""}
            return ",".join(sorted(balancers) + given) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return cells.UNKNOWN


def ports(service: Doc, now: datetime) -> Cell:
    """`80/TCP`, or `80:30080/TCP` where a node port leads to it."""
    return ",".join(map(_port, dig(service, "spec", "ports") or ())) or cells.NONE


def _port(port: Doc) -> str:
    inside = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])
    return f"{inside}/{port.get('protocol', '')}"


def pod_selector(policy: Doc, now: datetime) -> Cell:
    return cells.selector(dig(policy, "spec", "podSelector")) or cells.NONE


LAYOUTS = {
    ("", "Service"): Layout(
        (
            NAME,
            Column("Type", text("spec.type"), field="spec.type"),
            Column("Cluster-IP", cluster_ip, field="spec.clusterIP"),
            Column("External-IP", external_ip, field="spec.externalIPs"),
            Column("Port(s)", ports, field="spec.ports"),
            AGE,
            Column("Selector", of(cells.labels, "spec.selector"), wide=True, field="spec.selector"),
        )
    ),
    ("networking.k8s.io", "NetworkPolicy"): Layout(
        (NAME, Column("Pod-Selector", pod_selector, field="spec.podSelector"), AGE)
    ),
}
