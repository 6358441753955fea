"""Defaults of a pod and of a pod template, and the texts of the `Warning` header about them.

The lines of the schema have the defaults of single fields. `default_pod` mirrors SetDefaults_Pod and the conversion to
the internal type; `default_pod_spec` is the part for templates too. Only pods take requests from limits, and get
defaults that would make a stored template look changed to a newer server. Admission comes later
(`documents/admission.py`). Warnings are about what is legal, but probably not meant; they mirror GetWarningsForPod, for
placement, storage and the most common cases.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from heapq import merge
from itertools import islice
from typing import Any

from tonnage.documents.kinds.pods.pod_security import containers_in
from tonnage.documents.kinds.storage.persistent_volume import DEAD_SOURCES
from tonnage.documents.kinds.storage.persistent_volume_claim import claim_spec_warnings, fraction_warnings
from tonnage.documents.schema import type_named
from tonnage.documents.strategy import complete
from tonnage.documents.validation import metadata, resources
from tonnage.documents.validation.metadata import PREFERRED, REQUIRED, node_selector_term_warnings
from tonnage.objects import field_errors, names, requirements
from tonnage.objects.document import Doc

# What upstream's image parser accepts, as far as the tag depends on it: an optional registry host, a path of
# lower-case words, a tag, a digest.
_HOST = r"(?:[a-zA-Z0-9][a-zA-Z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_WORD}(?:/{_WORD})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[\w.+-]+:[0-9a-f]{{32,}})?"
)

_EVICTION_DELAY_S = 300  # upstream's --default-not-ready-toleration-seconds and --default-unreachable-…
_EVICTING_TAINTS = (requirements.NOT_READY, requirements.UNREACHABLE)


def default_pod(pod: Doc) -> None:
    spec = pod.setdefault("spec", {})
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    for container in containers:
        asked = container.get("resources", {})
        if limits := asked.get("limits"):
            asked["requests"] = {**limits, **asked.get("requests", {})}
    if "resources" in spec:
        _default_pod_level(spec)
    spec.setdefault("enableServiceLinks", True)
    complete(type_named("core.Pod"), pod)
    if spec.get("hostNetwork"):
        for port in [port for container in containers for port in container.get("ports", ())]:
            if port.get("containerPort"):
                port.setdefault("hostPort", port["containerPort"])
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    # `podIP` is the first of `podIPs`; if they differ, `podIP` wins.
    status = pod.get("status", {})
    single, several = status.get("podIP"), status.get("podIPs")
    if single and (not several or several[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif several:
        status["podIP"] = several[0].get("ip", "")


def default_pod_spec(spec: Doc) -> None:
    """The defaults that no line can say, in a Pod or in a template. Mirrors SetDefaults_PodSpec and its callers."""
    # The old name is kept as an alias: if a client sets one of them, both are set.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes", ()):
        if volume.keys() <= {"name"}:
            volume["emptyDir"] = {}
        if volume.get("csi", {}).get("readOnly") is False:  # only here could false differ from absent; for no program
            del volume["csi"]["readOnly"]
        if "image" in volume:
            volume["image"].setdefault("pullPolicy", pull_policy(volume["image"].get("reference", "")))
    for name in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(name, ()):
            container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))


def _default_pod_level(spec: Doc) -> None:
    """Complete `spec.resources` from the containers'. Mirrors defaultHugePagePodLimits, then defaultPodRequests."""
    own = spec["resources"]
    if own.get("limits") or own.get("requests"):
        stated = own.get("limits", {})
        for name, amount in resources.aggregate(spec, "limits").items():
            if resources.is_huge_pages(name) and name not in stated and name not in own.get("requests", {}):
                stated = {**stated, name: str(amount)}
        if stated:
            own["limits"] = stated
    if not own.get("limits"):
        return
    requests = dict(own.get("requests", {}))
    for name, amount in resources.aggregate(spec, "requests").items():
        if resources.is_pod_level_resource(name) and resources.is_overcommit_allowed(name):
            requests.setdefault(name, str(amount))
    for name, limit in own["limits"].items():
        if resources.is_pod_level_resource(name):
            requests.setdefault(name, limit)
    if requests:
        own["requests"] = requests


def pull_policy(image: str) -> str:
    """`Always` for the tag `latest`, stated or implied; `IfNotPresent` for a digest or an invalid image name."""
    found = _IMAGE.fullmatch(image)
    if found is None:
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def tolerate_node_trouble(pod: Doc) -> None:
    """Tolerate a not ready or unreachable node for five minutes, unless the pod states its own toleration."""
    tolerations = pod["spec"].get("tolerations", [])
    spoken_of = {item.get("key", "") for item in tolerations if item.get("effect", "") in ("NoExecute", "")}
    missing = [taint for taint in _EVICTING_TAINTS if not spoken_of & {taint, ""}]
    if missing:
        pod["spec"]["tolerations"] = tolerations + [
            {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTION_DELAY_S}
            for taint in missing
        ]


MAX_WARNINGS = 100
"""Limit of warnings about ports: of a thousand equal ports every pair clashes."""
_BYTES = ("memory", "ephemeral-storage")
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
            told.append(f"volume {field_errors.go_value(volume.get('name', ''))} (Projected) has no sources provided")
        template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
        if template is not None:
            claim_spec = template.get("spec", {})
            told += claim_spec_warnings(claim_spec, f"{at}.ephemeral.volumeClaimTemplate.spec")
    for container, at in containers_in(spec, path):
        told += _container_warnings(container, at)
    return told + _port_warnings(spec, path)


def _placement_warnings(spec: Doc, path: str) -> list[str]:
    told = [
        f"{path}.nodeSelector[{key}]: {metadata.DEPRECATED_NODE_LABELS[key]}"
        for key in spec.get("nodeSelector", {})
        if key in metadata.DEPRECATED_NODE_LABELS
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
        if key in metadata.DEPRECATED_NODE_LABELS:
            told.append(f"{at}.topologyKey: {key} is {metadata.DEPRECATED_NODE_LABELS[key]}")
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
    told = fraction_warnings(container, path, *((side, name) for name in _BYTES for side in ("limits", "requests")))
    seen: set[str] = set()
    for idx, variable in enumerate(container.get("env", ())):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        extends = "valueFrom" not in variable and value != reference and reference in value
        if name in seen and not extends:
            hides = f"hides previous definition of {field_errors.go_value(name)}"
            told.append(f"{path}.env[{idx}]: {hides}, which may be dropped when using apply")
        seen.add(name)
    return told


def _port_warnings(spec: Doc, path: str) -> list[str]:
    """Warnings about the same port and protocol twice in a pod, across containers."""
    told: list[str] = []
    # By number and protocol, then by host port and host IP, or by host port and whether there is a host IP, so that
    # only clashing ports are visited: (position, where, host port and host IP).
    known: defaultdict[tuple[Any, ...], list[tuple[int, str, tuple[int, str]]]] = defaultdict(list)
    for container, at in containers_in(spec, path):
        for idx, port in enumerate(container.get("ports", ())):
            where, same = f"{at}.ports[{idx}]", (port.get("containerPort", 0), port.get("protocol", ""))
            number, address = outside = port.get("hostPort", 0), port.get("hostIP", "")
            clashing: Iterable[tuple[int, str, tuple[int, str]]] = known[same]
            if number:
                clashing = merge(known[*same, 0], known[*same, *outside], known[*same, number, not address])
            for _, there, other in islice(clashing, MAX_WARNINGS - len(told)):
                word = "dangerously ambiguous" if number and other[0] else "overlapping"
                told.append(f"{where}: {'duplicate' if other == outside else word} port definition with {there}")
            if len(told) == MAX_WARNINGS:  # a thousand equal ports have half a million pairs
                return told
            keys = [(number, bool(address)), outside] if number else [(0,)]
            for key in ((), *keys):
                known[*same, *key].append((len(known[same]), where, outside))
    return told
