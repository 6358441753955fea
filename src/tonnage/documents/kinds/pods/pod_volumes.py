"""The volumes of a pod: unique legal names, exactly one source, and the rules of every source.

`validate_volumes` also returns the legal volumes: containers may mount only these. Mirrors ValidateVolumes and
validateVolumeSource, misspelled paths included.
"""

from __future__ import annotations

import re

from tonnage.documents.kinds.pods.containers import FILE_FIELDS, validate_field_ref, validate_resource_field_ref
from tonnage.documents.kinds.storage.persistent_volume import SHOWN_AS, sources_in
from tonnage.documents.kinds.storage.persistent_volume_claim import validate_claim_spec
from tonnage.documents.strategy import TypeRules
from tonnage.documents.validation.metadata import META
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, Wrong, duplicate, forbidden, go_value, invalid, required, unsupported
from tonnage.quantity import Quantity

_REGISTRY_TOLD = "must be a host:port pair or multiple pairs separated by commas"
_MISSPELLED = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}


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
    given = [source for source in sources_in("core.Volume") if source in volume]  # the first one is validated
    if not given:
        return [required(path, "must specify a volume type")]
    source, content = given[0], volume[given[0]]
    if source == "ephemeral":
        errors = _validate_ephemeral(volume, path, pod_name)
    else:
        errors = [*_VOLUME.by_field[source](content, f"{path}.{SHOWN_AS.get(source, source)}")]
    if source == "image" and is_pod and not content.get("reference"):
        errors.insert(0, required(f"{path}.image.reference"))
    elif source == "iscsi":
        errors += _validate_initiator(content, path, volume.get("name", ""))
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
    errors = META(metadata, f"{path}.metadata", "annotations", "labels")
    for field in sorted(metadata.keys() - {"annotations", "labels"}):
        # Upstream lists these by reflection over its Go type, where `uid` is called UID.
        spelled = "uID" if field == "uid" else field
        errors.append(forbidden(f"{path}.metadata.{spelled}", "cannot be set"))
    return errors + validate_claim_spec(template.get("spec", {}), f"{path}.spec")


def _validate_downward_file(file: Doc, path: str) -> Errors:
    errors = _FILE(file, path, "path")
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
    return errors + _FILE(file, path, "mode")


def _validate_projected(source: Doc, path: str) -> Errors:
    """Several sources under one mount point, without a repeated path. Mirrors validateProjectionSources."""
    errors: Errors = []
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
                    errors += _ITEM(item, f"{at}.{kind}.items[{number}]")
                    errors += take(item.get("path", ""), name)
        for file in projection.get("downwardAPI", {}).get("items", ()):
            errors += _validate_downward_file(file, f"{at}.downwardAPI")
            errors += take(file.get("path", ""), file.get("path", ""))
        if "serviceAccountToken" in projection:
            token = projection["serviceAccountToken"]
            errors += _TOKEN(token, f"{at}.serviceAccountToken", "expirationSeconds") + _TOKEN(token, path, "path")
        if len(projection) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type per source"))
    return errors


def _validate_downward(source: Doc, path: str) -> Wrong:
    for file in source.get("items", ()):
        yield from _validate_downward_file(file, path)  # upstream gives no index


def _validate_csi(source: Doc, path: str) -> Wrong:
    if "nodePublishSecretRef" in source:
        secret = source["nodePublishSecretRef"]
        yield from _SECRET(secret, f"{path}.nodePublishSecretRef")
        yield from rules.check(secret, path, {"name": rules.if_set(rules.named(names.dns_subdomain))})


def _validate_size_limit(size: str, path: str) -> Errors:
    told = "SizeLimit field must be a valid resource quantity"
    return [forbidden(path, told)] if Quantity.of(size).sign() < 0 else []


def _validate_initiator(source: Doc, path: str, volume_name: str) -> Errors:
    if "initiatorName" not in source or len(f"{volume_name}:{source.get('targetPortal', '')}") <= 64:
        return []
    told = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    return [invalid(f"{path}.name", volume_name, f"{told}if iscsi.initiatorName is specified.")]


def _azure_disk(disk: Doc, path: str) -> Wrong:
    kind, uri = disk.get("kind"), disk.get("diskURI", "")
    managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
    blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        yield unsupported(f"{path}.diskURI", uri, (managed,))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        yield unsupported(f"{path}.diskURI", uri, (blob,))


def _fibre_channel(target: Doc, path: str) -> Wrong:
    ports, ids, lun = target.get("targetWWNs"), target.get("wwids"), target.get("lun")
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


def _iscsi(target: Doc, path: str) -> Errors:
    errors = _ISCSI(target, path)
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
        yield required(f"{path}.registry", _REGISTRY_TOLD)
    elif len(volume.get("tenant", "")) >= 65:
        told = "must be a UUID and may not exceed a length of 64 characters"
        yield required(f"{path}.tenant", told)
    else:
        is_pair = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*").fullmatch
        wrong = [pair for pair in registry.split(",") if not is_pair(pair)]
        yield from (invalid(f"{path}.registry", registry, _REGISTRY_TOLD) for _ in wrong)
    yield from _QUOBYTE(volume, path, "volume")


_FILE, _ITEM = TypeRules("core.DownwardAPIVolumeFile"), TypeRules("core.KeyToPath")
_TOKEN, _SECRET = TypeRules("core.ServiceAccountTokenProjection"), TypeRules("core.LocalObjectReference")
_ISCSI, _QUOBYTE = TypeRules("core.ISCSIVolumeSource", iqn=_iscsi_name), TypeRules("core.QuobyteVolumeSource")
_VOLUME = TypeRules(
    "core.Volume",
    emptyDir=TypeRules("core.EmptyDirVolumeSource", sizeLimit=_validate_size_limit),
    iscsi=_iscsi,
    quobyte=_quobyte,
    downwardAPI=_validate_downward,
    fc=_fibre_channel,
    flexVolume=_flex_options,
    azureDisk=_azure_disk,
    projected=_validate_projected,
    csi=_validate_csi,
)
