"""Validation of a new pod or a pod template. Changes are validated in `pod`.

`validate_pod_spec` checks the spec in upstream's order; the larger parts stand in `pod_volumes`, `containers`,
`pod_security`.
"""

from __future__ import annotations

import re

from tonnage.documents.kinds.pods import containers, pod_security, pod_volumes
from tonnage.documents.strategy import TypeRules
from tonnage.documents.validation import resources
from tonnage.documents.validation.internal_form import internal
from tonnage.documents.validation.metadata import (
    META,
    PREFERRED,
    REQUIRED,
    except_label_values,
    validate_node_selector,
    validate_node_selector_term,
)
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc, encode, same
from tonnage.objects.field_errors import Errors, Wrong, duplicate, forbidden, invalid, not_found, required, unsupported

MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_MAX_INT32 = 2**31 - 1
_KNOWN_MAX, _KNOWN_BYTES_MAX = 256, 8 * 1024
_legal: dict[bytes, None] = {}
"""Texts of specs that are valid: thousands of pods have the same template."""
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
    text = _text_of(spec)
    if text in _legal:
        return errors
    wrong = _validate_spec_of_pod(spec, metadata)
    if text is not None and not wrong:
        if len(_legal) >= _KNOWN_MAX:
            _legal.clear()
        _legal[text] = None
    return errors + wrong


def _text_of(spec: Doc) -> bytes | None:
    """The key of a spec in `_legal`. Legal claim names and hostnames, which differ within a StatefulSet, are left out.

    None for a spec that is too long, or whose rules depend on the pod's name (ephemeral claims) or metadata.
    """
    volumes, hostname = spec.get("volumes", ()), spec.get("hostname", "")
    if "resourceClaims" in spec or any("ephemeral" in volume for volume in volumes):
        return None
    plain = dict(spec)
    if volumes:
        plain["volumes"] = [
            {**volume, "persistentVolumeClaim": {**source, "claimName": "x"}} if source.get("claimName") else volume
            for volume in volumes
            for source in (volume.get("persistentVolumeClaim", {}),)
        ]
    if hostname and not names.dns_label(hostname):
        plain["hostname"] = "x"
    try:
        text = encode(plain)
    except (TypeError, ValueError, OverflowError):  # cannot come from a request, but from people's files
        return None
    return text if len(text) <= _KNOWN_BYTES_MAX else None


def _validate_spec_of_pod(spec: Doc, metadata: Doc) -> Errors:
    errors = validate_pod_spec(spec, "spec", metadata=metadata, is_pod=True)
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
    volumes, errors = pod_volumes.validate_volumes(
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


# -- placement: a gated pod is only tightened, tolerations are only added ---------------------------------------------


def validate_affinity(affinity: Doc, path: str) -> Wrong:
    node = affinity.get("nodeAffinity", {})
    if REQUIRED in node:
        yield from validate_node_selector(node[REQUIRED], f"{path}.nodeAffinity.{REQUIRED}")
    yield from rules.check(affinity, path, _AFFINITY)


def validate_topology_spread(constraints: list[Doc], path: str) -> Wrong:
    """Spread constraints; a pair of topologyKey and whenUnsatisfiable may occur once."""
    last = {_pair(constraint): idx for idx, constraint in enumerate(constraints)}
    for idx, constraint in enumerate(constraints):
        at, (key, action) = f"{path}[{idx}]", _pair(constraint)
        yield from _SPREAD(constraint, at, "maxSkew..whenUnsatisfiable")
        if last[key, action] > idx:
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        yield from _SPREAD(constraint, at, "minDomains..labelSelector")


def _pair(constraint: Doc) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _validate_operator(toleration: Doc, path: str) -> Wrong:
    operator, value, path = toleration.get("operator", ""), toleration.get("value", ""), f"{path}.operator"
    if operator in ("Equal", ""):
        if wrong := names.label_value(value):
            yield invalid(path, value, ";".join(wrong))
    elif operator == "Exists":
        if value:
            yield invalid(path, value, "value must be empty when `operator` is 'Exists'")
    else:
        # The gate of Lt and Gt is closed on a stock server; upstream's error about them lists them all the same.
        yield unsupported(path, operator, ("Equal", "Exists", *(("Lt", "Gt") if operator in ("Lt", "Gt") else ())))


def validate_scheduling_gates(gates: list[Doc], path: str) -> Errors:
    rule = rules.each(rules.both(rules.named(names.qualified_name), rules.unique()))
    return rule([gate.get("name", "") for gate in gates], path)


def validate_only_added_tolerations(new: Doc, old: Doc) -> Errors:
    """Every toleration of the old spec is still there; only its tolerationSeconds may change."""
    if {*map(_without_seconds, old.get("tolerations", ()))} <= {*map(_without_seconds, new.get("tolerations", ()))}:
        return []
    return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def validate_only_removed_gates(new: Doc, old: Doc) -> Errors:
    """A spec gets no new scheduling gates: a removed gate does not come back."""
    gates, known = ([gate.get("name", "") for gate in spec.get("schedulingGates", ())] for spec in (new, old))
    told = "only deletion is allowed, but found new scheduling gate"
    added = ((idx, name) for idx, name in enumerate(gates) if name not in known)
    return [forbidden(f"spec.schedulingGates[{idx}].name", f"{told} '{name}'") for idx, name in added]


def validate_node_affinity_mutation(new: Doc, old: Doc) -> Errors:
    """A gated pod's required node affinity may only gain requirements: another term would loosen it."""
    before = old.get(REQUIRED, {}).get("nodeSelectorTerms", [])
    after = new.get(REQUIRED, {}).get("nodeSelectorTerms", [])
    at = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if before and len(before) != len(after):
        shown = [internal("NodeSelectorTerm", term) for term in after] or None
        return [invalid(at, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")]
    told = "only additions are allowed (no mutations or deletions)"
    pairs = enumerate(zip(after, before, strict=False))
    changed = ((idx, term) for idx, (term, was) in pairs if not _only_adds(term, was))
    return [invalid(f"{at}[{idx}]", internal("NodeSelectorTerm", term), told) for idx, term in changed]


def _only_adds(new: Doc, old: Doc) -> bool:
    lists = [(new.get(field, []), old.get(field, [])) for field in ("matchExpressions", "matchFields")]
    if not any(was for _, was in lists):
        # An empty term matches nothing; a first requirement would make it match something.
        return not any(now for now, _ in lists)
    return all(same(now[: len(was)], was) for now, was in lists)


def _without_seconds(toleration: Doc) -> frozenset[tuple[str, str]]:
    return frozenset((field, value) for field, value in toleration.items() if field != "tolerationSeconds")


def _validate_label_keys(term: Doc, path: str) -> Wrong:
    """Mirrors ValidateMatchLabelKeysAndMismatchLabelKeys. The keys are already merged into the selector."""
    selector = term.get("labelSelector")
    match, mismatch = term.get("matchLabelKeys", []), term.get("mismatchLabelKeys", [])
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            yield forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
        elif keys:
            yield from rules.each(rules.validate_label_name)(keys, f"{path}.{field}")
    positions = {key: idx for idx, key in enumerate(match)}
    seen = set((selector or {}).get("matchLabels", {}))
    for requirement in (selector or {}).get("matchExpressions", ()):
        key = requirement.get("key", "")
        if key in seen and key in positions:
            told = "exists in both matchLabelKeys and labelSelector"
            yield invalid(f"{path}[{positions[key]}]", key, told)
        seen.add(key)
    avoided = set(mismatch)
    for idx, key in enumerate(match):
        if key in avoided:
            told = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{path}.matchLabelKeys[{idx}]", key, told)


validate_tolerations = rules.each(TypeRules("core.Toleration", operator=rules.OfWhole(_validate_operator)))
_LABEL_KEYS = rules.OfWhole(_validate_label_keys)
_SPREAD = TypeRules("core.TopologySpreadConstraint", matchLabelKeys=_LABEL_KEYS)
_NAMESPACE = rules.named(names.dns_label)
_POD_TERM = TypeRules(
    "core.PodAffinityTerm",
    # As upstream, the path has neither an s nor an index.
    namespaces=lambda named, path: [error for name in named for error in _NAMESPACE(name, path.removesuffix("s"))],
    mismatchLabelKeys=_LABEL_KEYS,
)


def _validate_preference(term: Doc, path: str) -> Errors:
    """Label values are not validated: a preference that matches nothing does no harm."""
    return except_label_values(validate_node_selector_term(term, path), path)


_POD_AFFINITY: rules.Rules = {
    REQUIRED: rules.each(_POD_TERM),
    PREFERRED: rules.each(TypeRules("core.WeightedPodAffinityTerm", podAffinityTerm=_POD_TERM)),
}
_AFFINITY: rules.Rules = {
    f"nodeAffinity.{PREFERRED}": rules.each(TypeRules("core.PreferredSchedulingTerm", preference=_validate_preference)),
    "podAffinity": rules.part(_POD_AFFINITY),
    "podAntiAffinity": rules.part(_POD_AFFINITY),
}
_CLAIM = TypeRules("core.PodResourceClaim")
_SPEC = TypeRules(
    "core.PodSpec",
    securityContext=rules.OfWhole(pod_security.validate_pod_security_context),
    affinity=validate_affinity,
    dnsConfig=rules.OfWhole(validate_dns),
    schedulingGates=validate_scheduling_gates,
    topologySpreadConstraints=validate_topology_spread,
    hostUsers=rules.OfWhole(pod_security.validate_host_users),
    tolerations=validate_tolerations,
    overhead=lambda amounts, path: resources.validate_resource_requirements({"limits": amounts}, path),
    os=rules.OfWhole(pod_security.validate_os),
)
