"""Where a container sees the pod's volumes: as folders (volumeMounts) or as raw block devices (volumeDevices).

A volume or a path is used one way or the other, never both, and every name must be one of the pod's legal volumes; a
volume that is itself wrong is reported as not found here, as upstream does.
"""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, forbidden, invalid, not_found, required
from tonnage.objects.field_rules import descending_path, no_backsteps, optional_choice


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
