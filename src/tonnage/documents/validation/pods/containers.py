"""The containers of a pod: regular ones, init containers with their sidecars, ephemeral ones.

What all three have in common stands in `_validate_common`; the three public functions add what only their list knows:
which names are taken, whose host ports may clash, who may have probes. Mirrors validateContainers,
validateInitContainers and validateEphemeralContainers, odd field paths included. See `container_env`,
`container_mounts`, `container_probes` and `pod_security` for the larger parts of a container.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from tonnage.documents.pod_resources import is_sidecar
from tonnage.documents.validation.pods.container_env import validate_env, validate_env_from
from tonnage.documents.validation.pods.container_mounts import validate_devices, validate_mounts
from tonnage.documents.validation.pods.container_probes import PROBES, validate_lifecycle, validate_probes
from tonnage.documents.validation.pods.pod_security import validate_security_context
from tonnage.documents.validation.resources import validate_resource_requirements
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, duplicate, invalid, not_found, required, too_many
from tonnage.objects.field_rules import choice, forbid_fields, optional_choice, sentences, unsupported

_PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    *PROBES,
    "lifecycle",
)


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
        if rule.get("action", "") not in _RESTART_ACTIONS:
            errors.append(unsupported(f"{at}.action", rule.get("action", ""), _RESTART_ACTIONS))
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(f"{at}.exitCodes", "must be specified"))
            continue
        if codes.get("operator", "") not in ("In", "NotIn"):
            errors.append(unsupported(f"{at}.exitCodes.operator", codes.get("operator", ""), ("In", "NotIn")))
        if len(codes.get("values", [])) > 255:
            errors.append(too_many(f"{at}.exitCodes.values", len(codes["values"]), 255))
    return errors
