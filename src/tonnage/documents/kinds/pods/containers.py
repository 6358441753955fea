"""The containers of a pod: regular containers, init containers with their sidecars, ephemeral containers.

`_validate_common` has the rules of all three lists; the public functions add those of one list. A volume or a path is
used as a folder (volumeMounts) or as a raw device (volumeDevices), never both. Every mount names one of the pod's legal
volumes; an illegal volume is reported as not found. Mirrors validateContainers, validateInitContainers and
validateEphemeralContainers, odd field paths included.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from tonnage.documents.kinds.pods.container_env import validate_env, validate_env_from
from tonnage.documents.kinds.pods.pod_security import validate_security_context
from tonnage.documents.validation.resources import is_sidecar, validate_resource_requirements
from tonnage.documents.validation.type_rules import TypeRules
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, duplicate, forbidden, invalid, not_found, required

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = ("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", *_PROBES, "lifecycle")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


@dataclass(frozen=True)
class Surroundings:
    """What the rules of a container read from its pod: the legal volumes, and a few fields of the spec."""

    volumes: Mapping[str, Doc]
    claim_names: Set[str]
    grace_period_s: int | None
    restart_policy: str
    host_users: bool


def validate_containers(containers: list[Doc], path: str, pod: Surroundings) -> Errors:
    """The regular containers: at least one, unique names, unique host ports."""
    errors, unique = [] if containers else [required(path)], rules.unique()
    for idx, container in enumerate(containers):
        at = f"{path}[{idx}]"
        errors += _validate_common(container, at, pod)
        errors += unique(container.get("name", ""), f"{at}.name")
        errors += _validate_hooks(container, at, pod.grace_period_s)
        errors += _validate_restarts(container, at)
    return [*errors, *_validate_host_ports(containers, path)]


def validate_init_containers(containers: list[Doc], regular: list[Doc], path: str, pod: Surroundings) -> Wrong:
    """The init containers. Sidecars (restartPolicy Always) may have probes and hooks."""
    taken = {container.get("name", "") for container in regular}
    for idx, container in enumerate(containers):
        at = f"{path}[{idx}]"
        yield from _validate_common(container, at, pod)
        yield from _validate_restarts(container, at)
        name = container.get("name", "")
        if name in taken:
            yield duplicate(f"{at}.name", name)
        elif name:
            taken.add(name)
        # Init containers run one by one, so each is compared with itself alone; upstream then always says index 0.
        yield from _validate_host_ports([container], path)
        if is_sidecar(container):
            yield from _validate_hooks(container, at, pod.grace_period_s)
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
    yield from _validate_resize(container.get("resizePolicy", []), f"{path}.resizePolicy", pod.restart_policy)
    if "securityContext" in container:
        at = f"{path}.securityContext"
        yield from validate_security_context(container["securityContext"], at, host_users=pod.host_users)


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


def _validate_resize(policies: list[Doc], path: str, restart_policy: str) -> Wrong:
    unique = rules.unique()
    for idx, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        yield from unique(resource, f"{path}[{idx}]")
        yield from rules.needed(rules.one_of("cpu", "memory"))(resource, path)
        yield from rules.needed(rules.one_of("NotRequired", "RestartContainer"))(restart, path)
        if restart_policy == "Never" and restart != "NotRequired":
            yield invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _validate_restarts(container: Doc, path: str) -> Errors:
    """A container's own restart policy and its rules by exit code. Mirrors validateContainerRestartPolicy."""
    errors = _CONTAINER(container, path, "restartPolicy")
    if "restartPolicy" not in container and container.get("restartPolicyRules"):
        errors.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    return errors + _CONTAINER(container, path, "restartPolicyRules")


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
        yield from _validate_propagation(mount, path, is_privileged)


def _validate_propagation(mount: Doc, path: str, is_privileged: bool) -> Wrong:
    mode = mount.get("mountPropagation")
    yield from _MOUNT(mount, path, "mountPropagation")
    if mode == "Bidirectional" and not is_privileged:
        told = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(f"{path}.mountPropagation", told)
    yield from _MOUNT(mount, path, "recursiveReadOnly")
    if mount.get("recursiveReadOnly") in ("Enabled", "IfPossible"):
        at = f"{path}.recursiveReadOnly"
        if not mount.get("readOnly"):
            yield forbidden(at, "may only be specified when readOnly is true")
        if mode not in (None, "None"):
            yield forbidden(at, "may only be specified when mountPropagation is None or not specified")


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
            yield from rules.check(
                container[name], f"{path}.{name}", _READINESS if name == "readinessProbe" else _LIVENESS
            )


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
