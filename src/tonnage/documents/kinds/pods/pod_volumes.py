"""The volumes of a pod: a legal name each, exactly one source, and what each source needs.

`validate_volumes` also answers which volumes are legal, because containers may mount only those. The sources most pods
use come first; the storage systems that were once built into Kubernetes are mostly a table of required fields. Mirrors
ValidateVolumes and validateVolumeSource, misspelled paths included.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tonnage.documents.kinds.pods.container_env import FILE_FIELDS, validate_field_ref, validate_resource_field_ref
from tonnage.documents.kinds.pods.containers import PULL_POLICIES
from tonnage.documents.kinds.storage.persistent_volume_claim import validate_claim_spec
from tonnage.documents.validation.metadata import validate_annotations, validate_labels
from tonnage.documents.validation.volume_sources import validate_csi_driver_name, validate_host_path, validate_nfs
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, duplicate, forbidden, go_value, invalid, required
from tonnage.objects.field_rules import (
    choice,
    descending_path,
    file_mode,
    optional_choice,
    sentences,
    unreserved_path,
    unsupported,
)
from tonnage.quantity import Quantity

_TOKEN_MIN_S, _TOKEN_MAX_S = 600, 1 << 32
# Of several sources the first in this order is judged, the others are refused.
_ORDER = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
_MISSPELLED = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
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


def validate_volumes(volumes: list[Doc], path: str, *, pod_name: str, is_pod: bool) -> tuple[dict[str, Doc], Errors]:
    """The legal volumes by name, and everything wrong with the others.

    `pod_name` is empty for templates and for pods without a name yet: then the names of ephemeral claims, which start
    with it, cannot be judged.
    """
    errors: Errors = []
    legal: dict[str, Doc] = {}
    created = {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if pod_name and "ephemeral" in volume}
    for idx, volume in enumerate(volumes):
        at = f"{path}[{idx}]"
        name = volume.get("name", "")
        found = _validate_source(volume, at, pod_name=pod_name, is_pod=is_pod)
        found += sentences(f"{at}.name", name, names.dns_label(name)) if name else [required(f"{at}.name")]
        if name in legal:
            found.append(duplicate(f"{at}.name", name))
        if not found:
            legal[name] = volume
        errors += found
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim in created:
            told = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{at}.persistentVolumeClaim.claimName", claim, told))
    return legal, errors


def _validate_source(volume: Doc, path: str, *, pod_name: str, is_pod: bool) -> Errors:
    found = [source for source in _ORDER if source in volume]
    if not found:
        return [required(path, "must specify a volume type")]
    source = found[0]
    content = volume[source]
    if source in IN_TREE:
        errors = validate_in_tree(source, content, path, volume.get("name", ""))
    elif source == "ephemeral":
        errors = _validate_ephemeral(volume, path, pod_name)
    elif source == "image":
        errors = [required(f"{path}.image.reference")] if is_pod and not content.get("reference") else []
        errors += choice(content.get("pullPolicy", ""), PULL_POLICIES, f"{path}.image.pullPolicy")
    else:
        errors = _RULES[source](content, f"{path}.{source}")
    told = "may not specify more than 1 volume type"
    return errors + [forbidden(f"{path}.{_MISSPELLED.get(other, other)}", told) for other in found[1:]]


def _validate_ephemeral(volume: Doc, path: str, pod_name: str) -> Errors:
    template = volume["ephemeral"].get("volumeClaimTemplate")
    at = f"{path}.ephemeral.volumeClaimTemplate"
    name = volume.get("name", "")
    errors = [required(at)] if template is None else validate_claim_template(template, at)
    if pod_name and name:
        claim = f"{pod_name}-{name}"
        wrong = [f"PVC name {go_value(claim)}: {told}" for told in names.dns_subdomain(claim)]
        errors += sentences(f"{path}.name", name, wrong)
    return errors


def validate_claim_template(template: Doc, path: str) -> Errors:
    """A claim to be made for a pod: labels, annotations and a spec; nothing else of its metadata may be chosen."""
    metadata = template.get("metadata", {})
    errors = validate_annotations(metadata.get("annotations", {}), f"{path}.metadata.annotations")
    errors += validate_labels(metadata.get("labels", {}), f"{path}.metadata.labels")
    for field in sorted(metadata.keys() - {"annotations", "labels"}):
        # Upstream finds these by reflection over its Go type, where `uid` is called UID.
        spelled = "uID" if field == "uid" else field
        errors.append(forbidden(f"{path}.metadata.{spelled}", "cannot be set"))
    return errors + validate_claim_spec(template.get("spec", {}), f"{path}.spec")


def _validate_empty_dir(source: Doc, path: str) -> Errors:
    if Quantity.of(source.get("sizeLimit")).sign() < 0:
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _validate_claim(source: Doc, path: str) -> Errors:
    return [] if source.get("claimName") else [required(f"{path}.claimName")]


def _validate_csi(source: Doc, path: str) -> Errors:
    errors = validate_csi_driver_name(source.get("driver", ""), f"{path}.driver")
    if "nodePublishSecretRef" in source:
        name = source["nodePublishSecretRef"].get("name", "")
        if not name:
            errors.append(required(f"{path}.nodePublishSecretRef.name"))
        errors += sentences(f"{path}.name", name, names.dns_subdomain(name)) if name else []
    return errors


def _validate_config_map(source: Doc, path: str) -> Errors:
    return _validate_keyed(source, path, "name")


def _validate_secret(source: Doc, path: str) -> Errors:
    return _validate_keyed(source, path, "secretName")


def _validate_keyed(source: Doc, path: str, name_field: str) -> Errors:
    errors = [] if source.get(name_field) else [required(f"{path}.{name_field}")]
    errors += file_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for idx, item in enumerate(source.get("items", ())):
        errors += _validate_item(item, f"{path}.items[{idx}]")
    return errors


def _validate_item(item: Doc, path: str) -> Errors:
    errors = [required(f"{path}.{field}") for field in ("key", "path") if not item.get(field)]
    errors += unreserved_path(item.get("path", ""), f"{path}.path")
    return errors + file_mode(item.get("mode"), f"{path}.mode")


def _validate_downward(source: Doc, path: str) -> Errors:
    errors = file_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for file in source.get("items", ()):
        errors += _validate_downward_file(file, path)  # upstream gives no index
    return errors


def _validate_downward_file(file: Doc, path: str) -> Errors:
    errors = [] if file.get("path") else [required(f"{path}.path")]
    errors += unreserved_path(file.get("path", ""), f"{path}.path")
    if "fieldRef" in file:
        errors += validate_field_ref(file["fieldRef"], f"{path}.fieldRef", FILE_FIELDS)
        if "resourceFieldRef" in file:
            told = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", told))
    elif "resourceFieldRef" in file:
        at = f"{path}.resourceFieldRef"
        errors += validate_resource_field_ref(file["resourceFieldRef"], at, needs_container=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + file_mode(file.get("mode"), f"{path}.mode")


def _validate_projected(source: Doc, path: str) -> Errors:
    """Several sources under one mount point: no path twice. Mirrors validateProjectionSources."""
    errors = file_mode(source.get("defaultMode"), f"{path}.defaultMode")
    taken: set[str] = set()
    for idx, projection in enumerate(source.get("sources", ())):
        at = f"{path}.sources[{idx}]"
        for kind in ("secret", "configMap"):
            if kind in projection:
                name = projection[kind].get("name", "")
                errors += [] if name else [required(f"{at}.{kind}.name")]
                for number, item in enumerate(projection[kind].get("items", ())):
                    errors += _validate_item(item, f"{at}.{kind}.items[{number}]")
                    errors += _take(item.get("path", ""), taken, path, name)
        for file in projection.get("downwardAPI", {}).get("items", ()):
            errors += _validate_downward_file(file, f"{at}.downwardAPI")
            errors += _take(file.get("path", ""), taken, path, file.get("path", ""))
        if "serviceAccountToken" in projection:
            errors += _validate_token(projection["serviceAccountToken"], f"{at}.serviceAccountToken", path)
        if len(projection) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type per source"))
    return errors


def _take(target: str, taken: set[str], path: str, shown: str) -> Errors:
    if not target:
        return []
    is_new = target not in taken
    taken.add(target)
    return [] if is_new else [invalid(path, shown, "conflicting duplicate paths")]


def _validate_token(token: Doc, path: str, volume_path: str) -> Errors:
    lifetime_s, at = token.get("expirationSeconds", 0), f"{path}.expirationSeconds"
    errors: Errors = []
    if lifetime_s < _TOKEN_MIN_S:
        errors.append(invalid(at, lifetime_s, "may not specify a duration less than 10 minutes"))
    if lifetime_s > _TOKEN_MAX_S:
        errors.append(invalid(at, lifetime_s, "may not specify a duration larger than 2^32 seconds"))
    if not token.get("path"):
        return [*errors, required(f"{volume_path}.path")]
    return errors + unreserved_path(token["path"], f"{volume_path}.path")


_RULES: dict[str, Callable[[Doc, str], Errors]] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": validate_host_path,
    "secret": _validate_secret,
    "nfs": validate_nfs,
    "persistentVolumeClaim": _validate_claim,
    "downwardAPI": _validate_downward,
    "configMap": _validate_config_map,
    "projected": _validate_projected,
    "csi": _validate_csi,
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
