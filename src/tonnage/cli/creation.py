"""Manifests as an API server would have stored them, for decisions that never see one.

What a person writes goes through what a creation does: defaults, a uid, the priority of its PriorityClass, tolerations
for nodes in trouble, label keys merged into selectors, the default StorageClass, and validation. Three things differ,
because a file may describe a cluster in the middle of its life:

- `status` stays: a node offers what its status says, a pod may be running, ended or nominated.
- A number in `spec.priority` stands, where a server would insist on computing it.
- A required field that is missing is a warning, everything else that validation finds an error: absence means
  something to a decision, nonsense does not.

An object that came from a server has all this behind it; it only gets the defaults, in case the server was older.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from tonnage.apiserver.strategies import strategies
from tonnage.apiserver.strategies.base import Strategy
from tonnage.apiserver.strategies.pod import merge_label_keys
from tonnage.cli.manifest_problems import BrokenManifest
from tonnage.cli.manifests import Manifest, Manifests
from tonnage.clock import SystemClock
from tonnage.errors import Forbidden
from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.decode_errors import Unreadable
from tonnage.objects.defaults.persistent_volumes import default_class_for
from tonnage.objects.document import Doc
from tonnage.objects.fielderrors import FieldError
from tonnage.objects.meta import Object
from tonnage.objects.pod_admission import inherit_topology, resolve_priority, tolerate_node_trouble
from tonnage.objects.validation.metadata import validate_object_meta

_MISSING = "FieldValueRequired"
_SYSTEM_CLASSES: tuple[Doc, ...] = (
    {"metadata": {"name": "system-cluster-critical"}, "value": 2000000000},
    {"metadata": {"name": "system-node-critical"}, "value": 2000001000},
)
"""What every cluster has, whether the files say so or not."""


def created(manifests: Manifests, gates: Gates) -> tuple[Object, ...]:
    """The objects of all manifests, in their order. Raises BrokenManifest; warnings are added to the manifests'."""
    creation = _Creation(manifests, gates)
    for manifest in manifests.by_key.values():
        creation.settle(manifest)
    return tuple(_typed(manifest) for manifest in manifests.by_key.values())


class _Creation:
    def __init__(self, manifests: Manifests, gates: Gates) -> None:
        self._strategies = strategies(gates, SystemClock())
        self._warnings = manifests.warnings
        self._nodes = {each.doc["metadata"]["name"]: each.doc for each in manifests.of("Node")}
        given = [each.doc for each in manifests.of("PriorityClass")]
        self._priority_classes = [*_SYSTEM_CLASSES, *given]  # of one name the last counts
        self._storage_classes = [each.doc for each in manifests.of("StorageClass")]
        self._uids: set[tuple[str, str]] = set()

    def settle(self, manifest: Manifest) -> None:
        """Bring one document, in place, to what a server would keep."""
        doc, resource = manifest.doc, manifest.resource
        strategy = self._strategies[resource.group, resource.plural]
        strategy.default(doc)
        self._give_uid(manifest)
        if manifest.is_from_server:
            return
        if resource.kind == "Pod":
            self._admit_pod(manifest)
        elif resource.kind == "PersistentVolumeClaim":
            chosen = default_class_for(doc, self._storage_classes)
            if chosen is not None:
                doc["spec"]["storageClassName"] = chosen
        self._judge(manifest, strategy)

    def _give_uid(self, manifest: Manifest) -> None:
        """A uid that is the same at every run; a copied one is replaced, for two objects are not one."""
        meta, kind = manifest.doc["metadata"], manifest.resource.qualified
        if not meta.get("uid") or (kind, meta["uid"]) in self._uids:
            if meta.get("uid"):
                self._warnings.append(f"{manifest.origin} has the uid of another object, and is given one of its own")
            meta["uid"] = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind}/{meta.get('namespace', '')}/{meta['name']}"))
        self._uids.add((kind, meta["uid"]))

    def _admit_pod(self, manifest: Manifest) -> None:
        pod = manifest.doc
        if "priority" not in pod["spec"]:
            try:
                resolve_priority(pod, self._priority_classes)
            except Forbidden as exc:
                name = pod["spec"].get("priorityClassName", "")
                raise BrokenManifest(
                    manifest.origin,
                    exc.message.partition(" is forbidden: ")[2],
                    field="spec.priorityClassName",
                    hint=f"give the PriorityClass {name} too, or write spec.priority",
                ) from exc
        if pod["spec"].get("nodeName"):
            inherit_topology(pod, self._nodes.get(pod["spec"]["nodeName"]))
        tolerate_node_trouble(pod)
        merge_label_keys(pod)

    def _judge(self, manifest: Manifest, strategy: Strategy) -> None:
        name_rule = type(strategy).name_rule
        errors = validate_object_meta(manifest.doc, namespaced=manifest.resource.namespaced, name_rule=name_rule)
        errors += strategy.validate(manifest.doc)
        wrong = [error for error in errors if error.reason != _MISSING]
        if wrong:
            raise BrokenManifest(manifest.origin, _told(wrong), field=wrong[0].field)
        if errors:
            self._warnings.append(f"{manifest.origin}: {_told(errors)}; an API server would refuse this object")


def _told(errors: Iterable[FieldError]) -> str:
    return ", ".join(dict.fromkeys(str(error) for error in errors))


def _typed(manifest: Manifest) -> Object:
    try:
        return codec.decode_doc(manifest.doc)
    except Unreadable as exc:
        problem = exc.message.removeprefix(f"{exc.kind} {exc.key}: ")
        raise BrokenManifest(manifest.origin, problem, field=exc.field) from exc
