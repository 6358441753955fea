"""Texts for the `Warning` header of an accepted pod or template: legal, but probably not meant.

Mirrors GetWarningsForPod, for placement, storage and the most common cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice

from tonnage.documents.kinds.pods.pod_security import containers_in
from tonnage.documents.kinds.storage.persistent_volume_claim import claim_spec_warnings
from tonnage.documents.validation.selectors import (
    DEPRECATED_NODE_LABELS,
    PREFERRED,
    REQUIRED,
    node_selector_term_warnings,
)
from tonnage.documents.validation.volume_sources import DEAD_SOURCES
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import go_value
from tonnage.quantity import Quantity

MAX_WARNINGS = 100
"""Limit of warnings about ports: of a thousand equal ports every pair clashes."""
_NO_SELECTOR = "a null labelSelector results in matching no pod"


def pod_warnings(pod: Doc) -> list[str]:
    about_name = _name_warnings(pod["metadata"].get("name", ""), "the Pod's hostname")
    return about_name + spec_warnings(pod["spec"], "spec")


def workload_name_warnings(name: str) -> list[str]:
    """Pods are named after a Deployment or ReplicaSet, so its name should be a valid label too."""
    return _name_warnings(name, "Pod names and hostnames")


def _name_warnings(name: str, used_in: str) -> list[str]:
    wrong = names.dns_label(name)
    told = f"metadata.name: this is used in {used_in}, which can result in surprising behavior;"
    return [f"{told} a DNS label is recommended: [{' '.join(wrong)}]"] if wrong else []


def spec_warnings(spec: Doc, path: str) -> list[str]:
    told = _placement_warnings(spec, path)
    for idx, volume in enumerate(spec.get("volumes", ())):
        at = f"{path}.volumes[{idx}]"
        told += [f"{at}.{name}: {fate}" for source, (name, fate) in DEAD_SOURCES.items() if source in volume]
        if any(not source for source in volume.get("projected", {}).get("sources", ())):
            told.append(f"volume {go_value(volume.get('name', ''))} (Projected) has no sources provided")
        template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
        if template is not None:
            claim_spec = template.get("spec", {})
            told += claim_spec_warnings(claim_spec, f"{at}.ephemeral.volumeClaimTemplate.spec")
    for container, at in containers_in(spec, path):
        told += _container_warnings(container, at)
    return told + _port_warnings(spec, path)


def _placement_warnings(spec: Doc, path: str) -> list[str]:
    told = [
        f"{path}.nodeSelector[{key}]: {DEPRECATED_NODE_LABELS[key]}"
        for key in spec.get("nodeSelector", {})
        if key in DEPRECATED_NODE_LABELS
    ]
    affinity = spec.get("affinity", {})
    node = affinity.get("nodeAffinity", {})
    for idx, term in enumerate(node.get(REQUIRED, {}).get("nodeSelectorTerms", ())):
        told += node_selector_term_warnings(term, f"{path}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{idx}]")
    for idx, preferred in enumerate(node.get(PREFERRED, ())):
        at = f"{path}.affinity.nodeAffinity.{PREFERRED}[{idx}].preference"
        told += node_selector_term_warnings(preferred.get("preference", {}), at)
    for idx, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        at, key = f"{path}.topologySpreadConstraints[{idx}]", constraint.get("topologyKey", "")
        if key in DEPRECATED_NODE_LABELS:
            told.append(f"{at}.topologyKey: {key} is {DEPRECATED_NODE_LABELS[key]}")
        if "labelSelector" not in constraint:
            told.append(f"{at}.labelSelector: {_NO_SELECTOR}")
    for kind in ("podAffinity", "podAntiAffinity"):
        at = f"{path}.affinity.{kind}"
        for idx, term in enumerate(affinity.get(kind, {}).get(REQUIRED, ())):
            told += [] if "labelSelector" in term else [f"{at}.{REQUIRED}[{idx}].labelSelector: {_NO_SELECTOR}"]
        for idx, preferred in enumerate(affinity.get(kind, {}).get(PREFERRED, ())):
            where = f"{at}.{PREFERRED}[{idx}].podAffinityTerm.labelSelector"
            told += [] if "labelSelector" in preferred.get("podAffinityTerm", {}) else [f"{where}: {_NO_SELECTOR}"]
    return told


def _container_warnings(container: Doc, path: str) -> list[str]:
    told: list[str] = []
    for name in ("memory", "ephemeral-storage"):
        for side in ("limits", "requests"):
            amount = Quantity.of(container.get("resources", {}).get(side, {}).get(name))
            if amount.milli_value() % 1000 != 0:
                shown = go_value(str(amount))
                told.append(
                    f"{path}.resources.{side}[{name}]: fractional byte value {shown} is invalid, must be an integer"
                )
    seen: set[str] = set()
    for idx, variable in enumerate(container.get("env", ())):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        extends = "valueFrom" not in variable and value != reference and reference in value
        if name in seen and not extends:
            shown = go_value(name)
            told.append(
                f"{path}.env[{idx}]: hides previous definition of {shown}, which may be dropped when using apply"
            )
        seen.add(name)
    return told


def _port_warnings(spec: Doc, path: str) -> list[str]:
    """Warnings about the same port and protocol twice in a pod, across containers."""
    told: list[str] = []
    known: dict[tuple[int, str], _KnownPorts] = {}
    for container, at in containers_in(spec, path):
        for idx, port in enumerate(container.get("ports", ())):
            where = f"{at}.ports[{idx}]"
            others = known.setdefault((port.get("containerPort", 0), port.get("protocol", "")), _KnownPorts())
            told += islice(others.compare(where, port), MAX_WARNINGS - len(told))
            if len(told) == MAX_WARNINGS:  # a thousand equal ports have half a million pairs
                return told
            others.add(where, port)
    return told


class _KnownPorts:
    """Ports of one number and protocol, indexed by host port and host IP: only clashing ports are visited."""

    def __init__(self) -> None:
        self._all: list[tuple[int, str, str, int]] = []  # (position, where, host IP, host port)
        self._without_host_port: list[tuple[int, str, str, int]] = []
        self._by_host_port: dict[tuple[int, bool], list[tuple[int, str, str, int]]] = {}
        self._by_address: dict[tuple[str, int], list[tuple[int, str, str, int]]] = {}

    def add(self, where: str, port: Doc) -> None:
        address, number = port.get("hostIP", ""), port.get("hostPort", 0)
        entry = (len(self._all), where, address, number)
        self._all.append(entry)
        if number:
            self._by_host_port.setdefault((number, bool(address)), []).append(entry)
            self._by_address.setdefault((address, number), []).append(entry)
        else:
            self._without_host_port.append(entry)

    def compare(self, where: str, port: Doc) -> Iterator[str]:
        """The warnings about a port and the ports before it, in their order."""
        address, number = port.get("hostIP", ""), port.get("hostPort", 0)
        clashing: Iterable[tuple[int, str, str, int]] = self._all
        if number:
            clashing = merge(
                self._without_host_port,
                self._by_address.get((address, number), ()),
                self._by_host_port.get((number, not address), ()),
            )
        for _, there, other_address, other_number in clashing:
            if (address, number) == (other_address, other_number):
                yield f"{where}: duplicate port definition with {there}"
            elif not number or not other_number:
                yield f"{where}: overlapping port definition with {there}"
            else:
                yield f"{where}: dangerously ambiguous port definition with {there}"
