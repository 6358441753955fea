"""The volumes of a pod: a legal name each, exactly one source, and what each source needs.

`validate_volumes` also answers which volumes are legal, because containers may mount only those. The sources most pods
use are judged here; those of the storage systems that grew up in-tree stand as a table in `pod_volume_sources`.
Mirrors ValidateVolumes and validateVolumeSource, misspelled paths included.
"""

from __future__ import annotations

from collections.abc import Callable

from tonnage.documents.kinds.pods.container_env import FILE_FIELDS, validate_field_ref, validate_resource_field_ref
from tonnage.documents.kinds.pods.containers import PULL_POLICIES
from tonnage.documents.kinds.pods.pod_volume_sources import IN_TREE, validate_in_tree
from tonnage.documents.kinds.storage.persistent_volume_claim import validate_claim_spec
from tonnage.documents.validation.metadata import validate_annotations, validate_labels
from tonnage.documents.validation.volume_sources import validate_csi_driver_name, validate_host_path, validate_nfs
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, duplicate, forbidden, go_value, invalid, required
from tonnage.objects.field_rules import choice, file_mode, sentences, unreserved_path
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
