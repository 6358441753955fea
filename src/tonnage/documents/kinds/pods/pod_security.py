"""Security settings of pods and containers: numbers, words and contradictions.

Unlike on a stock server, privileged containers are always allowed (CSI drivers need them). Texts inside
`windowsOptions` and the deprecated seccomp and AppArmor annotations are not validated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tonnage.documents.strategy import TypeRules
from tonnage.documents.validation.internal_form import internal
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, invalid, required, unsupported
from tonnage.objects.field_rules import (
    descending_path,
    forbid_fields,
    unique,
)

_SYSCTL_PATTERN = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_is_sysctl = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?").fullmatch
_IPC_SYSCTLS = {
    *(f"kernel.{name}" for name in ("sem", "shm", "shmall", "shmmax", "shmmni", "shm_rmid_forced")),
    *(f"kernel.{name}" for name in ("msg", "msgmax", "msgmnb", "msgmni")),
}
_LINUX_ONLY_OF_POD = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser"),
    *("runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_LINUX_ONLY_OF_CONTAINER = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)
_LINUX_ONLY_OF_SPEC = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")


def validate_security_context(context: Doc, path: str, *, host_users: bool) -> Errors:
    """A container's securityContext. Mirrors ValidateSecurityContext."""
    errors = _CONTEXT(context, path, "runAsUser..procMount")
    if host_users and context.get("procMount") == "Unmasked":
        errors.append(invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`"))
    errors += _CONTEXT(context, path, "seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        stem, shown = "cannot set `allowPrivilegeEscalation` to false and", internal("SecurityContext", context)
        if context.get("privileged"):
            errors.append(invalid(path, shown, f"{stem} `privileged` to true"))
        if "CAP_SYS_ADMIN" in context.get("capabilities", {}).get("add", ()):
            errors.append(invalid(path, shown, f"{stem} `capabilities.Add` CAP_SYS_ADMIN"))
    return errors + _CONTEXT(context, path, "appArmorProfile")


def validate_pod_security_context(spec: Doc, path: str) -> Errors:
    """The pod's own securityContext, with the host namespaces. Mirrors validatePodSpecSecurityContext."""
    context, path = spec.get("securityContext", {}), f"{path}.securityContext"
    errors = _POD_CONTEXT(context, path, "fsGroup..supplementalGroups")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        told = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, told))
    errors += _validate_sysctls(spec, f"{path}.sysctls")
    # The seLinuxChangePolicy MountOption belongs to the gate SELinuxMount, which is closed on a stock server.
    return errors + _POD_CONTEXT(context, path, "fsGroupChangePolicy..seLinuxChangePolicy")


def validate_host_users(spec: Doc, path: str) -> Wrong:
    """A user namespace of its own excludes raw devices. Mirrors the end of validateHostUsers."""
    for container, at in containers_in(spec, path) if not spec.get("hostUsers", True) else ():
        yield from forbid_fields(container, ("volumeDevices",), at, "when `hostUsers` is false")


def validate_os(spec: Doc, path: str) -> Errors:
    """The operating system of a pod, and no settings that only the other system has."""
    if "os" not in spec:
        return []
    system = spec["os"].get("name", "")
    if not system:
        return [required(f"{path}.os.name")]
    if system not in ("linux", "windows"):
        return [unsupported(f"{path}.os", system, ("linux", "windows"))]
    is_linux, of_linux = system == "linux", ("windowsOptions",)
    told = "windows options cannot be set for a linux pod" if is_linux else "cannot be set for a windows pod"
    of_pod, of_container = (of_linux, of_linux) if is_linux else (_LINUX_ONLY_OF_POD, _LINUX_ONLY_OF_CONTAINER)
    errors = forbid_fields(spec.get("securityContext", {}), of_pod, f"{path}.securityContext", told)
    errors += [] if is_linux else forbid_fields(spec, _LINUX_ONLY_OF_SPEC, path, told)
    for container, at in containers_in(spec, path):
        errors += forbid_fields(container.get("securityContext", {}), of_container, f"{at}.securityContext", told)
    return errors


def containers_in(spec: Doc, path: str) -> Iterator[tuple[Doc, str]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for idx, container in enumerate(spec.get(field, ())):
            yield container, f"{path}.{field}[{idx}]"


def _validate_seccomp(profile: Doc, path: str) -> Errors:
    kind, local, at = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    errors = _SECCOMP(profile, path)
    if kind != "Localhost":
        told = "can only be set when seccomp type is Localhost"
        return errors if local is None else [*errors, invalid(at, internal("SeccompProfile", profile), told)]
    if local is None:
        return [*errors, required(at, "must be set when seccomp type is Localhost")]
    return errors + descending_path(local, at)


def _validate_sysctls(spec: Doc, path: str) -> Wrong:
    is_unique = unique()
    for idx, sysctl in enumerate(spec.get("securityContext", {}).get("sysctls", ())):
        name, at = sysctl.get("name", ""), f"{path}[{idx}].name"
        if not name:
            yield required(at)
        elif len(name) > 253 or not _is_sysctl(name):
            yield invalid(at, name, f"must have at most 253 characters and match regex {_SYSCTL_PATTERN}")
        else:
            yield from is_unique(name, at)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            yield invalid(at, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue.")):
            yield invalid(at, name, "may not be specified when 'hostIPC' is true")


_SECCOMP = TypeRules("core.SeccompProfile")
_CONTEXT = TypeRules("core.SecurityContext", seccompProfile=_validate_seccomp)
_POD_CONTEXT = TypeRules("core.PodSecurityContext", seccompProfile=_validate_seccomp)
