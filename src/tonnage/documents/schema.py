"""The shape of every kind the API server keeps: fields, their types, and how lists merge.

The shapes stand in `schemas/<group>_<version>.schema`, one field per line, for people to read and for a test to compare
with a server. All code that needs a document's shape reads it here: strict decoding (`admit`), strategic merge,
server-side apply, OpenAPI, `kubectl explain` and protobuf.

    kind CSINode                         ~ What a node's CSI drivers told us.
      spec! CSINodeSpec @2
    type CSINodeSpec
      drivers! [CSINodeDriver] @1 map=name merge=name
    type VolumeNodeResources
      count int32 @1?

`kind` is a `type` with apiVersion, kind and metadata in front. `!` is required; `[T]` a list, `{T}` a map with string
keys; `group.T` a type of another file (types of meta need no prefix). `~` starts the description. Words after the type:

    map=k1,k2  set            how server-side apply merges a list; without a word it is atomic
    atomic  granular          a map or struct is replaced as a whole; is not, though its type is atomic
    merge  merge=key  retainKeys  replace        for strategic merge patch
    default=V                 a key's value when absent; filled in as well
    fill=V  fill              filled in when absent, whenever a document is decoded; without V, an empty map
    round                     a map of amounts, rounded up to thousandths whenever a document is decoded
    always                    a Go object has the field even if the document does not

Then come the rules for values (`documents/strategy.py`). A type's errors come in the order of its lines. A
sentence in quotes after a colon replaces the rule's own: `required:"can not be empty"`. In it `{enum}` lists the words.

    required  nonempty        must be there and not empty; must not be empty if it is there
    optional  strict          an empty value is legal; an absent one is judged as its zero
    enum=A,B  format=f,g      one of these words; a name, address or path of these forms
    minimum=0  range=1..9     a number, or every number of a list
    maxBytes=63  maxItems=20  unique             the length of a text or a list; no item of a list twice
    valid  valid=required     the rules of its type hold, or only those about what is missing
    immutable                 never changes; with a sentence, a change is forbidden

A line that begins with `if` is a rule about several fields. It names conditions, which must all hold, then a field and
what it is: required, forbidden, invalid (the error shows its value, or with `invalid=text` that text), or what it must
be, by a word as above; an absent text counts as empty. `{field}` in a sentence or text stands for that field. With
`fill=V` the field gets this value in a decoded document if it is absent, or if a condition is about it.

    if maxFailedIndexes !backoffLimitPerIndex: backoffLimitPerIndex required "when maxFailedIndexes is specified"
    if podFailurePolicy podReplacementPolicy: podReplacementPolicy enum=Failed

    field  !field             the field is there; it is absent
    field=A,B  field!=A,B     a text or boolean is one of these, or none of them; an absent text is empty
    field>9  field>other      a number is larger, also `>=` and `<`; an absent number is 0

`@4` is the field's number in protobuf, `@2.10` if JSON inlines it from the message in field 2. A field without a number
is ours alone, or apiVersion and kind, which travel in the envelope (metadata of a kind is always 1). Go writes zeros
(`""`, 0, false) into messages whether they were set or not, and leaves most of them out of JSON. `@4?` marks a scalar
whose zero stands in JSON too, because the Go field is a pointer (`replicas: 0`) or is always written. A required
field's zero does so too, except for a few newer fields: `@4-`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from tonnage.errors import TonnageError
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import go_value
from tonnage.objects.resources import NOT_STORED, RESOURCES, SCALES, Resource


class SchemaError(TonnageError):
    """A schema file has a syntax error; names file and line."""


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A leaf of a document: `any`, `FieldsV1` and `JSON` are opaque; of `deduced`, a value without a schema,
    server-side apply enters the maps. The three JSONSchemaPropsOr… are a schema, or the type in their name.
    """

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class ListOf:
    """A list. Under server-side apply it is a map if it has `keys`, else a set if `is_set`, else one atomic value.

    `patch_merge` is for strategic merge of the same list; `merge_key` is empty for lists of scalars.
    """

    item: Type
    keys: tuple[str, ...] = ()
    is_set: bool = False
    patch_merge: bool = False
    merge_key: str = ""

    @property
    def is_atomic(self) -> bool:
        return not self.keys and not self.is_set


@dataclass(frozen=True, slots=True, eq=False)
class MapOf:
    """A map from any string to values of one type."""

    item: Type
    is_atomic: bool = False


class FieldRule(NamedTuple):
    """One rule of a field's line: `minimum=0` has the word `minimum` and the argument `0`; `told` is its sentence."""

    word: str
    argument: str
    told: str


class Condition(NamedTuple):
    """A condition of a rule about several fields: `sign` is empty, `!`, `=`, `!=`, `>`, `>=` or `<`."""

    field: str
    sign: str
    words: tuple[str, ...]

    def holds(self, doc: Doc) -> bool:
        value = dig(doc, *self.field.split(".")) if "." in self.field else doc.get(self.field)
        if self.sign in ("", "!"):
            return (value is None) is (self.sign == "!")
        if self.sign in ("=", "!="):
            text = value if isinstance(value, str) else "" if value is None else go_value(value)
            return (text in self.words) is (self.sign == "=")
        bound = int(self.words[0]) if self.words[0].isdecimal() else doc.get(self.words[0], 0)
        return bool(_COMPARED[self.sign](value or 0, bound))


_COMPARED: dict[str, Callable[[int, int], bool]] = {">": operator.gt, ">=": operator.ge, "<": operator.lt}


class CrossFieldRule(NamedTuple):
    """If all conditions hold, `field` is required, forbidden or invalid, or must be as the rule for a value says."""

    conditions: tuple[Condition, ...]
    field: str
    rule: FieldRule

    def applies(self, doc: Doc) -> bool:
        return all(condition.holds(doc) for condition in self.conditions)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    name: str
    type: Type
    required: bool = False
    is_atomic: bool = False
    """The struct in this field is replaced as a whole, whatever its own type says."""
    is_granular: bool = False
    """The struct in this field merges field by field, whatever its own type says. Maps always do."""
    retain_keys: bool = False
    patch_replace: bool = False
    """Strategic merge replaces the value of this field as a whole."""
    is_always_there: bool = False
    """Not required, and yet in every Go object, such as a struct that is no pointer."""
    default: Any = None
    fill: Any = None
    """What stands for an absent value in a decoded document; None if it stays absent."""
    rounds: bool = False
    description: str = ""
    wire: tuple[int, ...] = ()
    """Field numbers in protobuf, from the struct's message inwards; empty for a field that is not in the message."""
    keeps_zero: bool = False
    """A scalar's zero value differs from its absence."""
    rules: tuple[FieldRule, ...] = ()
    """What a value must be, in the order of the errors."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Struct:
    """A named type with fields. `name` is unique within its `package`, as in OpenAPI (`io.k8s.api.core.v1.PodSpec`)."""

    package: str
    name: str
    is_kind: bool
    is_atomic: bool = False
    description: str = ""
    fields: dict[str, Field] = field(default_factory=dict, repr=False)
    others: Type | None = field(default=None, repr=False)
    """The type of undeclared fields; None if none are allowed, as in every built-in kind."""
    cross_rules: dict[str, list[CrossFieldRule]] = field(default_factory=dict, repr=False)
    """The rules about several fields, by the field whose line stands before them; "" for the first lines."""

    @property
    def full_name(self) -> str:
        return f"{self.package}.{self.name}"

    def type_at(self, path: str) -> Type:
        """The type of a field, or of one below it; a nameless scalar for `.` and for names that only errors have."""
        kind: Type = self
        for step in path.split("."):
            field = kind.fields.get(step) if isinstance(kind, Struct) else None
            kind = field.type if field is not None else Scalar("")
        return kind


Type = Scalar | ListOf | MapOf | Struct


_GROUPS = ("meta", *sorted({row.group for row in (*RESOURCES, *NOT_STORED, SCALES)}))
FILES = {(group, "v1"): f"{group.partition('.')[0] or 'core'}_v1" for group in _GROUPS}
"""Group and version -> file."""


def schema_of(group: str, version: str, name: str) -> Struct:
    """The struct of a kind, or of any named type, of one group and version. Raises KeyError if there is none."""
    return _all()[FILES[group, version]][name]


def type_named(name: str) -> Struct:
    """A type by its name as schema files write it: `core.PodSpec`."""
    scope, _, name = name.partition(".")
    return _all()[f"{scope}_v1"][name]


class ShapedResource(Resource):
    """A resource with a shape of its own: a custom resource, whose kind is compiled in `documents/custom`."""

    struct: Struct
    api_versions: frozenset[str]
    """apiVersions of its definition, served or not: owners of fields in these versions are kept."""
    scale: Doc | None
    """Its scale subresource: specReplicasPath, statusReplicasPath and perhaps labelSelectorPath."""


def schema_of_resource(resource: Resource) -> Struct:
    return resource.struct if isinstance(resource, ShapedResource) else _schema_of_row(resource)


@cache
def _schema_of_row(resource: Resource) -> Struct:
    return schema_of(resource.group, resource.version, resource.kind)


def structs() -> Iterator[Struct]:
    """Every named type that the API server serves, file by file, in the order of the files."""
    for stem in FILES.values():
        yield from _all()[stem].values()


@cache
def _all() -> dict[str, dict[str, Struct]]:
    folder = files("tonnage.documents") / "schemas"
    return load({stem: (folder / f"{stem}.schema").read_text() for stem in FILES.values()})


def load(texts: dict[str, str]) -> dict[str, dict[str, Struct]]:
    """Parse schema files given by stem (`core_v1`). Types may refer to one another in any order."""
    loaded: dict[str, dict[str, Struct]] = {stem: {} for stem in texts}
    bodies: list[tuple[str, Struct, list[tuple[int, str]]]] = []
    for stem, text in texts.items():
        package = ""
        body: list[tuple[int, str]] = []
        for number, line in enumerate(text.splitlines(), 1):
            head, _, description = line.partition("~")
            words = head.split()
            if not words or words[0].startswith("#"):
                continue
            if line[0] == " ":
                body.append((number, line))
            elif words[0] == "package":
                package = words[1]
            elif words[0] in ("kind", "type"):
                struct = Struct(package, words[1], words[0] == "kind", "atomic" in words[2:], description.strip())
                if struct.name in loaded[stem]:
                    raise SchemaError(f"{stem}.schema:{number}: type {struct.name} stands here a second time")
                loaded[stem][struct.name] = struct
                body = []
                bodies.append((stem, struct, body))
            else:
                raise SchemaError(f"{stem}.schema:{number}: expected package, kind or type, found {words[0]!r}")

    scopes = {stem.rpartition("_")[0]: by_name for stem, by_name in loaded.items()}
    for stem, struct, body in bodies:
        if struct.is_kind:
            for name, text in (("apiVersion", "string"), ("kind", "string"), ("metadata", "ObjectMeta")):
                wire = (1,) if name == "metadata" else ()
                kind = _type(text, {}, loaded[stem], scopes)
                struct.fields[name] = Field(name, kind, description=_HEAD[name], wire=wire)
        for number, line in body:
            head, _, description = line.partition("~")
            try:
                if head.startswith("  if "):
                    before = next(reversed(struct.fields), "")
                    struct.cross_rules.setdefault(before, []).append(_cross_rule(head))
                    continue
                words = _WORD.findall(head) if '"' in head else head.split()
                parsed = _field(words, description.strip(), loaded[stem], scopes)
            except (KeyError, IndexError) as exc:
                raise SchemaError(f"{stem}.schema:{number}: cannot read {line.strip()!r}: {exc} is not known") from exc
            struct.fields[parsed.name] = parsed
    return loaded


_HEAD = {
    "apiVersion": "Group and version of this object's schema, such as storage.k8s.io/v1.",
    "kind": "What this object is.",
    "metadata": "Name, labels, owners and what the server keeps about every object.",
}
_WORDS = frozenset(
    ["map", "set", "merge", "retainKeys", "replace", "atomic", "granular", "default", "always", "fill", "round"]
)
_NUMBER = re.compile(r"@[1-9][0-9]*(\.[1-9][0-9]*)*[?-]?")
_WORD = re.compile(r'[^\s"]+(?:"[^"]*")?')
_OPTION = re.compile(r'(\w+)(?:=([^:]*))?(?::"([^"]*)")?')
_CROSS_RULE = re.compile(
    r'  if ([^:]+): ([\w.]+) (?:(required|forbidden|invalid)(?:=(\S*))? "(.*)"|(\w+=\S*(?:"[^"]*")?))'
)
_CONDITION = re.compile(r"(!)?([\w.]+)(?:(!=|>=|=|<|>)(\S*))?")
_RULES = frozenset(
    {"required", "nonempty", "optional", "strict", "enum", "format", "minimum", "range", "maxBytes", "maxItems"}
    | {"unique", "valid", "immutable"}
)


def _field(words: list[str], description: str, local: dict[str, Struct], scopes: dict[str, dict[str, Struct]]) -> Field:
    name, text, *options = words
    said = {word: argument for word, _, argument in (option.partition("=") for option in options)}
    kind = _type(text, said, local, scopes)
    number = next((option for option in options if _NUMBER.fullmatch(option)), "")
    filled = said.get("fill", said.get("default"))
    return Field(
        name.rstrip("!"),
        kind,
        required=name.endswith("!"),
        is_atomic="atomic" in said,
        is_granular="granular" in said,
        retain_keys="retainKeys" in said,
        patch_replace="replace" in said,
        is_always_there="always" in said,
        default=said.get("default"),
        fill=None if filled is None else value_in(kind, filled),
        rounds="round" in said,
        description=description,
        wire=tuple(int(part) for part in number.strip("@?-").split(".") if part),
        keeps_zero=not number.endswith("-") if name.endswith("!") else number.endswith("?"),
        rules=tuple(_rule(option) for option in options if option != number and option.partition("=")[0] not in _WORDS),
    )


def _cross_rule(line: str) -> CrossFieldRule:
    found = _CROSS_RULE.fullmatch(line.rstrip())
    conditions = [_CONDITION.fullmatch(word) for word in found[1].split()] if found is not None else []
    if found is None or not all(conditions):
        raise KeyError("a rule about several fields")
    parsed = (each.groups() for each in conditions if each is not None)
    named = tuple(
        Condition(name, is_absent or sign or "", tuple((words or "").split(",")))
        for is_absent, name, sign, words in parsed
    )
    word, told = found[6] or "", found[5] or ""
    of_value = FieldRule("fill", word[5:], "") if word.startswith("fill=") else _rule(word) if word else None
    return CrossFieldRule(named, found[2], of_value or FieldRule(found[3], found[4] or "", told))


def value_in(kind: Type, text: str) -> Any:
    """The value of a field that `fill=` or `default=` spells; a map is always empty."""
    if isinstance(kind, ListOf):
        return text.split(",")
    return _READ.get(kind.name, str)(text) if isinstance(kind, Scalar) else {}


def _rule(option: str) -> FieldRule:
    found = _OPTION.fullmatch(option)
    if found is None or found[1] not in _RULES:
        raise KeyError(option)
    return FieldRule(found[1], found[2] or "", found[3] or "")


def _type(text: str, said: dict[str, str], local: dict[str, Struct], scopes: dict[str, dict[str, Struct]]) -> Type:
    if text.startswith("["):
        return ListOf(
            _type(text[1:-1], {}, local, scopes),
            keys=tuple(said["map"].split(",")) if "map" in said else (),
            is_set="set" in said,
            patch_merge="merge" in said,
            merge_key=said.get("merge", ""),
        )
    if text.startswith("{"):
        return MapOf(_type(text[1:-1], {}, local, scopes), is_atomic="atomic" in said)
    if text in _SCALARS:
        return _SCALARS[text]
    scope, dot, name = text.rpartition(".")
    if dot:
        return scopes[scope][name]
    return local[text] if text in local else scopes["meta"][text]


_NAMES = "string bool int32 int64 number bytes Quantity IntOrString Time MicroTime FieldsV1 any deduced JSON"
_SCHEMA_OR = ("JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray")
_READ: dict[str, Callable[[str], Any]] = {
    "bool": "true".__eq__,
    "int32": int,
    "int64": int,
    "IntOrString": lambda text: int(text) if text.isdecimal() else text,
}
_SCALARS = {name: Scalar(name) for name in (*_NAMES.split(), *_SCHEMA_OR)}
