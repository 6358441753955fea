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

from tonnage.clock import SystemClock
from tonnage.documents.defaults.persistent_volumes import default_class_for
from tonnage.documents.pod_admission import inherit_topology, resolve_priority, tolerate_node_trouble
from tonnage.documents.strategies import strategies
from tonnage.documents.strategies.base import Strategy
from tonnage.documents.strategies.pod import merge_label_keys
from tonnage.documents.validation.metadata import validate_object_meta
from tonnage.errors import Forbidden
from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.decode_errors import Unreadable
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import FieldError
from tonnage.objects.meta import Key, Object
from tonnage.whatif.manifest_errors import BrokenManifest
from tonnage.whatif.manifests import Manifest, Manifests

_MISSING = "FieldValueRequired"
_SYSTEM_CLASSES: tuple[Doc, ...] = (
    {"metadata": {"name": "system-cluster-critical"}, "value": 2000000000},
    {"metadata": {"name": "system-node-critical"}, "value": 2000001000},
)
"""What every cluster has, whether the files say so or not."""


def created(manifests: Manifests, gates: Gates) -> tuple[Object, ...]:
    """The objects of all manifests, in their order. Raises BrokenManifest; warnings are added to the manifests'."""
    return Creation(gates).of_all(manifests)


class Creation:
    """What a server knows when it creates an object, and remembers for the next: classes, nodes, uids in use."""

    def __init__(self, gates: Gates) -> None:
        self._strategies = strategies(gates, SystemClock())
        self._nodes: dict[str, Doc] = {}
        self._priority_classes: dict[str, Doc] = {each["metadata"]["name"]: each for each in _SYSTEM_CLASSES}
        self._storage_classes: dict[str, Doc] = {}
        self._known = {
            "Node": self._nodes,
            "PriorityClass": self._priority_classes,
            "StorageClass": self._storage_classes,
        }
        self._uids: dict[tuple[str, str], Key] = {}

    def of_all(self, manifests: Manifests) -> tuple[Object, ...]:
        """Objects that are there together: a pod may come before the class it names. Each has a uid."""
        for manifest in manifests.by_key.values():
            self._learn(manifest)
        for manifest in manifests.by_key.values():
            self._give_uid(manifest, manifests.warnings)
            self._settle(manifest, manifests.warnings)
        return tuple(_typed(manifest) for manifest in manifests.by_key.values())

    def of(self, manifest: Manifest, warnings: list[str]) -> Object:
        """One more object, created or replaced after all before it. A uid is given by the server, unless it has one."""
        self._learn(manifest)
        if manifest.doc["metadata"].get("uid") and not self._is_own_uid(manifest, warnings):
            del manifest.doc["metadata"]["uid"]
        self._settle(manifest, warnings)
        return _typed(manifest)

    def forget(self, kind: str, name: str) -> None:
        """An object is deleted: nobody is created by it any more."""
        self._known.get(kind, {}).pop(name, None)

    def _learn(self, manifest: Manifest) -> None:
        if manifest.resource.kind in self._known:
            self._known[manifest.resource.kind][manifest.doc["metadata"]["name"]] = manifest.doc

    def _settle(self, manifest: Manifest, warnings: list[str]) -> None:
        """Bring one document, in place, to what a server would keep."""
        doc, resource = manifest.doc, manifest.resource
        strategy = self._strategies[resource.group, resource.plural]
        strategy.default(doc)
        if manifest.is_from_server:
            return
        if resource.kind == "Pod":
            self._admit_pod(manifest)
        elif resource.kind == "PersistentVolumeClaim":
            chosen = default_class_for(doc, list(self._storage_classes.values()))
            if chosen is not None:
                doc["spec"]["storageClassName"] = chosen
        self._judge(manifest, strategy, warnings)

    def _give_uid(self, manifest: Manifest, warnings: list[str]) -> None:
        """A uid that is the same at every run; a copied one is replaced, for two objects are not one."""
        meta, kind = manifest.doc["metadata"], manifest.resource.qualified
        if not meta.get("uid") or not self._is_own_uid(manifest, warnings):
            meta["uid"] = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind}/{meta.get('namespace', '')}/{meta['name']}"))
            self._uids[kind, meta["uid"]] = _key_of(manifest)

    def _is_own_uid(self, manifest: Manifest, warnings: list[str]) -> bool:
        """Whether no other object has this one's uid; that it has is said."""
        known = (manifest.resource.qualified, manifest.doc["metadata"]["uid"])
        if self._uids.setdefault(known, _key_of(manifest)) == _key_of(manifest):
            return True
        warnings.append(f"{manifest.origin} has the uid of another object, and is given one of its own")
        return False

    def _admit_pod(self, manifest: Manifest) -> None:
        pod = manifest.doc
        if "priority" not in pod["spec"]:
            try:
                resolve_priority(pod, list(self._priority_classes.values()))
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

    def _judge(self, manifest: Manifest, strategy: Strategy, warnings: list[str]) -> None:
        name_rule = type(strategy).name_rule
        errors = validate_object_meta(manifest.doc, namespaced=manifest.resource.namespaced, name_rule=name_rule)
        errors += strategy.validate(manifest.doc)
        wrong = [error for error in errors if error.reason != _MISSING]
        if wrong:
            raise BrokenManifest(manifest.origin, _told(wrong), field=wrong[0].field)
        if errors:
            warnings.append(f"{manifest.origin}: {_told(errors)}; an API server would refuse this object")


def _key_of(manifest: Manifest) -> Key:
    meta = manifest.doc["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def _told(errors: Iterable[FieldError]) -> str:
    return ", ".join(dict.fromkeys(str(error) for error in errors))


def _typed(manifest: Manifest) -> Object:
    try:
        return codec.decode_doc(manifest.doc)
    except Unreadable as exc:
        problem = exc.message.removeprefix(f"{exc.kind} {exc.key}: ")
        raise BrokenManifest(manifest.origin, problem, field=exc.field) from exc
