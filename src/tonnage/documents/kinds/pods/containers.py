"""The containers of a pod: regular containers, init containers with their sidecars, ephemeral containers.

`_validate_common` has the rules of all three lists; the public functions add those of one list. A volume or a path is
used as a folder (volumeMounts) or as a raw device (volumeDevices), never both. Every mount names one of the pod's legal
volumes; an illegal volume is reported as not found. Mirrors validateContainers, validateInitContainers and
validateEphemeralContainers, odd field paths included. References to a pod's own fields are for environment variables
and for files of `pod_volumes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from tonnage.documents.kinds.pods.pod_security import validate_security_context
from tonnage.documents.strategy import TypeRules
from tonnage.documents.validation.resources import is_sidecar, validate_resource_requirements
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, duplicate, forbidden, invalid, not_found, required, unsupported
from tonnage.quantity import Quantity

_OF_BOTH = ("metadata.name", "metadata.namespace", "metadata.uid")
_ENV_FIELDS = (
    *_OF_BOTH,
    *("spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
FILE_FIELDS = ("metadata.annotations", "metadata.labels", *_OF_BOTH)
# The paths that the conversion of field labels accepts, beside subscripted annotations and labels.
_KNOWN_FIELDS = {*_ENV_FIELDS, *FILE_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
_AMOUNTS = ("cpu", "ephemeral-storage", "memory")
_RESOURCE_FIELDS = tuple(f"{side}.{name}" for side in ("limits", "requests") for name in _AMOUNTS)
_HUGE_PAGE_FIELDS = ("requests.hugepages-", "limits.hugepages-")
_SUBSCRIPTED = re.compile(r"(.+?)\['(.*)'\]", re.DOTALL)
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def validate_env_from(sources: list[Doc], path: str) -> Wrong:
    """Whole ConfigMaps and Secrets as variables. Mirrors ValidateEnvFrom, which leaves the index out of some paths."""
    for idx, source in enumerate(sources):
        yield from _ENV_FROM(source, f"{path}[{idx}]")
        given = source.keys() & {"configMapRef", "secretRef"}
        if not given:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")


def validate_field_ref(reference: Doc, path: str, allowed: Sequence[str] = _ENV_FIELDS) -> Errors:
    """A reference to a field of the pod. Mirrors validateObjectFieldSelector."""
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        return [required(f"{path}.apiVersion")]
    if not field:
        return [required(f"{path}.fieldPath")]
    if version != "v1":
        told = f"unsupported pod version: {version}"
    elif subscripted := _SUBSCRIPTED.fullmatch(field):
        base, key = subscripted.groups()
        if base in ("metadata.annotations", "metadata.labels"):
            key = key.lower() if base == "metadata.annotations" else key
            return rules.sentences(path, key, names.qualified_name(key))
        told = f"field label does not support subscript: {field}"
    elif field in _KNOWN_FIELDS:
        return [] if field in allowed else [unsupported(f"{path}.fieldPath", field, allowed)]
    else:
        told = f"field label not supported: {field}"
    return [invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {told}")]


def validate_resource_field_ref(reference: Doc, path: str, *, needs_container: bool = False) -> Wrong:
    """A reference to a container's limit or request. Mirrors validateContainerResourceFieldSelector."""
    resource = reference.get("resource", "")
    if needs_container and not reference.get("containerName"):
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in _RESOURCE_FIELDS and not resource.startswith(_HUGE_PAGE_FIELDS):
        yield unsupported(f"{path}.resource", resource, _RESOURCE_FIELDS)
    divisor = Quantity.of(reference.get("divisor"))
    if not divisor.is_zero():
        yield from _validate_divisor(resource, str(divisor), f"{path}.divisor")


def _validate_divisor(resource: str, divisor: str, path: str) -> Errors:
    kind = resource.partition(".")[2]
    allowed: Sequence[str]
    if kind == "cpu":
        told, allowed = "1m and 1 are supported with the cpu resource", ("1m", "1")
    elif kind in ("memory", "ephemeral-storage") or kind.startswith("hugepages-"):
        spoken = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind, "hugepages")
        told, allowed = f"{', '.join(_BYTE_DIVISORS)} are supported with the {spoken} resource", _BYTE_DIVISORS
    else:
        return []
    return [] if divisor in allowed else [invalid(path, resource, f"only divisor's values {told}")]


def _validate_variable(variable: Doc, path: str) -> Wrong:
    yield from _VARIABLE(variable, path)
    source, path = variable.get("valueFrom"), f"{path}.valueFrom"
    if source is None:
        return
    if not source:
        told = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid(path, "", told)
    elif variable.get("value"):
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


validate_env = rules.each(_validate_variable)
"""Names and sources of variables. Mirrors ValidateEnv."""
_ENV_FROM = TypeRules("core.EnvFromSource")
_SOURCE = TypeRules("core.EnvVarSource", fieldRef=validate_field_ref, resourceFieldRef=validate_resource_field_ref)
_VARIABLE = TypeRules("core.EnvVar", valueFrom=_SOURCE)


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = ("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", *_PROBES, "lifecycle")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


@dataclass(frozen=True)
class Surroundings:
    """What the rules of a container read from its pod."""

    spec: Doc
    volumes: Mapping[str, Doc]
    """The legal ones."""
    claim_names: Set[str]


def validate_containers(containers: list[Doc], path: str, pod: Surroundings) -> Errors:
    """The regular containers: at least one, unique names, unique host ports."""
    errors, unique = [] if containers else [required(path)], rules.unique()
    for idx, container in enumerate(containers):
        at = f"{path}[{idx}]"
        errors += _validate_common(container, at, pod)
        errors += unique(container.get("name", ""), f"{at}.name")
        errors += _validate_hooks(container, at, pod.spec.get("terminationGracePeriodSeconds"))
        errors += _CONTAINER(container, at, "restartPolicy..restartPolicyRules")
    return [*errors, *_validate_host_ports(containers, path)]


def validate_init_containers(containers: list[Doc], regular: list[Doc], path: str, pod: Surroundings) -> Wrong:
    """The init containers. Sidecars (restartPolicy Always) may have probes and hooks."""
    taken = {container.get("name", "") for container in regular}
    for idx, container in enumerate(containers):
        at = f"{path}[{idx}]"
        yield from _validate_common(container, at, pod)
        yield from _CONTAINER(container, at, "restartPolicy..restartPolicyRules")
        name = container.get("name", "")
        if name in taken:
            yield duplicate(f"{at}.name", name)
        elif name:
            taken.add(name)
        # Init containers run one by one, so each is compared with itself alone; upstream then always says index 0.
        yield from _validate_host_ports([container], path)
        if is_sidecar(container):
            yield from _validate_hooks(container, at, pod.spec.get("terminationGracePeriodSeconds"))
            continue
        told = "may not be set for init containers without restartPolicy=Always"
        yield from rules.forbid_fields(container, ("lifecycle", *_PROBES), at, told)
        for number, policy in enumerate(container.get("resizePolicy", ())):
            if policy.get("restartPolicy") == "RestartContainer":
                where = f"{at}.resizePolicy[{number}].restartPolicy"
                told = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                yield invalid(where, "RestartContainer", told)


def validate_ephemeral_containers(containers: list[Doc], others: list[Doc], path: str, pod: Surroundings) -> Wrong:
    """Containers added to a running pod for debugging: without fields that the pod could depend on."""
    targets = {container.get("name", "") for container in others}
    taken = set(targets)
    for idx, container in enumerate(containers):
        at = f"{path}[{idx}]"
        yield from _validate_common(container, at, pod)
        yield from validate_image_spacing(container, at)
        name, target = container.get("name", ""), container.get("targetContainerName", "")
        if name in taken:
            yield duplicate(f"{at}.name", name)
        taken.add(name)
        if target and target not in targets:
            yield not_found(f"{at}.targetContainerName", target)
        told = "cannot be set for an Ephemeral Container"
        yield from rules.forbid_fields({key: item for key, item in container.items() if item}, _NOT_EPHEMERAL, at, told)
        for number, mount in enumerate(container.get("volumeMounts", ())):
            yield from rules.forbid_fields(mount, ("subPath", "subPathExpr"), f"{at}.volumeMounts[{number}]", told)


def validate_image_spacing(container: Doc, path: str) -> Errors:
    """Spaces around an image are refused in pods, but allowed in templates, where some people use them as a mark."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _validate_common(container: Doc, path: str, pod: Surroundings) -> Wrong:
    yield from _CONTAINER(container, path, "name..envFrom")
    yield from _validate_mounts(container, f"{path}.volumeMounts", pod.volumes)
    yield from _validate_devices(container, f"{path}.volumeDevices", pod.volumes)
    yield from _CONTAINER(container, path, "imagePullPolicy")
    resources = container.get("resources", {})
    yield from validate_resource_requirements(resources, f"{path}.resources", claim_names=pod.claim_names)
    yield from _validate_resize(container.get("resizePolicy", []), f"{path}.resizePolicy", pod.spec)
    if "securityContext" in container:
        at = f"{path}.securityContext"
        yield from validate_security_context(
            container["securityContext"], at, host_users=pod.spec.get("hostUsers", True)
        )


def _validate_ports(ports: list[Doc], path: str) -> Wrong:
    unique = rules.unique()
    for idx, port in enumerate(ports):
        if name := port.get("name", ""):
            at = f"{path}[{idx}].name"
            yield from rules.sentences(at, name, names.port_name(name)) or unique(name, at)
        yield from _PORT(port, f"{path}[{idx}]")


_PORT, _MOUNT, _DEVICE = TypeRules("core.ContainerPort"), TypeRules("core.VolumeMount"), TypeRules("core.VolumeDevice")
_CONTAINER = TypeRules("core.Container", ports=_validate_ports, env=validate_env, envFrom=validate_env_from)


def _validate_host_ports(containers: list[Doc], path: str) -> Wrong:
    unique = rules.unique()
    for idx, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            if port.get("hostPort"):
                address = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                yield from unique(address, f"{path}[{idx}].ports[{number}].hostPort")


def _validate_resize(policies: list[Doc], path: str, spec: Doc) -> Wrong:
    unique = rules.unique()
    for idx, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        yield from unique(resource, f"{path}[{idx}]")
        yield from rules.needed(rules.one_of("cpu", "memory"))(resource, path)
        yield from rules.needed(rules.one_of("NotRequired", "RestartContainer"))(restart, path)
        if spec.get("restartPolicy") == "Never" and restart != "NotRequired":
            yield invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _validate_mounts(container: Doc, path: str, volumes: Mapping[str, Doc]) -> Wrong:
    """Mirrors ValidateVolumeMounts, which leaves the index out of all paths below a mount."""
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices", ())}
    device_paths = set(devices.values())
    is_privileged = container.get("securityContext", {}).get("privileged", False)
    taken: set[str] = set()
    for idx, mount in enumerate(container.get("volumeMounts", ())):
        at = f"{path}[{idx}]"
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        yield from _MOUNT(mount, at, "name")
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        yield from _MOUNT(mount, at, "mountPath")
        if target in taken:
            yield invalid(f"{at}.mountPath", target, "must be unique")
        taken.add(target)
        if name in devices:
            yield invalid(f"{at}.name", name, "must not already exist in volumeDevices")
        if target in device_paths:
            yield invalid(f"{at}.mountPath", target, "must not already exist as a path in volumeDevices")
        yield from rules.descending_path(mount.get("subPath", ""), f"{path}.subPath")
        if mount.get("subPath") and mount.get("subPathExpr"):
            told = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{at}.subPathExpr", mount["subPathExpr"], told)
        yield from rules.descending_path(mount.get("subPathExpr", ""), f"{path}.subPathExpr")
        yield from _MOUNT(mount, path, "mountPropagation")
        if mount.get("mountPropagation") == "Bidirectional" and not is_privileged:
            told = "Bidirectional mount propagation is available only to privileged containers"
            yield forbidden(f"{path}.mountPropagation", told)
        yield from _MOUNT(mount, path, "recursiveReadOnly")


def _validate_devices(container: Doc, path: str, volumes: Mapping[str, Doc]) -> Wrong:
    """Raw block volumes, which only claims can be. Mirrors ValidateVolumeDevices."""
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts", ())}
    mount_paths = set(mounts.values())
    taken_names: set[str] = set()
    taken_paths: set[str] = set()
    for idx, device in enumerate(container.get("volumeDevices", ())):
        at = f"{path}[{idx}]"
        name, target = device.get("name", ""), device.get("devicePath", "")
        yield from _DEVICE(device, at, "name")
        if name in taken_names:
            yield invalid(f"{at}.name", name, "must be unique")
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        elif not volumes[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
            told = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{at}.name", name, told)
        yield from _DEVICE(device, at, "devicePath")
        if target in taken_paths:
            yield invalid(f"{at}.devicePath", target, "must be unique")
        if rules.no_backsteps(target, at):
            yield invalid(f"{at}.devicePath", target, "can not contain backsteps ('..')")
        else:
            taken_paths.add(target)
        if name in mounts:
            yield invalid(f"{at}.name", name, "must not already exist in volumeMounts")
        if target in mount_paths:
            yield invalid(f"{at}.devicePath", target, "must not already exist as a path in volumeMounts")
        taken_names.update((name,) if name else ())


def _validate_hooks(container: Doc, path: str, grace_period_s: int | None) -> Wrong:
    """postStart, preStop and the probes. Stop signals were dropped before: their gate is closed on a stock server."""
    for hook in ("postStart", "preStop"):
        if hook in container.get("lifecycle", {}):
            yield from _validate_handler(container["lifecycle"][hook], f"{path}.lifecycle.{hook}", grace_period_s)
    for name in _PROBES:
        if name in container:
            yield from _validate_handler(container[name], f"{path}.{name}", grace_period_s)
            yield from _PROBE(container[name], f"{path}.{name}", "initialDelaySeconds..terminationGracePeriodSeconds")
            last = _READINESS if name == "readinessProbe" else _LIVENESS
            yield from rules.check(container[name], f"{path}.{name}", last)


# A container that is not ready is not killed, so a grace period makes no sense.
_READINESS: rules.Rules = {
    "terminationGracePeriodSeconds": rules.must_be(lambda value: False, "must not be set for readinessProbes"),
}
_LIVENESS: rules.Rules = {"successThreshold": rules.Asked(rules.must_be(lambda value: value == 1, "must be 1"), 0)}
_HEADER_NAME = rules.named(names.http_header_name)
_HTTP_GET = TypeRules(
    "core.HTTPGetAction",
    httpHeaders=lambda headers, path: [
        error for header in headers for error in _HEADER_NAME(header.get("name", ""), path)
    ],
)
_PROBE = TypeRules("core.Probe", httpGet=_HTTP_GET)


def _validate_handler(handler: Doc, path: str, grace_period_s: int | None) -> Errors:
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        return [required(path, "must specify a handler type")]
    errors = _PROBE(handler, path, given[0]) if given[0] != "sleep" else []
    if given[0] == "sleep" and grace_period_s is not None:
        seconds = handler["sleep"].get("seconds", 0)
        if not 0 <= seconds <= grace_period_s:
            told = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period_s})"
            errors.append(invalid(f"{path}.sleep", seconds, told))
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in given[1:]]
