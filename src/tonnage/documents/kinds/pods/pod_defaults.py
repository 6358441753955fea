"""Defaults of a pod and of a pod template: what upstream fills in whenever it decodes one.

`default_pod` does to a Pod what SetDefaults_Pod and the conversion to the internal type do; `default_pod_spec` is the
part that templates get as well. Two things are for pods alone, never for templates: requests taken from limits, and
everything that would make a stored template look changed when a newer server reads it.

`drop_zeros` makes absent and zero one and the same. Upstream keeps most fields of a pod spec as plain Go values and
leaves the zero ones out when it writes: a client may send `hostNetwork: false`, but nobody ever reads it back. A typed
client that reads a pod and puts it back drops the zero too, and the server must not take that for a change of a field
that may not change. Fields whose zero means something else than their absence (`enableServiceLinks: false`, a
`hostPath` of type `""`) are pointers upstream, and are not listed here.

What admission adds afterwards (tolerations, priority, topology labels) stands in `documents/pod_admission.py`.
"""

from __future__ import annotations

import re
from typing import Any

from tonnage.documents.kinds.storage.persistent_volume_claim import default_claim_spec
from tonnage.documents.pod_resources import aggregate, is_pod_level_resource
from tonnage.documents.validation.resources import is_huge_pages, is_overcommit_allowed, round_amounts
from tonnage.documents.validation.volume_sources import SOURCE_DEFAULTS
from tonnage.objects.document import Doc

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_FALSE = frozenset(
    {
        "chapAuthDiscovery",
        "chapAuthSession",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "readOnly",
        "sslEnabled",
        "stdin",
        "stdinOnce",
        "tty",
    }
)
_EMPTY = frozenset(
    {
        "effect",
        "hostIP",
        "hostname",
        "imagePullPolicy",
        "medium",
        "nodeName",
        "operator",
        "prefix",
        "priorityClassName",
        "schedulerName",
        "serviceAccount",
        "serviceAccountName",
        "subPath",
        "subPathExpr",
        "subdomain",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "value",
        "workingDir",
    }
)
_ZERO = frozenset(
    {
        "failureThreshold",
        "hostPort",
        "initialDelaySeconds",
        "partition",
        "periodSeconds",
        "successThreshold",
        "timeoutSeconds",
    }
)
# Not entered: maps whose keys are the user's own words, and structs that do write an empty `value`.
_CLOSED = frozenset(
    {
        "annotations",
        "httpHeaders",
        "labels",
        "limits",
        "matchLabels",
        "nodeSelector",
        "options",
        "overhead",
        "requests",
        "sysctls",
        "userAnnotations",
        "volumeAttributes",
    }
)
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
# What upstream's image parser accepts, as far as the tag depends on it: an optional registry host, a path of
# lower-case words, a tag, a digest.
_HOST = r"(?:[a-zA-Z0-9][a-zA-Z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_WORD}(?:/{_WORD})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[\w.+-]+:[0-9a-f]{{32,}})?"
)
_FILE_MODE = 0o644
_TOKEN_LIFETIME_S = 3600
# source -> field -> value when absent
_CONSTANTS: dict[str, Doc] = {
    **SOURCE_DEFAULTS,
    **{source: {"defaultMode": _FILE_MODE} for source in ("configMap", "downwardAPI", "projected", "secret")},
}


def default_pod(pod: Doc) -> None:
    """Fill in a Pod, in place."""
    spec = pod.setdefault("spec", {})
    drop_zeros(spec)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _requests_from_limits(container.get("resources", {}))
    if "resources" in spec:
        _default_pod_level(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort", 0))
        drop_zeros(spec)  # of a port without a number
    _default_written(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if "status" in pod:
        _default_addresses(pod["status"])


def default_pod_spec(spec: Doc) -> None:
    """Fill in a pod's spec, in a Pod or in a template. Mirrors SetDefaults_PodSpec and what it is generated with."""
    drop_zeros(spec)
    _default_written(spec)


def _default_written(spec: Doc) -> None:
    """Fill in a spec without zeros."""
    for field, value in (("dnsPolicy", "ClusterFirst"), ("restartPolicy", "Always")):
        if not spec.get(field):
            spec[field] = value
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    # The old name is kept as an alias: whoever writes either finds both.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes", ()):
        default_volume(volume)
    for name in _CONTAINER_LISTS:
        for container in spec.get(name, ()):
            default_container(container)
    round_amounts(spec.get("overhead"))
    if "resources" in spec:
        default_amounts(spec["resources"])


def default_pod_template(template: Doc) -> None:
    """Fill in the template of a workload, in place."""
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def _requests_from_limits(resources: Doc) -> None:
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **resources.get("requests", {})}


def _default_pod_level(spec: Doc) -> None:
    """Complete `spec.resources` from the containers'. Mirrors defaultHugePagePodLimits, then defaultPodRequests."""
    resources = spec["resources"]
    if resources.get("limits") or resources.get("requests"):
        stated = resources.get("limits", {})
        for name, amount in aggregate(spec, "limits").items():
            if is_huge_pages(name) and name not in stated and name not in resources.get("requests", {}):
                stated = {**stated, name: str(amount)}
        if stated:
            resources["limits"] = stated
    if not resources.get("limits"):
        return
    requests = dict(resources.get("requests", {}))
    for name, amount in aggregate(spec, "requests").items():
        if is_pod_level_resource(name) and is_overcommit_allowed(name):
            requests.setdefault(name, str(amount))
    for name, limit in resources["limits"].items():
        if is_pod_level_resource(name):
            requests.setdefault(name, limit)
    if requests:
        resources["requests"] = requests


def _default_addresses(status: Doc) -> None:
    """Keep `podIP` and the first of `podIPs` one and the same; where they differ, `podIP` wins."""
    single = status.get("podIP")
    several = status.get("podIPs")
    if single and (not several or several[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif several:
        status["podIP"] = several[0].get("ip", "")


def drop_zeros(value: Any) -> None:
    """Remove, in place and at any depth of a pod spec, the zero values a server would not write."""
    if isinstance(value, dict):
        unwritten = []
        for field, item in value.items():
            if not item:
                if _is_unwritten(field, item):
                    unwritten.append(field)
            elif isinstance(item, (dict, list)) and field not in _CLOSED:
                drop_zeros(item)
        for field in unwritten:
            del value[field]
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, (dict, list)):
                drop_zeros(item)


def _is_unwritten(field: str, item: Any) -> bool:
    if item is False:
        return field in _FALSE
    if item == "":
        return field in _EMPTY
    # `False == 0` in Python; bools are gone by here.
    return item == 0 and not isinstance(item, (bool, str)) and field in _ZERO


def default_container(container: Doc) -> None:
    """Fill in, in place, what upstream fills in for a regular, init or ephemeral container."""
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            source["fieldRef"].setdefault("apiVersion", "v1")
        if "fileKeyRef" in source:
            source["fileKeyRef"].setdefault("optional", False)
        if "resourceFieldRef" in source:
            # Upstream's divisor is a plain quantity, which is written even when it is zero.
            source["resourceFieldRef"].setdefault("divisor", "0")
    default_amounts(container["resources"])
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    for handler in container.get("lifecycle", {}).values():
        if isinstance(handler, dict) and "httpGet" in handler:
            _default_http_get(handler["httpGet"])


def pull_policy(image: str) -> str:
    """`Always` for the tag `latest`, said or implied; a digest or a text that is no image name needs no second look."""
    found = _IMAGE.fullmatch(image)
    if found is None:
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def default_amounts(resources: Doc) -> None:
    """Round limits and requests up to thousandths, which is all that upstream keeps."""
    round_amounts(resources.get("limits"))
    round_amounts(resources.get("requests"))


def _default_probe(probe: Doc) -> None:
    for field, value in _PROBE_DEFAULTS.items():
        probe.setdefault(field, value)
    if "httpGet" in probe:
        _default_http_get(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(action: Doc) -> None:
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"


def default_volume(volume: Doc) -> None:
    """Fill in one volume, in place; one without any source is an emptyDir. Mirrors SetDefaults_Volume and others."""
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source, constants in _CONSTANTS.items():
        if source in volume:
            for field, value in constants.items():
                volume[source].setdefault(field, value)
    if "image" in volume:
        volume["image"].setdefault("pullPolicy", pull_policy(volume["image"].get("reference", "")))
    _default_files(volume.get("downwardAPI", {}))
    for projection in volume.get("projected", {}).get("sources", ()):
        _default_files(projection.get("downwardAPI", {}))
        if "serviceAccountToken" in projection:
            projection["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_LIFETIME_S)
    template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        template.setdefault("spec", {}).setdefault("resources", {})
        default_claim_spec(template["spec"])


def _default_files(source: Doc) -> None:
    for file in source.get("items", ()):
        if "fieldRef" in file:
            file["fieldRef"].setdefault("apiVersion", "v1")
        if "resourceFieldRef" in file:
            file["resourceFieldRef"].setdefault("divisor", "0")
