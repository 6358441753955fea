"""Clusters to show: an ordinary one with something of everything, and one whose names are attempts at markup."""

from __future__ import annotations

from tonnage.objects.meta import Object
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import (
    DRIVER,
    attachment,
    capacity,
    claim,
    csi_node,
    driver,
    pod_with,
    storage_class,
    volume,
)

HOSTILE = (
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    '"><svg onload=alert(1)>',
    "a" * 253,
    "\u202egnp.tcefni\u202c \u2066right\u2069",
    "javascript:alert(1)",
    "constructor",
    "__proto__",
    "%3Cscript%3E/../..#?&",
    "\x1b[2J\x00 \u200b",
    "${7*7}{{7*7}}",
)
"""Names that a server would refuse, and two that it takes; each is put wherever a name or a message stands."""


CREATED = {"creationTimestamp": "2026-11-15T02:00:00Z"}


def ordinary_objects() -> list[Object]:
    """Three nodes in two zones, one of them cordoned; volumes in their pools; a pod that fits, one that does not."""
    zones = {"node-1": "north", "node-2": "north", "node-3": "south"}
    held = {"data-db-2": ("40Gi", "node-1"), "data-db-3": ("25Gi", "node-1"), "logs-web-0": ("60Gi", "node-2")}
    found: list[Object] = [driver(rebuilding=True), storage_class()]
    for name, zone in zones.items():
        found += [
            node(name, labels={"topology.kubernetes.io/zone": zone}, unschedulable=name == "node-3"),
            csi_node(name, {DRIVER: 16}),
            capacity(node=name, pools=["100Gi", "80Gi"]),
        ]
    for name, (size, home) in held.items():
        claimer = name.partition("-")[2]
        found += [
            volume(f"pv-{name}", size, on=home, claim=f"shop/{name}"),
            claim(name, size, namespace="shop", volume=f"pv-{name}"),
            pod_with(claimer, name, namespace="shop", on=home, metadata=CREATED),
            attachment(f"attach-{name}", f"pv-{name}", home),
        ]
    for name, size in (("db-0", "40Gi"), ("db-1", "400Gi")):
        found += [
            claim(f"data-{name}", size, namespace="shop"),
            pod_with(name, f"data-{name}", namespace="shop", metadata=CREATED),
        ]
    return found


def hostile_objects() -> list[Object]:
    """Every text of HOSTILE as the name of a node, a zone, a class, a claim, a volume, a pod and a namespace."""
    found: list[Object] = []
    for number, text in enumerate(HOSTILE):
        held = f"{text}-{number}"
        found += [
            driver(text),
            storage_class(text, provisioner=text),
            node(text, labels={"topology.kubernetes.io/zone": text}),
            csi_node(text, {text: 16}),
            capacity(text, node=text, name=text, pools=["100Gi"]),
            claim(text, "400Gi", namespace=text, class_name=text),
            pod_with(text, text, namespace=text, metadata=CREATED),
            volume(held, "40Gi", on=text, claim=f"{text}/{held}", class_name=text, driver=text, handle=text),
            claim(held, "40Gi", namespace=text, class_name=text, volume=held),
            pod_with(held, held, namespace=text, on=text, metadata=CREATED),
            attachment(held, held, text, attacher=text, attached=False, error=text),
        ]
    return found
