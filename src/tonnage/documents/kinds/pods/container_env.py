"""Environment variables, and the references to a pod's own fields that variables and downward files share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid, required
from tonnage.objects.field_rules import no_backsteps, sentences, unsupported
from tonnage.quantity import Quantity

ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")

# What the conversion of a field path knows, beside subscripted annotations and labels.
_KNOWN_FIELDS = {*ENV_FIELDS, *FILE_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
_RESOURCE_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGE_FIELDS = ("requests.hugepages-", "limits.hugepages-")
_SUBSCRIPTED = re.compile(r"(.+?)\['(.*)'\]", re.DOTALL)
_CPU_DIVISORS = ("1m", "1")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def validate_env(variables: list[Doc], path: str) -> Errors:
    """Names and sources of variables. Mirrors ValidateEnv."""
    errors: Errors = []
    for idx, variable in enumerate(variables):
        name = variable.get("name", "")
        if name:
            errors += sentences(f"{path}[{idx}].name", name, names.env_var_name(name))
        else:
            errors.append(required(f"{path}[{idx}].name"))
        if "valueFrom" in variable:
            errors += _validate_source(variable, f"{path}[{idx}].valueFrom")
    return errors


def validate_env_from(sources: list[Doc], path: str) -> Errors:
    """Whole ConfigMaps and Secrets as variables. Mirrors ValidateEnvFrom, which forgets the index in some paths."""
    errors: Errors = []
    for idx, source in enumerate(sources):
        prefix = source.get("prefix", "")
        if prefix:
            errors += sentences(f"{path}[{idx}].prefix", prefix, names.env_var_name(prefix))
        found = [field for field in ("configMapRef", "secretRef") if field in source]
        for field in found:
            name = source[field].get("name", "")
            at = f"{path}[{idx}].{field}.name"
            if name:
                errors += sentences(at, name, names.name_prefix(name, names.dns_subdomain))
            else:
                errors.append(required(at))
        if not found:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(found) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def validate_field_ref(reference: Doc, path: str, allowed: Sequence[str]) -> Errors:
    """A reference to a field of the pod. Mirrors validateObjectFieldSelector."""
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        return [required(f"{path}.apiVersion")]
    if not field:
        return [required(f"{path}.fieldPath")]
    if version != "v1":
        told = f"error converting fieldPath: unsupported pod version: {version}"
        return [invalid(f"{path}.fieldPath", field, told)]
    subscripted = _SUBSCRIPTED.fullmatch(field)
    if subscripted is not None:
        base, key = subscripted.groups()
        if base not in ("metadata.annotations", "metadata.labels"):
            told = f"error converting fieldPath: field label does not support subscript: {field}"
            return [invalid(f"{path}.fieldPath", field, told)]
        key = key.lower() if base == "metadata.annotations" else key
        return sentences(path, key, names.qualified_name(key))
    if field not in _KNOWN_FIELDS:
        told = f"error converting fieldPath: field label not supported: {field}"
        return [invalid(f"{path}.fieldPath", field, told)]
    return [] if field in allowed else [unsupported(f"{path}.fieldPath", field, allowed)]


def validate_resource_field_ref(reference: Doc, path: str, *, needs_container: bool) -> Errors:
    """A reference to a container's limit or request. Mirrors validateContainerResourceFieldSelector."""
    errors: Errors = []
    resource = reference.get("resource", "")
    if needs_container and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCE_FIELDS and not resource.startswith(_HUGE_PAGE_FIELDS):
        errors.append(unsupported(f"{path}.resource", resource, _RESOURCE_FIELDS))
    divisor = Quantity.of(reference.get("divisor"))
    if not divisor.is_zero():
        errors += _validate_divisor(resource, str(divisor), f"{path}.divisor")
    return errors


def _validate_divisor(resource: str, divisor: str, path: str) -> Errors:
    kind = resource.partition(".")[2]
    allowed: Sequence[str]
    if kind == "cpu":
        told, allowed = "1m and 1 are supported with the cpu resource", _CPU_DIVISORS
    elif kind in ("memory", "ephemeral-storage") or kind.startswith("hugepages-"):
        spoken = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind, "hugepages")
        told, allowed = f"{', '.join(_BYTE_DIVISORS)} are supported with the {spoken} resource", _BYTE_DIVISORS
    else:
        return []
    return [] if divisor in allowed else [invalid(path, resource, f"only divisor's values {told}")]


def _validate_source(variable: Doc, path: str) -> Errors:
    source = variable["valueFrom"]
    errors: Errors = []
    if "fieldRef" in source:
        errors += validate_field_ref(source["fieldRef"], f"{path}.fieldRef", ENV_FIELDS)
    if "resourceFieldRef" in source:
        at = f"{path}.resourceFieldRef"
        errors += validate_resource_field_ref(source["resourceFieldRef"], at, needs_container=False)
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            errors += _validate_key(source[field], f"{path}.{field}")
    if "fileKeyRef" in source:
        errors += _validate_file_key(source["fileKeyRef"], f"{path}.fileKeyRef")
    if not source:
        told = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(path, "", told))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _validate_key(reference: Doc, path: str) -> Errors:
    name, key = reference.get("name", ""), reference.get("key", "")
    errors = sentences(f"{path}.name", name, names.dns_subdomain(name))
    if not key:
        return [*errors, required(f"{path}.key")]
    return errors + sentences(f"{path}.key", key, names.config_key(key))


def _validate_file_key(reference: Doc, path: str) -> Errors:
    key, volume, file = (reference.get(field, "") for field in ("key", "volumeName", "path"))
    errors = sentences(f"{path}.key", key, names.env_var_name(key)) if key else [required(f"{path}.key")]
    at = f"{path}.volumeName"
    errors += sentences(at, volume, names.dns_label(volume)) if volume else [required(at)]
    errors += no_backsteps(file, f"{path}.path") if file else [required(f"{path}.path")]
    return errors
