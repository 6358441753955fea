"""The containers of a pod: regular ones, init containers with their sidecars, ephemeral ones.

What all three have in common stands in `_validate_common`; the three public functions add what only their list knows:
which names are taken, whose host ports may clash, who may have probes. Then follow a container's view of the pod's
volumes, as folders (volumeMounts) or as raw block devices (volumeDevices), and its handlers: probes and hooks. A volume
or a path is used one way or the other, never both, and every name must be one of the pod's legal volumes; a volume that
is itself wrong is reported as not found, as upstream does. Mirrors validateContainers, validateInitContainers and
validateEphemeralContainers, odd field paths included. Larger parts: `container_env`, `pod_security`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from tonnage.documents.kinds.pods.container_env import validate_env, validate_env_from
from tonnage.documents.kinds.pods.pod_security import validate_security_context
from tonnage.documents.pod_resources import is_sidecar
from tonnage.documents.validation.resources import validate_resource_requirements
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, duplicate, forbidden, invalid, not_found, required, too_many
from tonnage.objects.field_rules import (
    choice,
    descending_path,
    forbid_fields,
    no_backsteps,
    nonnegative,
    optional_choice,
    port_number_or_name,
    sentences,
)

_PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    *PROBES,
    "lifecycle",
)
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


@dataclass(frozen=True)
class Surroundings:
    """What a container must know of its pod: the volumes that are legal, and a few words of the spec."""

    volumes: Mapping[str, Doc]
    claim_names: Set[str]
    grace_period_s: int | None
    restart_policy: str
    host_users: bool


def validate_containers(containers: list[Doc], path: str, pod: Surroundings) -> Errors:
    """The regular containers: at least one, names apart, no host port twice."""
    if not containers:
        return [required(path)]
    errors: Errors = []
    taken: set[str] = set()
    for idx, container in enumerate(containers):
        at = f"{path}[{idx}]"
        errors += _validate_common(container, at, pod)
        name = container.get("name", "")
        if name in taken:
            errors.append(duplicate(f"{at}.name", name))
        taken.add(name)
        if "lifecycle" in container:
            errors += validate_lifecycle(container["lifecycle"], f"{at}.lifecycle", pod.grace_period_s)
        errors += validate_probes(container, at, pod.grace_period_s)
        errors += _validate_restarts(container, at)
    return errors + _validate_host_ports(containers, path)


def validate_init_containers(containers: list[Doc], regular: list[Doc], path: str, pod: Surroundings) -> Errors:
    """The init containers. Those with restartPolicy Always are sidecars, and may have probes and hooks."""
    errors: Errors = []
    taken = {container.get("name", "") for container in regular}
    for idx, container in enumerate(containers):
        at = f"{path}[{idx}]"
        errors += _validate_common(container, at, pod)
        errors += _validate_restarts(container, at)
        name = container.get("name", "")
        if name in taken:
            errors.append(duplicate(f"{at}.name", name))
        elif name:
            taken.add(name)
        # They run one by one, so each is compared with itself alone; upstream then always says index 0.
        errors += _validate_host_ports([container], path)
        if is_sidecar(container):
            if "lifecycle" in container:
                errors += validate_lifecycle(container["lifecycle"], f"{at}.lifecycle", pod.grace_period_s)
            errors += validate_probes(container, at, pod.grace_period_s)
            continue
        told = "may not be set for init containers without restartPolicy=Always"
        errors += forbid_fields(container, ("lifecycle", *PROBES), at, told)
        for number, policy in enumerate(container.get("resizePolicy", ())):
            if policy.get("restartPolicy") == "RestartContainer":
                where = f"{at}.resizePolicy[{number}].restartPolicy"
                told = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                errors.append(invalid(where, "RestartContainer", told))
    return errors


def validate_ephemeral_containers(containers: list[Doc], others: list[Doc], path: str, pod: Surroundings) -> Errors:
    """Containers added to a running pod for a look inside: nothing the pod could come to depend on."""
    errors: Errors = []
    targets = {container.get("name", "") for container in others}
    taken = set(targets)
    for idx, container in enumerate(containers):
        at = f"{path}[{idx}]"
        errors += _validate_common(container, at, pod)
        errors += validate_image_spacing(container, at)
        name, target = container.get("name", ""), container.get("targetContainerName", "")
        if name in taken:
            errors.append(duplicate(f"{at}.name", name))
        taken.add(name)
        if target and target not in targets:
            errors.append(not_found(f"{at}.targetContainerName", target))
        told = "cannot be set for an Ephemeral Container"
        errors += forbid_fields({key: item for key, item in container.items() if item}, _NOT_EPHEMERAL, at, told)
        for number, mount in enumerate(container.get("volumeMounts", ())):
            errors += forbid_fields(mount, ("subPath", "subPathExpr"), f"{at}.volumeMounts[{number}]", told)
    return errors


def validate_image_spacing(container: Doc, path: str) -> Errors:
    """Spaces around an image are refused in pods; in templates some people use them as a mark."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _validate_common(container: Doc, path: str, pod: Surroundings) -> Errors:
    name = container.get("name", "")
    errors = sentences(f"{path}.name", name, names.dns_label(name)) if name else [required(f"{path}.name")]
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    errors += choice(
        container.get("terminationMessagePolicy", ""),
        ("File", "FallbackToLogsOnError"),
        f"{path}.terminationMessagePolicy",
    )
    errors += _validate_ports(container.get("ports", []), f"{path}.ports")
    errors += validate_env(container.get("env", []), f"{path}.env")
    errors += validate_env_from(container.get("envFrom", []), f"{path}.envFrom")
    errors += validate_mounts(container, f"{path}.volumeMounts", pod.volumes)
    errors += validate_devices(container, f"{path}.volumeDevices", pod.volumes)
    errors += choice(container.get("imagePullPolicy", ""), PULL_POLICIES, f"{path}.imagePullPolicy")
    errors += validate_resource_requirements(
        container.get("resources", {}), f"{path}.resources", claim_names=pod.claim_names
    )
    errors += _validate_resize(container.get("resizePolicy", []), f"{path}.resizePolicy", pod.restart_policy)
    if "securityContext" in container:
        at = f"{path}.securityContext"
        errors += validate_security_context(container["securityContext"], at, host_users=pod.host_users)
    return errors


def _validate_ports(ports: list[Doc], path: str) -> Errors:
    errors: Errors = []
    taken: set[str] = set()
    for idx, port in enumerate(ports):
        at = f"{path}[{idx}]"
        name, inside, outside = port.get("name", ""), port.get("containerPort", 0), port.get("hostPort", 0)
        if name:
            wrong = names.port_name(name)
            errors += sentences(f"{at}.name", name, wrong)
            if not wrong and name in taken:
                errors.append(duplicate(f"{at}.name", name))
            taken.update(() if wrong else (name,))
        if inside:
            errors += sentences(f"{at}.containerPort", inside, names.port_number(inside))
        else:
            errors.append(required(f"{at}.containerPort"))
        if outside:
            errors += sentences(f"{at}.hostPort", outside, names.port_number(outside))
        errors += choice(port.get("protocol", ""), _PROTOCOLS, f"{at}.protocol")
    return errors


def _validate_host_ports(containers: list[Doc], path: str) -> Errors:
    errors: Errors = []
    taken: set[str] = set()
    for idx, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            address = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if address in taken:
                errors.append(duplicate(f"{path}[{idx}].ports[{number}].hostPort", address))
            taken.add(address)
    return errors


def _validate_resize(policies: list[Doc], path: str, restart_policy: str) -> Errors:
    errors: Errors = []
    taken: set[str] = set()
    for idx, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in taken:
            errors.append(duplicate(f"{path}[{idx}]", resource))
        taken.add(resource)
        errors += choice(resource, ("cpu", "memory"), path)
        errors += choice(restart, ("NotRequired", "RestartContainer"), path)
        if restart_policy == "Never" and restart != "NotRequired":
            told = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, restart, told))
    return errors


def _validate_restarts(container: Doc, path: str) -> Errors:
    """A container's own restart policy and its rules by exit code. Mirrors validateContainerRestartPolicy."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", [])
    errors = optional_choice(policy, _RESTART_POLICIES, f"{path}.restartPolicy")
    if policy is None and rules:
        errors.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    if len(rules) > 20:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), 20))
    for idx, rule in enumerate(rules):
        at = f"{path}.restartPolicyRules[{idx}]"
        errors += optional_choice(rule.get("action", ""), _RESTART_ACTIONS, f"{at}.action")
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(f"{at}.exitCodes", "must be specified"))
            continue
        errors += optional_choice(codes.get("operator", ""), ("In", "NotIn"), f"{at}.exitCodes.operator")
        if len(codes.get("values", [])) > 255:
            errors.append(too_many(f"{at}.exitCodes.values", len(codes["values"]), 255))
    return errors


def validate_mounts(container: Doc, path: str, volumes: Mapping[str, Doc]) -> Errors:
    """Mirrors ValidateVolumeMounts, which leaves the index out of the paths of everything below a mount's path."""
    errors: Errors = []
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices", ())}
    device_paths = set(devices.values())
    is_privileged = container.get("securityContext", {}).get("privileged", False)
    taken: set[str] = set()
    for idx, mount in enumerate(container.get("volumeMounts", ())):
        at = f"{path}[{idx}]"
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{at}.name"))
        if name not in volumes:
            errors.append(not_found(f"{at}.name", name))
        if not target:
            errors.append(required(f"{at}.mountPath"))
        if target in taken:
            errors.append(invalid(f"{at}.mountPath", target, "must be unique"))
        taken.add(target)
        if name in devices:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeDevices"))
        if target in device_paths:
            errors.append(invalid(f"{at}.mountPath", target, "must not already exist as a path in volumeDevices"))
        for field in ("subPath", "subPathExpr"):
            if field == "subPathExpr" and mount.get("subPath") and mount.get("subPathExpr"):
                told = "subPathExpr and subPath are mutually exclusive"
                errors.append(invalid(f"{at}.subPathExpr", mount["subPathExpr"], told))
            errors += descending_path(mount.get(field, ""), f"{path}.{field}")
        errors += _validate_propagation(mount, path, is_privileged)
    return errors


def _validate_propagation(mount: Doc, path: str, is_privileged: bool) -> Errors:
    mode = mount.get("mountPropagation")
    errors = optional_choice(mode, ("Bidirectional", "HostToContainer", "None"), f"{path}.mountPropagation")
    if mode == "Bidirectional" and not is_privileged:
        told = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(f"{path}.mountPropagation", told))
    recursive, at = mount.get("recursiveReadOnly"), f"{path}.recursiveReadOnly"
    errors += optional_choice(recursive, ("Disabled", "Enabled", "IfPossible"), at)
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(forbidden(at, "may only be specified when readOnly is true"))
        if mode not in (None, "None"):
            told = "may only be specified when mountPropagation is None or not specified"
            errors.append(forbidden(at, told))
    return errors


def validate_devices(container: Doc, path: str, volumes: Mapping[str, Doc]) -> Errors:
    """Raw block volumes: only claims can be such. Mirrors ValidateVolumeDevices."""
    errors: Errors = []
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts", ())}
    mount_paths = set(mounts.values())
    taken_names: set[str] = set()
    taken_paths: set[str] = set()
    for idx, device in enumerate(container.get("volumeDevices", ())):
        at = f"{path}[{idx}]"
        name, target = device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(required(f"{at}.name"))
        if name in taken_names:
            errors.append(invalid(f"{at}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(not_found(f"{at}.name", name))
        elif not volumes[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
            told = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{at}.name", name, told))
        if not target:
            errors.append(required(f"{at}.devicePath"))
        if target in taken_paths:
            errors.append(invalid(f"{at}.devicePath", target, "must be unique"))
        if no_backsteps(target, at):
            errors.append(invalid(f"{at}.devicePath", target, "can not contain backsteps ('..')"))
        else:
            taken_paths.add(target)
        if name in mounts:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeMounts"))
        if target in mount_paths:
            errors.append(invalid(f"{at}.devicePath", target, "must not already exist as a path in volumeMounts"))
        taken_names.update((name,) if name else ())
    return errors


def validate_probes(container: Doc, path: str, grace_period_s: int | None) -> Errors:
    """All three probes of a container that may have them."""
    errors: Errors = []
    for name in PROBES:
        if name in container:
            errors += _validate_probe(name, container[name], f"{path}.{name}", grace_period_s)
    return errors


def validate_lifecycle(lifecycle: Doc, path: str, grace_period_s: int | None) -> Errors:
    """postStart and preStop. A stop signal is dropped before it is judged: its gate is closed on a stock server."""
    errors: Errors = []
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            errors += _validate_handler(lifecycle[hook], f"{path}.{hook}", grace_period_s)
    return errors


def _validate_probe(name: str, probe: Doc, path: str, grace_period_s: int | None) -> Errors:
    errors = _validate_handler(probe, path, grace_period_s)
    for field in _COUNTS:
        errors += nonnegative(probe.get(field, 0), f"{path}.{field}")
    patience_s = probe.get("terminationGracePeriodSeconds")
    at = f"{path}.terminationGracePeriodSeconds"
    if patience_s is not None and patience_s <= 0:
        errors.append(invalid(at, patience_s, "must be greater than 0"))
    if name == "readinessProbe":
        # A container that is not ready is not killed, so there is nothing to wait for.
        if patience_s is not None:
            errors.append(invalid(at, patience_s, "must not be set for readinessProbes"))
    elif probe.get("successThreshold", 0) != 1:
        errors.append(invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return errors


def _validate_handler(handler: Doc, path: str, grace_period_s: int | None) -> Errors:
    found = [name for name in _HANDLERS if name in handler]
    if not found:
        return [required(path, "must specify a handler type")]
    action, at = handler[found[0]], f"{path}.{found[0]}"
    errors: Errors = []
    match found[0]:
        case "exec":
            if not action.get("command"):
                errors.append(required(f"{at}.command"))
        case "httpGet":
            errors += _validate_http_get(action, at)
        case "tcpSocket" | "grpc":
            errors += port_number_or_name(action.get("port", 0), f"{at}.port")
        case "sleep":
            seconds = action.get("seconds", 0)
            if grace_period_s is not None and not 0 <= seconds <= grace_period_s:
                told = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period_s})"
                errors.append(invalid(at, seconds, told))
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in found[1:]]


def _validate_http_get(action: Doc, path: str) -> Errors:
    errors = [] if action.get("path") else [required(f"{path}.path")]
    errors += port_number_or_name(action.get("port", 0), f"{path}.port")
    errors += optional_choice(action.get("scheme", ""), ("HTTP", "HTTPS"), f"{path}.scheme")
    for header in action.get("httpHeaders", ()):
        name = header.get("name", "")
        errors += sentences(f"{path}.httpHeaders", name, names.http_header_name(name))
    return errors
