"""Validation of a new pod or a pod template. Changes are validated in `pod`.

`validate_pod_spec` checks the spec in upstream's order; the larger parts stand in `pod_volumes`, `containers`,
`pod_placement` and `pod_security`.
"""

from __future__ import annotations

import re

from tonnage.documents.kinds.pods import containers, pod_placement, pod_security
from tonnage.documents.kinds.pods.pod_volumes import validate_volumes
from tonnage.documents.strategy import TypeRules
from tonnage.documents.validation import resources
from tonnage.documents.validation.internal_form import internal
from tonnage.documents.validation.metadata import META
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, forbidden, invalid, not_found, required, unsupported

MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_MAX_INT32 = 2**31 - 1
_NAMESERVERS_MAX, _SEARCHES_MAX, _SEARCH_CHARS_MAX = 3, 32, 2048
_SEARCH = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH_DOMAIN = _SEARCH + r"(\." + _SEARCH + ")*"
_SEARCH_TOLD = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{_SEARCH_DOMAIN}')"
)


def validate_pod(pod: Doc) -> Errors:
    """The rules that hold for a pod at any time. Mirrors validatePodMetadataAndSpec."""
    metadata, spec = pod["metadata"], pod["spec"]
    errors = validate_pod_annotations(metadata.get("annotations", {}), spec, "metadata.annotations")
    errors += validate_pod_spec(spec, "spec", metadata=metadata, is_pod=True)
    if not spec.get("serviceAccountName"):
        told = "must not be specified when serviceAccountName is not set"
        source = rules.each(lambda source, at: rules.forbid_fields(source, ("serviceAccountToken",), at, told))
        errors += rules.check(spec, "spec", {"volumes": rules.each({"projected.sources": source})})
    spacing = rules.each(containers.validate_image_spacing)
    return errors + rules.check(spec, "spec", {"containers": spacing, "initContainers": spacing})


def validate_pod_template(template: Doc, path: str) -> Errors:
    """A workload's template. Mirrors ValidatePodTemplateSpec, whose paths leave `metadata` out."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    errors = META(metadata, path, "labels..annotations")
    errors += validate_pod_annotations(metadata.get("annotations", {}), spec, f"{path}.annotations")
    errors += validate_pod_spec(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        told = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", told))
    return errors


def validate_pod_annotations(annotations: dict[str, str], spec: Doc, path: str) -> Errors:
    """The annotations that mean something to the server. Mirrors ValidatePodSpecificAnnotations."""
    errors: Errors = []
    if MIRROR in annotations and not spec.get("nodeName"):
        told = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR}]", annotations[MIRROR], told))
    cost = annotations.get(_DELETION_COST)
    # Upstream accepts strconv's int32 without a leading plus or zeros.
    if cost is not None and not (re.fullmatch("0|-?[1-9][0-9]*", cost) and -_MAX_INT32 - 1 <= int(cost) <= _MAX_INT32):
        errors.append(invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer"))
    return errors


def validate_pod_spec(spec: Doc, path: str, *, metadata: Doc | None = None, is_pod: bool = False) -> Errors:
    """Mirrors ValidatePodSpec."""
    metadata = metadata or {}
    volumes, errors = validate_volumes(
        spec.get("volumes", []), f"{path}.volumes", pod_name=metadata.get("name", ""), is_pod=is_pod
    )
    claims = spec.get("resourceClaims", [])
    errors += _validate_resource_claims(claims, metadata, f"{path}.resourceClaims")
    pod = containers.Surroundings(spec, volumes, {claim["name"] for claim in claims if claim.get("name")})
    regular, initial = spec.get("containers", []), spec.get("initContainers", [])
    errors += containers.validate_containers(regular, f"{path}.containers", pod)
    errors += containers.validate_init_containers(initial, regular, f"{path}.initContainers", pod)
    errors += containers.validate_ephemeral_containers(
        spec.get("ephemeralContainers", []), regular + initial, f"{path}.ephemeralContainers", pod
    )
    errors += _validate_pod_level(spec, f"{path}.resources", pod)
    errors += validate_host_network(spec, path, is_pod)
    errors += _SPEC(spec, path, "restartPolicy..os")
    return [*errors, *_validate_file_keys(spec, path)]


def _validate_resource_claims(claims: list[Doc], metadata: Doc, path: str) -> Wrong:
    """Claims for devices: each names a claim or a template, not both. Mirrors validatePodResourceClaims."""
    if MIRROR in metadata.get("annotations", {}):
        yield from (forbidden("[]", "static pods do not support resource claims") for _ in claims)
        return
    unique = rules.unique()
    fields = ("resourceClaimName", "resourceClaimTemplateName")
    for idx, claim in enumerate(claims):
        at, name = f"{path}[{idx}]", claim.get("name", "")
        if not name:
            yield required(f"{at}.name")
        else:
            yield from unique(name, f"{at}.name") or rules.sentences(f"{at}.name", name, names.dns_label(name))
        found = [field for field in fields if field in claim]
        if len(found) != 1:
            told = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            if found:
                told = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid(at, internal("PodResourceClaim", claim), told)
        yield from _CLAIM(claim, at)


def _validate_pod_level(spec: Doc, path: str, pod: containers.Surroundings) -> Wrong:
    """Resources of the pod as a whole: at least the sum of its containers'. Mirrors validatePodResources."""
    if "resources" not in spec:
        return
    if spec.get("os", {}).get("name") == "windows":
        yield forbidden(path, "may not be set for a windows pod")
        return
    if "claims" in spec["resources"]:
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from resources.validate_resource_requirements(
        spec["resources"], path, claim_names=pod.claim_names, name_rule=_validate_pod_level_name
    )
    requests, limits = resources.amounts_of(spec, "requests"), resources.amounts_of(spec, "limits")
    for name, needed in resources.aggregate(spec, "requests").items():
        if name in requests and needed > requests[name]:
            told = f"must be greater than or equal to aggregate container requests of {needed}"
            yield invalid(f"{path}.requests[{name}]", str(requests[name]), told)
    for name, needed in resources.aggregate(spec, "limits").items():
        if resources.is_huge_pages(name) and name in limits and needed > limits[name]:
            told = f"must be greater than or equal to aggregate container limits of {needed}"
            yield invalid(f"{path}.limits[{name}]", str(limits[name]), told)
    for idx, container in enumerate(spec.get("containers", ())):
        for name, limit in resources.amounts_of(container, "limits").items():
            if name in limits and limit > limits[name]:
                told = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid(f"{path}.containers[{idx}][{name}].limits", str(limit), told)


def _validate_pod_level_name(name: str, path: str) -> Errors:
    errors = resources.validate_resource_name(name, path)
    if errors or resources.is_pod_level_resource(name):
        return errors
    return [unsupported(path, name, ("cpu", "hugepages-", "memory"))]


def _validate_file_keys(spec: Doc, path: str) -> Wrong:
    """A variable read from a file needs an emptyDir with that file. Mirrors validateFileKeyRefVolumes."""
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes", ())}
    for container, where in pod_security.containers_in(spec, path):
        for idx, variable in enumerate(container.get("env", ())):
            reference = variable.get("valueFrom", {}).get("fileKeyRef")
            if reference is None:
                continue
            name, at = reference.get("volumeName", ""), f"{where}.env[{idx}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                yield not_found(at, name)
            elif "emptyDir" not in volumes[name]:
                yield invalid(at, name, "referenced volume must be of type emptyDir")


def validate_host_network(spec: Doc, path: str, is_pod: bool) -> Wrong:
    """On the host's network hostPort equals containerPort; a template may leave it to the pod's defaults."""
    if not spec.get("hostNetwork"):
        return
    for idx, container in enumerate(spec.get("containers", ())):
        for number, port in enumerate(container.get("ports", ())):
            outside, inside = port.get("hostPort", 0), port.get("containerPort", 0)
            if (is_pod or outside) and outside != inside:
                at = f"{path}.containers[{idx}].ports[{number}].hostPort"
                yield invalid(at, outside, "must match `containerPort` when `hostNetwork` is true")


def validate_dns(spec: Doc, path: str) -> Errors:
    config, path = spec.get("dnsConfig"), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            told = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", told)]
    if config is None:
        return []
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    errors = rules.each(rules.validate_ip)(servers, f"{path}.nameservers")
    if len(servers) > _NAMESERVERS_MAX:
        told = f"must not have more than {_NAMESERVERS_MAX} nameservers"
        errors.insert(0, invalid(f"{path}.nameservers", servers, told))
    if len(searches) > _SEARCHES_MAX:
        told = f"must not have more than {_SEARCHES_MAX} search paths"
        errors.append(invalid(f"{path}.searches", searches, told))
    if len(" ".join(searches)) > _SEARCH_CHARS_MAX:
        told = f"must not have more than {_SEARCH_CHARS_MAX} characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, told))
    for idx, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != "." and not re.fullmatch(_SEARCH_DOMAIN, domain):
            errors.append(invalid(f"{path}.searches[{idx}]", domain, _SEARCH_TOLD))
    named = rules.each(lambda option, at: [] if option.get("name") else [required(at, "must not be empty")])
    return errors + named(config.get("options", ()), f"{path}.options")


_CLAIM = TypeRules("core.PodResourceClaim")
_SPEC = TypeRules(
    "core.PodSpec",
    securityContext=rules.OfWhole(pod_security.validate_pod_security_context),
    affinity=pod_placement.validate_affinity,
    dnsConfig=rules.OfWhole(validate_dns),
    schedulingGates=pod_placement.validate_scheduling_gates,
    topologySpreadConstraints=pod_placement.validate_topology_spread,
    hostUsers=rules.OfWhole(pod_security.validate_host_users),
    tolerations=pod_placement.validate_tolerations,
    overhead=lambda amounts, path: resources.validate_resource_requirements({"limits": amounts}, path),
    os=rules.OfWhole(pod_security.validate_os),
)
