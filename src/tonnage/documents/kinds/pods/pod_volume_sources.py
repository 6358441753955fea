"""The storage systems that were once built into Kubernetes, as pod volumes: mostly a table of required fields.

The few rules that are more than that follow it. Paths are upstream's, where they differ from the field's name too.
"""

from __future__ import annotations

import re

from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid, required
from tonnage.objects.field_rules import descending_path, optional_choice, sentences, unsupported

_PORTS_TOLD = "must be a host:port pair or multiple pairs separated by commas"

# source -> fields that must not be empty, in the order they are told
IN_TREE: dict[str, tuple[str, ...]] = {
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "azureFile": ("secretName", "shareName"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "fc": (),
    "flexVolume": ("driver",),
    "flocker": (),
    "gcePersistentDisk": ("pdName",),
    "gitRepo": ("repository",),
    "glusterfs": ("endpoints", "path"),
    "iscsi": ("targetPortal",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "quobyte": (),
    "rbd": ("monitors", "image"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "storageos": (),
    "vsphereVolume": ("volumePath",),
}


def validate_in_tree(source: str, content: Doc, path: str, volume_name: str) -> Errors:
    """Everything wrong with one of the sources above; `path` is the volume's."""
    at = f"{path}.persistentDisk" if source == "gcePersistentDisk" else f"{path}.{source}"
    errors = [required(f"{at}.{field}") for field in IN_TREE[source] if not content.get(field)]
    match source:
        case "awsElasticBlockStore" | "gcePersistentDisk":
            partition = content.get("partition", 0)
            if not 0 <= partition <= 255:
                # 0 is legal, for it is what an absent partition looks like; the sentence does not know that.
                errors.append(invalid(f"{at}.partition", partition, "must be between 1 and 255, inclusive"))
        case "azureDisk":
            errors += _azure_disk(content, at)
        case "cinder":
            errors += _secret_name(content, at)
        case "fc":
            errors += _fibre_channel(content, at)
        case "flexVolume":
            errors += _flex_options(content, at)
        case "flocker":
            errors += _flocker(content, at)
        case "gitRepo":
            errors += descending_path(content.get("directory", ""), f"{at}.directory")
        case "iscsi":
            errors += _iscsi(content, at)
            if "initiatorName" in content and len(f"{volume_name}:{content.get('targetPortal', '')}") > 64:
                told = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
                told += "if iscsi.initiatorName is specified."
                errors.append(invalid(f"{path}.name", volume_name, told))
        case "quobyte":
            errors += _quobyte(content, at)
        case "storageos":
            errors += _storage_os(content, at)
    return errors


def _azure_disk(disk: Doc, path: str) -> Errors:
    errors = optional_choice(disk.get("cachingMode"), ("None", "ReadOnly", "ReadWrite"), f"{path}.cachingMode")
    errors += optional_choice(disk.get("kind"), ("Dedicated", "Managed", "Shared"), f"{path}.kind")
    kind, uri = disk.get("kind"), disk.get("diskURI", "")
    managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
    blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(unsupported(f"{path}.diskURI", uri, (managed,)))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        errors.append(unsupported(f"{path}.diskURI", uri, (blob,)))
    return errors


def _fibre_channel(target: Doc, path: str) -> Errors:
    ports, ids, lun = target.get("targetWWNs"), target.get("wwids"), target.get("lun")
    errors: Errors = []
    if not ports and not ids:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if ports and ids:
        told = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{path}.targetWWNs", ports, told))
    if ports and lun is None:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif ports:
        errors += sentences(f"{path}.lun", lun, names.in_range(lun or 0, 0, 255))
    return errors


def _flex_options(volume: Doc, path: str) -> Errors:
    errors: Errors = []
    for key in volume.get("options", {}):
        owner = "." + key.partition("/")[0].lower()
        if owner.endswith((".kubernetes.io", ".k8s.io")):
            told = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(f"{path}.options[{key}]", key, told))
    return errors


def _flocker(dataset: Doc, path: str) -> Errors:
    name, uuid = dataset.get("datasetName", ""), dataset.get("datasetUUID", "")
    errors: Errors = []
    if not name and not uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


def _iscsi(target: Doc, path: str) -> Errors:
    iqn, lun = target.get("iqn", ""), target.get("lun", 0)
    errors = _iscsi_name(iqn, f"{path}.iqn") if iqn else [required(f"{path}.iqn")]
    errors += sentences(f"{path}.lun", lun, names.in_range(lun, 0, 255))
    if (target.get("chapAuthDiscovery") or target.get("chapAuthSession")) and "secretRef" not in target:
        errors.append(required(f"{path}.secretRef"))
    if "initiatorName" in target:
        errors += _iscsi_name(target["initiatorName"], f"{path}.initiatorname")
    return errors


def _iscsi_name(name: str, path: str) -> Errors:
    patterns = {
        "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)$"),
        "eui": re.compile(r"^eui.[a-zA-Z0-9]{16}$"),
        "naa": re.compile(r"^naa.[a-zA-Z0-9]{32}$"),
    }
    if not name.startswith(tuple(patterns)):
        return [invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if patterns[name[:3]].search(name) else [invalid(path, name, "must be valid format")]


def _quobyte(volume: Doc, path: str) -> Errors:
    registry = volume.get("registry", "")
    errors: Errors = []
    if not registry:
        errors.append(required(f"{path}.registry", _PORTS_TOLD))
    elif len(volume.get("tenant", "")) >= 65:
        told = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(required(f"{path}.tenant", told))
    else:
        pairs = registry.split(",")
        is_pair = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*").fullmatch
        errors += [invalid(f"{path}.registry", registry, _PORTS_TOLD) for pair in pairs if not is_pair(pair)]
    return errors if volume.get("volume") else [*errors, required(f"{path}.volume")]


def _storage_os(volume: Doc, path: str) -> Errors:
    name, namespace = volume.get("volumeName", ""), volume.get("volumeNamespace", "")
    at = f"{path}.volumeName"
    errors = sentences(at, name, names.dns_label(name)) if name else [required(at)]
    if namespace:
        errors += sentences(f"{path}.volumeNamespace", namespace, names.dns_label(namespace))
    return errors + _secret_name(volume, path)


def _secret_name(source: Doc, path: str) -> Errors:
    if "secretRef" in source and not source["secretRef"].get("name"):
        return [required(f"{path}.secretRef.name")]
    return []
