"""Security settings of pods and containers, as far as they are numbers, words and contradictions.

Two things differ from a stock server. Privileged containers are allowed, as every cluster that runs CSI drivers must
(upstream: --allow-privileged). The texts inside `windowsOptions` and the deprecated seccomp and AppArmor annotations
are not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tonnage.documents.kinds.pods.pod_form import shown
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, duplicate, forbidden, invalid, required, too_long
from tonnage.objects.field_rules import descending_path, forbid_fields, optional_choice, unsupported, user_or_group

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_PATTERN = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_is_sysctl = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?").fullmatch
_IPC_SYSCTLS = frozenset(
    f"kernel.{name}" for name in ("sem", "shm", "shmall", "shmmax", "shmmni", "shm_rmid_forced")
) | {f"kernel.{name}" for name in ("msg", "msgmax", "msgmnb", "msgmni")}
_APPARMOR_MAX_BYTES = 4095  # PATH_MAX - 1

_LINUX_ONLY_OF_POD = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_LINUX_ONLY_OF_CONTAINER = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_LINUX_ONLY_OF_SPEC = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")


def validate_security_context(context: Doc, path: str, *, host_users: bool) -> Errors:
    """A container's securityContext. Mirrors ValidateSecurityContext."""
    errors = user_or_group(context.get("runAsUser"), f"{path}.runAsUser")
    errors += user_or_group(context.get("runAsGroup"), f"{path}.runAsGroup")
    errors += optional_choice(context.get("procMount"), ("Default", "Unmasked"), f"{path}.procMount")
    if host_users and context.get("procMount") == "Unmasked":
        errors.append(invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`"))
    errors += _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        stem = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            errors.append(invalid(path, shown("SecurityContext", context), f"{stem} `privileged` to true"))
        if "CAP_SYS_ADMIN" in context.get("capabilities", {}).get("add", ()):
            told = f"{stem} `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(invalid(path, shown("SecurityContext", context), told))
    return errors + _validate_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def validate_pod_security_context(spec: Doc, path: str) -> Errors:
    """The pod's own securityContext; the host namespaces beside it in the spec belong to it upstream.

    Mirrors validatePodSpecSecurityContext.
    """
    context = spec.get("securityContext", {})
    errors: Errors = []
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        errors += user_or_group(context.get(field), f"{path}.{field}")
    for idx, group in enumerate(context.get("supplementalGroups", ())):
        errors += user_or_group(group, f"{path}.supplementalGroups[{idx}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        told = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, told))
    errors += _validate_sysctls(spec, f"{path}.sysctls")
    errors += optional_choice(
        context.get("fsGroupChangePolicy"), ("Always", "OnRootMismatch"), f"{path}.fsGroupChangePolicy"
    )
    errors += _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    errors += _validate_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")
    errors += optional_choice(
        context.get("supplementalGroupsPolicy"), ("Merge", "Strict"), f"{path}.supplementalGroupsPolicy"
    )
    # MountOption belongs to the gate SELinuxMount, which is closed on a stock server.
    return errors + optional_choice(context.get("seLinuxChangePolicy"), ("Recursive",), f"{path}.seLinuxChangePolicy")


def validate_host_users(spec: Doc, path: str) -> Errors:
    """A user namespace of its own excludes the host's other namespaces and raw devices. Mirrors validateHostUsers."""
    if spec.get("hostUsers", True):
        return []
    told = "when `hostUsers` is false"
    errors = [forbidden(f"{path}.hostNetwork", told)] if spec.get("hostNetwork") else []
    # Upstream spells these two by their Go names.
    errors += [forbidden(f"{path}.HostPID", told)] if spec.get("hostPID") else []
    errors += [forbidden(f"{path}.HostIPC", told)] if spec.get("hostIPC") else []
    for container, at in _containers(spec, path):
        errors += forbid_fields(container, ("volumeDevices",), at, told)
    return errors


def validate_os(spec: Doc, path: str) -> Errors:
    """The operating system a pod names, and the settings that only the other one has."""
    if "os" not in spec:
        return []
    system = spec["os"].get("name", "")
    if not system:
        return [required(f"{path}.os.name")]
    if system not in ("linux", "windows"):
        return [unsupported(f"{path}.os", system, ("linux", "windows"))]
    context = spec.get("securityContext", {})
    if system == "linux":
        told = "windows options cannot be set for a linux pod"
        errors = forbid_fields(context, ("windowsOptions",), f"{path}.securityContext", told)
        for container, at in _containers(spec, path):
            errors += forbid_fields(
                container.get("securityContext", {}), ("windowsOptions",), f"{at}.securityContext", told
            )
        return errors
    told = "cannot be set for a windows pod"
    errors = forbid_fields(context, _LINUX_ONLY_OF_POD, f"{path}.securityContext", told)
    errors += forbid_fields(spec, _LINUX_ONLY_OF_SPEC, path, told)
    for container, at in _containers(spec, path):
        errors += forbid_fields(
            container.get("securityContext", {}), _LINUX_ONLY_OF_CONTAINER, f"{at}.securityContext", told
        )
    return errors


def _containers(spec: Doc, path: str) -> Iterator[tuple[Doc, str]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for idx, container in enumerate(spec.get(field, ())):
            yield container, f"{path}.{field}[{idx}]"


def _validate_seccomp(profile: Doc | None, path: str) -> Errors:
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    errors: Errors = []
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(unsupported(f"{path}.type", kind, _PROFILES))
    at = f"{path}.localhostProfile"
    if kind == "Localhost":
        if local is None:
            errors.append(required(at, "must be set when seccomp type is Localhost"))
        else:
            errors += descending_path(local, at)
    elif local is not None:
        told = "can only be set when seccomp type is Localhost"
        errors.append(invalid(at, shown("SeccompProfile", profile), told))
    return errors


def _validate_app_armor(profile: Doc | None, path: str) -> Errors:
    if profile is None:
        return []
    kind, local, at = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [unsupported(f"{path}.type", kind, _PROFILES)]
    if kind != "Localhost":
        told = "can only be set when AppArmor type is Localhost"
        return [] if local is None else [invalid(at, local, told)]
    if not local:
        return [required(at, "must be set when AppArmor type is Localhost")]
    errors = [] if local == local.strip() else [invalid(at, local, "must not be padded with whitespace")]
    return errors + ([too_long(at, _APPARMOR_MAX_BYTES)] if len(local.encode()) > _APPARMOR_MAX_BYTES else [])


def _validate_sysctls(spec: Doc, path: str) -> Errors:
    errors: Errors = []
    taken: set[str] = set()
    for idx, sysctl in enumerate(spec.get("securityContext", {}).get("sysctls", ())):
        name, at = sysctl.get("name", ""), f"{path}[{idx}].name"
        if not name:
            errors.append(required(at))
        elif len(name) > 253 or not _is_sysctl(name):
            errors.append(invalid(at, name, f"must have at most 253 characters and match regex {_SYSCTL_PATTERN}"))
        elif name in taken:
            errors.append(duplicate(at, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.append(invalid(at, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue.")):
            errors.append(invalid(at, name, "may not be specified when 'hostIPC' is true"))
        taken.add(name)
    return errors
