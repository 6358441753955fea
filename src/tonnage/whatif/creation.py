"""Objects as an API server would have stored them, for decisions that never see one.

What a person writes goes through what a creation does (`documents/creation.py`); a required field that is missing is a
warning, everything else that validation finds an error. An object that came from a server (it has a uid or a
resourceVersion) is taken as it stands and only gets defaults: what is stored would not always be taken a second time.

`ObjectsByKind` has the objects of a question, `ReplayObjects` keeps them over virtual time, as a server keeps them.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from tonnage.clock import SystemClock, VirtualClock
from tonnage.documents import admission, creation
from tonnage.documents.kinds.resource_quota import charge, with_used
from tonnage.errors import Forbidden, Invalid, TonnageError
from tonnage.gates import Gates
from tonnage.objects import codec, decode_errors, resources
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object, changed
from tonnage.whatif.manifest_errors import BrokenManifest, Origin
from tonnage.whatif.manifests import READ_BY_CREATION, Manifest, Manifests

_QUOTAS = resources.BY_PLURAL["", "resourcequotas"]
_NODES, _STORAGE_CLASSES = resources.BY_PLURAL["", "nodes"], resources.BY_PLURAL["storage.k8s.io", "storageclasses"]


T = TypeVar("T", bound=Object)


class QuotaExceeded(TonnageError):
    """A ResourceQuota has no more room for a pod or a claim that would be made."""


class ManifestLister:
    """The objects that admission looks at, and those that every cluster has."""

    def __init__(self) -> None:
        listed = (_NODES, _STORAGE_CLASSES, *READ_BY_CREATION)
        self.by_kind: dict[str, dict[str, Doc]] = {resource.kind: {} for resource in listed}
        for doc in admission.SYSTEM_PRIORITY_CLASSES:
            self.add("PriorityClass", doc)

    def add(self, kind: str, doc: Doc) -> None:
        if kind in self.by_kind:
            self.by_kind[kind][_key(doc)] = doc

    def get(self, resource: resources.Resource, name: str, namespace: str = "") -> Doc | None:
        return self.by_kind.get(resource.kind, {}).get(f"{namespace}/{name}")

    def list(self, resource: resources.Resource, namespace: str = "") -> Iterable[Doc]:
        docs = self.by_kind.get(resource.kind, {}).values()
        return [doc for doc in docs if not namespace or doc["metadata"].get("namespace") == namespace]


class Creation:
    """Creates the objects of manifests, each with what is known from those before it: classes, nodes, uids in use."""

    def __init__(self, gates: Gates) -> None:
        self._lister = ManifestLister()
        self._admission = admission.Admission(self._lister, is_whole=False)
        self._clock = SystemClock()
        self._creator = creation.Creator(
            gates=gates,
            clock=self._clock,
            names=creation.NameGenerator(random.Random(0)),
            admission=self._admission,
            is_from_file=True,
        )
        self._uids: dict[tuple[str, str], Key] = {}

    def of_all(self, manifests: Manifests) -> tuple[Object, ...]:
        """Objects that are there together, in their order: a pod may come before the class it names. Each has a uid.

        Raises BrokenManifest; warnings are added to the manifests'.
        """
        for doc in manifests.rules:
            self._lister.add(doc["kind"], doc)
        for manifest in manifests.by_key.values():
            self._lister.add(manifest.resource.kind, manifest.doc)
        for manifest in manifests.by_key.values():
            meta, kind = manifest.doc["metadata"], manifest.resource.qualified
            if not meta.get("uid") or not self._is_own_uid(manifest, manifests.warnings):
                meta["uid"] = stable_uid(f"{kind}/{_key(manifest.doc)}")  # a copied uid is replaced
                self._uids[kind, meta["uid"]] = _key(manifest.doc)
            self._create(manifest, manifests.warnings)
        return tuple(_typed(manifest) for manifest in manifests.by_key.values())

    def know(self, objects: Iterable[Object], rules: Iterable[Doc] = ()) -> None:
        """Objects that are there already, and documents of `READ_BY_CREATION`: what is created is judged by them."""
        for doc in rules:
            self._lister.add(doc["kind"], doc)
        for each in objects:
            if type(each).__name__ in self._lister.by_kind:
                self._lister.add(type(each).__name__, codec.to_doc(each))
            self._uids[codec.resource_of(type(each)).qualified, each.uid] = f"{each.namespace}/{each.name}"

    def of(self, manifest: Manifest, warnings: list[str], *, is_valid: bool = False) -> Object:
        """One more object, created or replaced after all before it. A uid is given by the server, unless it has one.
        `is_valid`: one like it has been validated."""
        self._lister.add(manifest.resource.kind, manifest.doc)
        if manifest.doc["metadata"].get("uid") and not self._is_own_uid(manifest, warnings):
            del manifest.doc["metadata"]["uid"]
        self._create(manifest, warnings, is_valid=is_valid)
        try:
            self._admission.validate_create(manifest.resource, manifest.doc)
        except Forbidden as exc:
            raise BrokenManifest(manifest.origin, exc.message.partition(" is forbidden: ")[2], field="spec") from exc
        return _typed(manifest)

    def made(self, cls: type[T], origin: Origin, doc: Doc, warnings: list[str], *, is_valid: bool = False) -> T:
        """An object that a controller would make, as `of` has it."""
        manifest = Manifest(origin, codec.resource_of(cls), doc, is_from_server=False)
        return cast(T, self.of(manifest, warnings, is_valid=is_valid))

    def charge(self, made: Object) -> None:
        """Charge the quotas of its namespace for an object that is made. Raises QuotaExceeded. A quota that nobody has
        counted yet is passed over."""
        for quota in list(self._lister.list(_QUOTAS, made.namespace)):
            if "used" not in quota.get("status", {}):
                continue
            try:
                delta = charge(quota, codec.resource_of(type(made)), codec.to_doc(made), None, self._clock.now())
            except Forbidden as exc:
                raise QuotaExceeded(exc.message) from exc
            self._lister.add("ResourceQuota", with_used(quota, delta))

    def forget(self, kind: str, name: str) -> None:
        """An object is deleted: nobody is created by it any more."""
        self._lister.by_kind.get(kind, {}).pop(f"/{name}", None)

    def _create(self, manifest: Manifest, warnings: list[str], *, is_valid: bool = False) -> None:
        """Turn one document, in place, into what a server would keep."""
        doc, resource = manifest.doc, manifest.resource
        if resource.group == "batch":  # a job counts for its template, and the pods of that are created like others
            return
        if manifest.is_from_server:
            self._creator.default(resource, doc)
            return
        try:
            missing = self._creator.create(resource, doc, is_valid=is_valid)
        except Forbidden as exc:  # what admission refuses in a manifest is a priority alone
            problem, name = exc.message.partition(" is forbidden: ")[2], doc["spec"].get("priorityClassName", "")
            field, hint = "spec.priorityClassName", f"give the PriorityClass {name} too, or write spec.priority"
            if "preemptionPolicy" in doc["spec"] and "PreemptionPolicy" in problem:
                field, hint = "spec.preemptionPolicy", "leave it out, or name a PriorityClass that has this policy"
            raise BrokenManifest(manifest.origin, problem, field=field, hint=hint) from exc
        except Invalid as exc:
            told = ", ".join(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in exc.causes))
            raise BrokenManifest(manifest.origin, told, field=exc.causes[0].field) from exc
        if missing:
            told = ", ".join(dict.fromkeys(map(str, missing)))
            warnings.append(f"{manifest.origin}: {told}; an API server would refuse this object")

    def _is_own_uid(self, manifest: Manifest, warnings: list[str]) -> bool:
        """Whether no other object has this one's uid; that it has is said."""
        known = (manifest.resource.qualified, manifest.doc["metadata"]["uid"])
        if self._uids.setdefault(known, _key(manifest.doc)) == _key(manifest.doc):
            return True
        warnings.append(f"{manifest.origin} has the uid of another object, and is given one of its own")
        return False


def _key(doc: Doc) -> Key:
    meta = doc["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def _typed(manifest: Manifest) -> Object:
    try:
        return codec.decode_doc(manifest.doc)
    except decode_errors.Unreadable as exc:
        problem = exc.message.removeprefix(f"{exc.kind} {exc.key}: ")
        raise BrokenManifest(manifest.origin, problem, field=exc.field) from exc


Place = tuple[str, Key]
"""(kind, namespace/name)."""


def stable_uid(name: str) -> str:
    """A uid that follows from a name: the same files give the same ones at every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def renewed(found: T, metadata: Mapping[str, Any] | None = None, **changes: Any) -> T:
    """The object with these changes (`changed`) to its fields and metadata; `ReplayObjects` gives it a new version."""
    return changed(found, metadata={"resource_version": "", **(metadata or {})}, **changes)


class ObjectsByKind:
    """Objects by kind and key, in the order in which they came. Of two with one key the later one counts."""

    def __init__(self, objects: Iterable[Object] = ()) -> None:
        self._kept: dict[str, dict[Key, Object]] = {}
        for each in objects:
            self._kept.setdefault(type(each).__name__, {})[each.key] = each

    def __iter__(self) -> Iterator[Object]:
        for of_kind in self._kept.values():
            yield from of_kind.values()

    def of(self, kind: type[T]) -> Mapping[Key, T]:
        """All objects of a kind by key, now and later."""
        return cast("Mapping[Key, T]", self._kept.setdefault(kind.__name__, {}))

    def all(self, kind: type[T]) -> list[T]:
        return list(self.of(kind).values())

    def get(self, kind: type[T], key: Key) -> T | None:
        return cast("T | None", self._kept.get(kind.__name__, {}).get(key))

    def named(self, kind: str, key: Key) -> Object | None:
        """An object by the name of its kind."""
        return self._kept.get(kind, {}).get(key)


class ReplayObjects(ObjectsByKind):
    """Objects as a server would store them, each with a uid, a creation time and a version.

    A recreated object gets a new uid, a changed one a new version; an update without changes does nothing. Values that
    an object already has are kept. Uids are derived from names and repeat in every run.
    """

    def __init__(self, clock: VirtualClock, objects: Iterable[Object] = ()) -> None:
        """The initial objects; those without a version get one above all given versions, and those without a creation
        time count as old."""
        super().__init__()
        found = list(objects)
        self.clock = clock
        self._lives: Counter[Place] = Counter()  # how often an object of that name was created
        self._version = max((each.metadata.revision for each in found), default=0)
        for each in found:
            self._put(each, now=None)

    def put(self, new: T) -> T:
        """Create or replace an object. Returns it as it is kept: the object before if nothing changed.

        An object with another uid replaces the existing one as a new object.
        """
        before, now = cast("tuple[Object | None, T]", self._put(new, now=self.clock.now))
        if before is now:
            return now
        if before is not None and before.uid != now.uid:
            self._gone(before)
            before = None
        self._came(before, now)
        return now

    def _came(self, before: Object | None, now: Object) -> None:
        """An object is new or has changed."""

    def _gone(self, found: Object) -> None:
        """An object is gone."""

    def _put(self, new: Object, now: Callable[[], datetime] | None) -> tuple[Object | None, Object]:
        kind, key, said = type(new).__name__, new.key, new.metadata
        of_kind = self._kept.setdefault(kind, {})
        before = of_kind.get(key)
        is_update = before is not None and said.uid in ("", before.uid)
        if before is not None and is_update:
            was = before.metadata
            uid, created_at = was.uid, said.creation_timestamp or was.creation_timestamp
            version = said.resource_version or was.resource_version
            meta = msgspec.structs.replace(said, uid=uid, creation_timestamp=created_at, resource_version=version)
            if meta == was and msgspec.structs.replace(new, metadata=meta) == before:
                return before, before
        else:
            place = (kind, key)
            self._lives[place] += 1
            uid = said.uid or stable_uid(f"{kind}/{key}/{self._lives[place]}")
            created_at = said.creation_timestamp
            if created_at is None and now is not None:
                created_at = now()
        if said.resource_version:
            version = said.resource_version
            self._version = max(self._version, said.revision)
        else:
            self._version += 1
            version = str(self._version)
        meta = msgspec.structs.replace(said, uid=uid, creation_timestamp=created_at, resource_version=version)
        kept = of_kind[key] = msgspec.structs.replace(new, metadata=meta)
        return before, kept

    def remove(self, kind: type[Object], key: Key) -> None:
        """Delete an object, if it exists. Finalizers are ignored."""
        found = self._kept.get(kind.__name__, {}).pop(key, None)
        if found is not None:
            self._gone(found)
