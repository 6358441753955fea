"""Defaults of a pod and of a pod template: what upstream fills in whenever it decodes one.

The lines of the schema have those of single fields. `default_pod` mirrors SetDefaults_Pod and the conversion to the
internal type; `default_pod_spec` is the part for templates too. Only pods take requests from limits, and get defaults
that would make a stored template look changed to a newer server. Admission comes later (`documents/admission.py`).
"""

from __future__ import annotations

import re

from tonnage.documents.schema import type_named
from tonnage.documents.strategy import complete
from tonnage.documents.validation import resources
from tonnage.objects.document import Doc
from tonnage.objects.requirements import NOT_READY, UNREACHABLE

# What upstream's image parser accepts, as far as the tag depends on it: an optional registry host, a path of
# lower-case words, a tag, a digest.
_HOST = r"(?:[a-zA-Z0-9][a-zA-Z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_WORD}(?:/{_WORD})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[\w.+-]+:[0-9a-f]{{32,}})?"
)

_EVICTION_DELAY_S = 300  # upstream's --default-not-ready-toleration-seconds and --default-unreachable-…
_EVICTING_TAINTS = (NOT_READY, UNREACHABLE)


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
    if "status" in pod:
        _default_addresses(pod["status"])


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


def _default_addresses(status: Doc) -> None:
    """Keep `podIP` equal to the first of `podIPs`; if they differ, `podIP` wins."""
    single = status.get("podIP")
    several = status.get("podIPs")
    if single and (not several or several[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif several:
        status["podIP"] = several[0].get("ip", "")


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
