"""Objects from files: manifests as people write them, lists as `kubectl get` prints them, folders of both.
Files are YAML or JSON, one document or many, also as UTF-16, which PowerShell writes.

    read(["cluster/", "web.yaml", "-"])      folders recursively and in order of their names; `-` is standard input

Every object gets its `Origin` and is admitted (documents/admit.py). An unknown field is an error, as for kubectl, but
only a warning in an object that a server wrote, because newer servers know more fields. Kinds that decisions do not
read are skipped and counted. Of two objects with the same name the later counts.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from tonnage.documents.admit import Malformed, admit
from tonnage.documents.creation import NameGenerator
from tonnage.documents.schema import schema_of_resource
from tonnage.errors import TonnageError, did_you_mean
from tonnage.objects import document, small_groups
from tonnage.objects.codec import resource_of
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_KIND, Resource
from tonnage.objects.texts.yaml_text import InvalidYaml, documents
from tonnage.scheduling.engine.event_handlers import READ_KINDS
from tonnage.whatif.manifest_errors import BrokenManifest, Origin, malformed, unknown_fields
from tonnage.whatif.workloads import NOT_READ_BY_DECISIONS

_LONG_NUMBER = 19


@dataclass(frozen=True, slots=True)
class GivenText:
    """The text of a file that is not on our disk, with its name. Accepted wherever a file name is."""

    name: str
    data: bytes

    def __str__(self) -> str:
        return self.name


Source = str | GivenText
"""Where manifests come from: the path of a file or folder, `-`, or a given text."""


def documents_of(data: bytes, file: str, warnings: list[str]) -> list[Any]:
    """The values of all documents, also of empty ones, in order. Appends to `warnings`. Raises BrokenManifest."""
    if data.lstrip()[:1] == b"{":
        try:
            return [document.read_json(data, document.Budget(document.file_limits(len(data))))]
        except (document.BudgetExceeded, document.NumberOutOfRange) as exc:
            raise _unreadable(file, str(exc)) from exc
        except msgspec.DecodeError:
            pass  # several documents, another encoding, YAML in flow style, or broken: decided below
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as exc:
        problem = f"byte {exc.start} is not {exc.encoding.upper()} text"
        raise BrokenManifest(file, problem, hint="give YAML or JSON files, saved as UTF-8") from exc
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] == "{":
        try:
            return _json_documents(text)
        except document.BudgetExceeded as exc:
            raise _unreadable(file, str(exc)) from exc
        except json.JSONDecodeError as exc:
            try:
                return _yaml_documents(text, file, warnings)
            except BrokenManifest:
                where = f"line {exc.lineno} column {exc.colno}"
                raise BrokenManifest(file, f"json: {where}: {exc.msg}", hint="correct the JSON there") from exc
    return _yaml_documents(text, file, warnings)


def _json_documents(text: str) -> list[Any]:
    data = text.encode(errors="surrogatepass")
    document.measure(data, document.Budget(document.file_limits(len(data))))
    decoder, found, at = json.JSONDecoder(parse_int=_integer), [], 0
    end = len(text.rstrip())
    while at < end:
        if text[at].isspace():
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except RecursionError:  # unbalanced brackets cannot be measured
            raise document.BudgetExceeded("depth", document.MAX_DEPTH) from None
        found.append(value)
    return found


def _integer(digits: str) -> int | float:
    """An integer beyond 64 bits is a float in Go, and quick to parse."""
    return int(digits) if len(digits) < _LONG_NUMBER else float(digits)


def _unreadable(file: str, problem: str) -> BrokenManifest:
    return BrokenManifest(file, f"json: {problem}", hint="correct the JSON there")


def _yaml_documents(text: str, file: str, warnings: list[str]) -> list[Any]:
    found: list[Any] = []
    try:
        for number, each in enumerate(documents(text), 1):
            found.append(each.value)
            warnings += [
                f'{file}, document {number}: line {line}: key "{key}" stands twice in one map; the last counts'
                for key, line in each.repeated
            ]
    except InvalidYaml as exc:
        raise BrokenManifest(file, exc.message, hint="correct the YAML there") from exc
    return found


STDIN = "-"
_SUFFIXES = (".json", ".yaml", ".yml")


def _by_kind(resources: Iterable[Resource]) -> dict[tuple[str, str], Resource]:
    return {(resource.api_version, resource.kind): resource for resource in resources}


READ = _by_kind((*(resource_of(read_kind.cls) for read_kind in READ_KINDS), resource_of(small_groups.PriorityClass)))
"""Kinds that decisions read, by apiVersion and kind; PriorityClasses are read when a pod is created."""

READ_BY_CREATION: tuple[Resource, ...] = (
    resource_of(small_groups.PriorityClass),
    BY_KIND["v1", "LimitRange"],
    BY_KIND["v1", "ResourceQuota"],
    BY_KIND["node.k8s.io/v1", "RuntimeClass"],
)
"""Kinds that only the creation of pods and claims reads."""
RULES = _by_kind(resource for resource in READ_BY_CREATION if resource not in READ.values())
"""Kinds of `READ_BY_CREATION` that decisions do not read: they are kept as documents."""

WORKLOADS = _by_kind(resource_of(cls) for cls in NOT_READ_BY_DECISIONS)
"""Workloads that decisions do not read; workloads that they do read are in `READ`."""

_OTHERS = frozenset(kind for _, kind in BY_KIND) | {"PodTemplate", "PodGroup", "VolumeAttributesClass"}
"""Other kinds of the same groups, which are not misspellings."""
_VERSION_OF = {(each.group, each.kind): version for (version, _), each in READ.items()}

Key = tuple[str, str, str]
"""(qualified plural, namespace, name)."""


@dataclass(slots=True)
class Manifest:
    origin: Origin
    resource: Resource
    doc: Doc
    is_from_server: bool
    """The object comes from a cluster: it already passed admission and validation."""


@dataclass(slots=True)
class Manifests:
    """Everything that was read. `passed_over`: kind and key of objects that decisions do not read."""

    by_key: dict[Key, Manifest] = field(default_factory=dict)
    rules: list[Doc] = field(default_factory=list)
    """Documents of `RULES`."""
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read(sources: Sequence[Source], *, without: Path | None = None, with_workloads: bool = False) -> Manifests:
    """Read every object of these files and folders. Raises BrokenManifest, or TonnageError for unreadable files.

    `without` is a file in one of the folders that holds no manifests. Workloads that decisions do not read are skipped
    unless `with_workloads`.
    """
    manifests, names = Manifests(), NameGenerator(random.Random(0))
    kinds = READ | RULES | WORKLOADS if with_workloads else READ | RULES
    for origin, doc in _all_objects(sources, without, manifests.warnings):
        _take(manifests, origin, doc, names, kinds)
    if not manifests.by_key and not manifests.rules and not manifests.passed_over:
        raise TonnageError(f"there is no object in {', '.join(map(_shown, sources))}")
    return manifests


def documents_in(sources: Sequence[str]) -> Iterator[tuple[Origin, Resource, Doc]]:
    """Every object of these files and folders as written, of any kind that our API server serves.

    Raises BrokenManifest for a kind that is not served or an object without a name; the server validates the rest.
    """
    for origin, doc in _all_objects(sources, None, []):
        resource = BY_KIND.get((doc["apiVersion"], doc["kind"]))
        if resource is None:
            problem = f'no matches for kind "{doc["kind"]}" in version "{doc["apiVersion"]}"'
            raise BrokenManifest(origin, problem, field="kind")
        metadata: Doc = doc.setdefault("metadata", {})
        if not metadata.get("name"):
            raise BrokenManifest(origin, "metadata.name is not set", field="metadata.name")
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        yield origin, resource, doc


def objects_at(origin: Origin, value: Any, names: NameGenerator, warnings: list[str]) -> Iterator[Manifest]:
    """The objects of a value in another file. Raises BrokenManifest, also for kinds that are not read."""
    for place, doc in _objects(origin, value):
        manifests = Manifests(warnings=warnings)
        _take(manifests, place, doc, names, READ)
        if manifests.passed_over:
            kinds = ", ".join(sorted(kind for _, kind in READ))
            problem = f"kind={doc['kind']} of apiVersion {doc['apiVersion']} is not a kind that scheduling reads"
            raise BrokenManifest(place, problem, field="kind", hint=f"leave it out; scheduling reads {kinds}")
        yield from manifests.by_key.values()


# -- files ------------------------------------------------------------------------------------------------------------


def _all_objects(sources: Sequence[Source], without: Path | None, warnings: list[str]) -> Iterator[tuple[Origin, Doc]]:
    for source in sources:
        for file, data in _texts(source, without):
            for number, value in enumerate(documents_of(data, file, warnings), 1):
                yield from _objects(Origin(file, number), value)


def _texts(source: Source, without: Path | None) -> Iterator[tuple[str, bytes]]:
    """(name, content) of every file of a source."""
    if isinstance(source, GivenText):
        yield source.name, source.data
        return
    if source == STDIN:
        yield _shown(source), sys.stdin.buffer.read()
        return
    path = Path(source)
    files = [path]
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.suffix.lower() in _SUFFIXES and each.is_file())
        files = [each for each in files if without is None or each.resolve() != without.resolve()]
        if not files:
            raise TonnageError(f"{source}: no manifests in this folder", hint=f"they end in {', '.join(_SUFFIXES)}")
    for file in files:
        try:
            yield str(file), file.read_bytes()
        except OSError as exc:
            raise TonnageError(f"{file}: cannot be read: {exc.strerror}") from exc


def _shown(source: Source) -> str:
    return "standard input" if source == STDIN else str(source)


# -- objects ----------------------------------------------------------------------------------------------------------


def _objects(origin: Origin, value: Any, kind: str = "", version: str = "") -> Iterator[tuple[Origin, Doc]]:
    """The document itself, or the items of a list. Items of a typed list inherit its kind and version."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise BrokenManifest(origin, "expected an object, a map with apiVersion and kind")
    doc: Doc = {"apiVersion": version, "kind": kind, **value} if kind else value
    origin = replace(origin, object=_described(doc))
    for name in ("apiVersion", "kind"):
        if not isinstance(doc.get(name), str) or not doc[name]:
            raise BrokenManifest(origin, f"{name} is not set", field=name, hint=f"write {name}: at its start")
    if doc["kind"] != "List" and not (doc["kind"].endswith("List") and "items" in doc):
        yield origin, doc
        return
    items = doc.get("items") or []
    if not isinstance(items, list):
        raise BrokenManifest(origin, "items is not a list", field="items", hint="write a dash before each object")
    item_kind = doc["kind"].removesuffix("List")
    for idx, item in enumerate(items):
        place = f"{origin.item}.items[{idx}]" if origin.item else f"items[{idx}]"
        yield from _objects(
            replace(origin, item=place, object=""), item, item_kind, doc["apiVersion"] if item_kind else ""
        )


def _described(doc: Doc) -> str:
    """`Pod default/web`, as far as the document says."""
    metadata = doc.get("metadata")
    meta: Doc = metadata if isinstance(metadata, dict) else {}
    key = "/".join(str(part) for part in (meta.get("namespace"), meta.get("name") or meta.get("generateName")) if part)
    return f"{doc.get('kind') or 'object'} {key}".rstrip()


def _take(
    found: Manifests,
    origin: Origin,
    doc: Doc,
    names: NameGenerator,
    kinds: Mapping[tuple[str, str], Resource],
) -> None:
    resource = kinds.get((doc["apiVersion"], doc["kind"]))
    if resource is None:
        _check_passed_over(origin, doc)
        found.passed_over.append((doc["kind"], origin.object.partition(" ")[2]))
        return
    try:
        findings = admit(schema_of_resource(resource), doc)
    except Malformed:
        raise malformed(origin, schema_of_resource(resource), doc) from None
    metadata: Doc = doc.setdefault("metadata", {})
    manifest = Manifest(origin, resource, doc, bool(metadata.get("uid") or metadata.get("resourceVersion")))
    if findings.unknown and not manifest.is_from_server:
        raise unknown_fields(origin, schema_of_resource(resource), findings.unknown)
    if findings.unknown:
        told = ", ".join(f'"{path}"' for path in findings.unknown)
        found.warnings.append(f"{origin}: ignored fields that Tonnage does not know: {told}")
    if resource.namespaced:
        metadata.setdefault("namespace", "default")
    else:
        metadata.pop("namespace", None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = names.generate_name(metadata["generateName"])
    manifest.origin = replace(origin, object=_described(doc))
    if not metadata.get("name"):
        raise BrokenManifest(manifest.origin, "metadata.name is not set", field="metadata.name")
    if (resource.api_version, resource.kind) in RULES:
        found.rules.append(doc)
        return
    key = (resource.qualified, metadata.get("namespace", ""), metadata["name"])
    before = found.by_key.pop(key, None)
    if before is not None:
        place = replace(before.origin, object="")
        found.warnings.append(f"{manifest.origin} is in {place} too; the later one is used")
    found.by_key[key] = manifest


def _check_passed_over(origin: Origin, doc: Doc) -> None:
    """Raise BrokenManifest for a kind that probably means one we read: of another version, or misspelt."""
    group = doc["apiVersion"].rpartition("/")[0]
    known = _VERSION_OF.get((group, doc["kind"]))
    problem = f'no matches for kind "{doc["kind"]}" in version "{doc["apiVersion"]}"'
    if known is not None:
        raise BrokenManifest(origin, problem, field="apiVersion", hint=f"write apiVersion: {known}")
    elsewhere = [version for (_, kind), version in _VERSION_OF.items() if kind == doc["kind"]]
    if not group and elsewhere:  # a custom group may have a kind of that name; the core group belongs to Kubernetes
        raise BrokenManifest(origin, problem, field="apiVersion", hint=f"write apiVersion: {elsewhere[0]}")
    kinds = [kind for known_group, kind in _VERSION_OF if known_group == group]
    if doc["kind"] not in _OTHERS and (guess := did_you_mean(doc["kind"], kinds)):
        raise BrokenManifest(origin, problem, field="kind", hint=guess)
