"""Defaults of a pod and of a pod template: what upstream fills in whenever it decodes one.

`default_pod` does to a Pod what SetDefaults_Pod and the conversion to the internal type do; `default_pod_spec` is the
part that templates get as well. Two things are for pods alone, never for templates: requests taken from limits, and
everything that would make a stored template look changed when a newer server reads it.

What admission adds afterwards (tolerations, priority, topology labels) stands in `documents/pod_admission.py`.
"""

from __future__ import annotations

from tonnage.documents.defaults.amounts import round_amounts
from tonnage.documents.defaults.containers import default_amounts, default_container
from tonnage.documents.defaults.volumes import default_volume
from tonnage.documents.defaults.zeros import drop_zeros
from tonnage.documents.pod_resources import aggregate, is_pod_level_resource
from tonnage.documents.validation.resources import is_huge_pages, is_overcommit_allowed
from tonnage.objects.document import Doc

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


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
