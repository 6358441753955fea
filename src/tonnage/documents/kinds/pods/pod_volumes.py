"""The volumes of a pod: unique legal names, exactly one source, and the rules of every source.

`validate_volumes` also returns the legal volumes: containers may mount only these. Mirrors ValidateVolumes and
validateVolumeSource, misspelled paths included.
"""

from __future__ import annotations

import re

from tonnage.documents.kinds.pods.container_env import FILE_FIELDS, validate_field_ref, validate_resource_field_ref
from tonnage.documents.kinds.pods.containers import PULL_POLICY
from tonnage.documents.kinds.storage.persistent_volume_claim import validate_claim_spec
from tonnage.documents.validation.metadata import validate_annotations, validate_labels
from tonnage.documents.validation.volume_sources import (
    CSI_DRIVER_NAME,
    REGISTRY_TOLD,
    SOURCES,
    validate_host_path,
    validate_nfs,
)
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, duplicate, forbidden, go_value, invalid, required, unsupported
from tonnage.quantity import Quantity

# Of several sources the first in this order is validated, the others are refused.
_ORDER = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
_MISSPELLED = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
# Storage systems that were once built in -> fields that must not be empty, in the order of their errors.
IN_TREE: dict[str, tuple[str, ...]] = {
    **{source: fields for source, fields in SOURCES.items() if source not in ("csi", "hostPath", "local", "nfs")},
    "gitRepo": ("repository",),
    "iscsi": ("targetPortal",),
    "quobyte": (),
    "storageos": (),
}


def validate_volumes(volumes: list[Doc], path: str, *, pod_name: str, is_pod: bool) -> tuple[dict[str, Doc], Errors]:
    """The legal volumes by name, and the errors of the others. Ephemeral claims are named by `pod_name`."""
    errors: Errors = []
    legal: dict[str, Doc] = {}
    created = {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if pod_name and "ephemeral" in volume}
    for idx, volume in enumerate(volumes):
        at = f"{path}[{idx}]"
        name = volume.get("name", "")
        found = _validate_source(volume, at, pod_name=pod_name, is_pod=is_pod)
        found += rules.sentences(f"{at}.name", name, names.dns_label(name)) if name else [required(f"{at}.name")]
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
    given = [source for source in _ORDER if source in volume]
    if not given:
        return [required(path, "must specify a volume type")]
    source, content = given[0], volume[given[0]]
    if source in IN_TREE:
        errors = validate_in_tree(source, content, path, volume.get("name", ""))
    elif source == "ephemeral":
        errors = _validate_ephemeral(volume, path, pod_name)
    else:
        errors = rules.check(volume, path, {source: _RULES[source]})
        if source == "image" and is_pod and not content.get("reference"):
            errors.insert(0, required(f"{path}.image.reference"))
    told = "may not specify more than 1 volume type"
    return errors + [forbidden(f"{path}.{_MISSPELLED.get(other, other)}", told) for other in given[1:]]


def _validate_ephemeral(volume: Doc, path: str, pod_name: str) -> Errors:
    template = volume["ephemeral"].get("volumeClaimTemplate")
    at = f"{path}.ephemeral.volumeClaimTemplate"
    name = volume.get("name", "")
    errors = [required(at)] if template is None else validate_claim_template(template, at)
    if pod_name and name:
        claim = f"{pod_name}-{name}"
        wrong = [f"PVC name {go_value(claim)}: {told}" for told in names.dns_subdomain(claim)]
        errors += rules.sentences(f"{path}.name", name, wrong)
    return errors


def validate_claim_template(template: Doc, path: str) -> Errors:
    """The template of a pod's own claim: labels, annotations and a spec; no other metadata may be set."""
    metadata = template.get("metadata", {})
    errors = validate_annotations(metadata.get("annotations", {}), f"{path}.metadata.annotations")
    errors += validate_labels(metadata.get("labels", {}), f"{path}.metadata.labels")
    for field in sorted(metadata.keys() - {"annotations", "labels"}):
        # Upstream lists these by reflection over its Go type, where `uid` is called UID.
        spelled = "uID" if field == "uid" else field
        errors.append(forbidden(f"{path}.metadata.{spelled}", "cannot be set"))
    return errors + validate_claim_spec(template.get("spec", {}), f"{path}.spec")


def _validate_downward_file(file: Doc, path: str) -> Errors:
    errors = rules.check(file, path, {"path": rules.needed(rules.unreserved_path)})
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
    return errors + rules.check(file, path, {"mode": rules.file_mode})


def _validate_projected(source: Doc, path: str) -> Errors:
    """Several sources under one mount point, without a repeated path. Mirrors validateProjectionSources."""
    errors = rules.check(source, path, {"defaultMode": rules.file_mode})
    taken: set[str] = set()

    def take(target: str, shown: str) -> Errors:
        is_taken = target in taken
        taken.update((target,) if target else ())
        return [invalid(path, shown, "conflicting duplicate paths")] if is_taken else []

    for idx, projection in enumerate(source.get("sources", ())):
        at = f"{path}.sources[{idx}]"
        for kind in ("secret", "configMap"):
            if kind in projection:
                name = projection[kind].get("name", "")
                errors += [] if name else [required(f"{at}.{kind}.name")]
                for number, item in enumerate(projection[kind].get("items", ())):
                    errors += rules.check(item, f"{at}.{kind}.items[{number}]", _ITEM)
                    errors += take(item.get("path", ""), name)
        for file in projection.get("downwardAPI", {}).get("items", ()):
            errors += _validate_downward_file(file, f"{at}.downwardAPI")
            errors += take(file.get("path", ""), file.get("path", ""))
        if "serviceAccountToken" in projection:
            token = projection["serviceAccountToken"]
            errors += rules.check(
                token, f"{at}.serviceAccountToken", {"expirationSeconds": rules.Asked(rules.token_lifetime, 0)}
            )
            errors += rules.check(token, path, {"path": rules.needed(rules.unreserved_path)})
        if len(projection) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type per source"))
    return errors


def _validate_downward(source: Doc, path: str) -> Wrong:
    yield from rules.check(source, path, {"defaultMode": rules.file_mode})
    for file in source.get("items", ()):
        yield from _validate_downward_file(file, path)  # upstream gives no index


def _validate_csi(source: Doc, path: str) -> Wrong:
    yield from rules.check(source, path, {"driver": CSI_DRIVER_NAME})
    if "nodePublishSecretRef" in source:
        secret = source["nodePublishSecretRef"]
        yield from rules.check(secret, f"{path}.nodePublishSecretRef", {"name": rules.needed()})
        yield from rules.check(secret, path, {"name": rules.if_set(rules.named(names.dns_subdomain))})


def _validate_size_limit(size: str, path: str) -> Errors:
    told = "SizeLimit field must be a valid resource quantity"
    return [forbidden(path, told)] if Quantity.of(size).sign() < 0 else []


_ITEM: rules.Rules = {"key": rules.needed(), "path": rules.needed(rules.unreserved_path), "mode": rules.file_mode}
_KEYS: rules.Rules = {"defaultMode": rules.file_mode, "items": rules.each(_ITEM)}
_RULES: dict[str, rules.Rule] = {
    "emptyDir": rules.part({"sizeLimit": _validate_size_limit}),
    "hostPath": validate_host_path,
    "secret": rules.part({"secretName": rules.needed(), **_KEYS}),
    "nfs": validate_nfs,
    "persistentVolumeClaim": rules.part({"claimName": rules.needed()}),
    "downwardAPI": _validate_downward,
    "configMap": rules.part({"name": rules.needed(), **_KEYS}),
    "projected": _validate_projected,
    "csi": _validate_csi,
    "image": rules.part({"pullPolicy": PULL_POLICY}),
}


def validate_in_tree(source: str, content: Doc, path: str, volume_name: str) -> Errors:
    """The errors of a source that was once built in; `path` is the volume's."""
    at = f"{path}.persistentDisk" if source == "gcePersistentDisk" else f"{path}.{source}"
    errors = [required(f"{at}.{field}") for field in IN_TREE[source] if not content.get(field)]
    if source in _OF_IN_TREE:
        errors += _OF_IN_TREE[source](content, at)
    is_long = len(f"{volume_name}:{content.get('targetPortal', '')}") > 64
    if source == "iscsi" and "initiatorName" in content and is_long:
        told = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
        told += "if iscsi.initiatorName is specified."
        errors.append(invalid(f"{path}.name", volume_name, told))
    return errors


def _azure_disk(disk: Doc, path: str) -> Wrong:
    yield from rules.check(disk, path, _AZURE_WORDS)
    kind, uri = disk.get("kind"), disk.get("diskURI", "")
    managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
    blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        yield unsupported(f"{path}.diskURI", uri, (managed,))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        yield unsupported(f"{path}.diskURI", uri, (blob,))


def _fibre_channel(target: Doc, path: str) -> Wrong:
    ports, ids, lun = target.get("targetWWNs"), target.get("wwids"), target.get("lun")
    if not ports and not ids:
        yield required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if ports and ids:
        told = "targetWWNs and wwids can not be specified simultaneously"
        yield invalid(f"{path}.targetWWNs", ports, told)
    if ports and lun is None:
        yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif ports:
        yield from rules.sentences(f"{path}.lun", lun, names.in_range(lun or 0, 0, 255))


def _flex_options(volume: Doc, path: str) -> Wrong:
    for key in volume.get("options", {}):
        owner = "." + key.partition("/")[0].lower()
        if owner.endswith((".kubernetes.io", ".k8s.io")):
            told = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(f"{path}.options[{key}]", key, told)


def _flocker(dataset: Doc, path: str) -> Wrong:
    name, uuid = dataset.get("datasetName", ""), dataset.get("datasetUUID", "")
    if not name and not uuid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uuid:
        yield invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield invalid(f"{path}.datasetName", name, "must not contain '/'")


def _iscsi(target: Doc, path: str) -> Errors:
    errors = rules.check(target, path, {"iqn": rules.needed(_iscsi_name), "lun": rules.within(0, 255)})
    if (target.get("chapAuthDiscovery") or target.get("chapAuthSession")) and "secretRef" not in target:
        errors.append(required(f"{path}.secretRef"))
    return errors + (_iscsi_name(target["initiatorName"], f"{path}.initiatorname") if "initiatorName" in target else [])


def _iscsi_name(name: str, path: str) -> Errors:
    patterns = {
        "iqn": r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)$",
        "eui": r"^eui.[a-zA-Z0-9]{16}$",
        "naa": r"^naa.[a-zA-Z0-9]{32}$",
    }
    if not name.startswith(tuple(patterns)):
        return [invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if re.search(patterns[name[:3]], name) else [invalid(path, name, "must be valid format")]


def _quobyte(volume: Doc, path: str) -> Wrong:
    registry = volume.get("registry", "")
    if not registry:
        yield required(f"{path}.registry", REGISTRY_TOLD)
    elif len(volume.get("tenant", "")) >= 65:
        told = "must be a UUID and may not exceed a length of 64 characters"
        yield required(f"{path}.tenant", told)
    else:
        is_pair = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*").fullmatch
        wrong = [pair for pair in registry.split(",") if not is_pair(pair)]
        yield from (invalid(f"{path}.registry", registry, REGISTRY_TOLD) for _ in wrong)
    yield from rules.check(volume, path, {"volume": rules.needed()})


_AZURE_WORDS: rules.Rules = {
    "cachingMode": rules.one_of("None", "ReadOnly", "ReadWrite"),
    "kind": rules.one_of("Dedicated", "Managed", "Shared"),
}
# 0 is legal, because an absent partition is 0; upstream's sentence says otherwise.
_PARTITION = rules.part(
    {"partition": rules.must_be(lambda value: 0 <= value <= 255, "must be between 1 and 255, inclusive")}
)
_SECRET_NAME = rules.part({"secretRef": rules.part({"name": rules.needed()})})
_STORAGE_OS: rules.Rules = {
    "volumeName": rules.needed(rules.named(names.dns_label)),
    "volumeNamespace": rules.if_set(rules.named(names.dns_label)),
}
_OF_IN_TREE: dict[str, rules.Rule] = {
    "awsElasticBlockStore": _PARTITION,
    "gcePersistentDisk": _PARTITION,
    "azureDisk": _azure_disk,
    "cinder": _SECRET_NAME,
    "fc": _fibre_channel,
    "flexVolume": _flex_options,
    "flocker": _flocker,
    "gitRepo": rules.part({"directory": rules.descending_path}),
    "iscsi": _iscsi,
    "quobyte": _quobyte,
    "storageos": rules.both(rules.part(_STORAGE_OS), _SECRET_NAME),
}
