"""The rules that differ from kind to kind, as one class with sensible defaults.

The verbs are generic: they read, call the strategy of the kind at fixed points, and write. A kind subclasses
`Strategy`, with data in class attributes (`gated`, …) and the rest in methods; the rules of single fields and their
defaults stand in the kind's lines of its schema. Methods work on whole documents and do no I/O; the clock is for the
rare rule that records a time.

`TypeRules` are the rules that stand in the fields' lines of the `.schema` files, as rules that can be called:

    _PORT = TypeRules("core.ServicePort")
    errors += _PORT(port, f"{path}[{idx}]")             # all lines, in their order
    errors += _PORT(port, f"{path}[{idx}]", "protocol")  # this line only; `port..targetPort` is these and all between

A rule that no word can say is written by hand and handed in, by the name of its field, `spec.ports` for a field of a
part: it applies at the field's line, after the line's other rules, to the field's value; or to the whole part that has
the field (`OfWhole`), whether the field is there or not. Every type is compiled on first use.

The order of a create is upstream's: decode, `default`, `drop_disabled_fields`, `prepare_create`, `validate`. Of an
update: decode, `default`, `drop_disabled_fields`, `prepare_update`, `validate_update`. A write through `/status` runs
`prepare_status` and `validate_status` instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache, cached_property, partial
from typing import Any, ClassVar

from tonnage.clock import Clock, SystemClock
from tonnage.documents.schema import (
    CrossFieldRule,
    Field,
    FieldRule,
    ListOf,
    MapOf,
    Scalar,
    SchemaError,
    Struct,
    Type,
    schema_of_resource,
    type_named,
    value_in,
)
from tonnage.gates import Gates
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, dig, same
from tonnage.objects.field_errors import Errors, FieldError, forbidden, invalid, required
from tonnage.objects.resources import Resource
from tonnage.quantity import Quantity


class Generation(Enum):
    NONE = "never set"
    COUNTED = "1 at creation, one more with every change of spec"
    LATE = "absent at creation, counted from the first change of spec on"


class Strategy:
    """The rules of one kind. The base class is right for a kind without rules."""

    gated: ClassVar[Mapping[str, str]] = {}
    """Fields of spec -> the gate without which they are dropped, unless the old object has them."""
    new_status: ClassVar[Doc | None] = None
    """The status of a new object; None if a client may set it, or it is empty."""
    name_rule: ClassVar[names.NameRule] = staticmethod(names.dns_subdomain)
    """The errors of a name, as sentences; empty if it is legal."""
    generation: ClassVar[Generation] = Generation.NONE
    unconditional_update: ClassVar[bool] = True
    """True if a PUT may come without a resourceVersion."""
    create_on_update: ClassVar[bool] = False
    """True if a PUT to a missing object creates it. (Leases and Events, as upstream.)"""
    propagates: ClassVar[bool] = True
    """True if a deletion may ask to orphan dependents, or to wait for them."""
    are_finalizers_qualified: ClassVar[bool] = True
    """True if finalizers must have a domain and a slash: for all kinds but definitions and custom ones."""
    default_propagation: ClassVar[str] = ""
    """The propagation policy of a DELETE that states none: empty deletes dependents in the background."""
    by_hand: ClassVar[Mapping[str, rules.Rule]] = {}
    """Rules of fields that no line can say: they apply at the field's line, after the line's own."""
    selectable: ClassVar[tuple[str, ...]] = ()
    """Field selectors beside metadata.name and metadata.namespace, named by the path of their field."""
    selected_at: ClassVar[Mapping[str, str]] = {}
    """Field selectors that read another path than their name."""
    stands_in: ClassVar[dict[str, str]] = {}
    """Field selectors that read another selector's field if their own is empty."""

    def __init__(self, resource: Resource, gates: Gates, clock: Clock | None = None) -> None:
        self.resource = resource
        self.gates = gates
        self.clock = clock or SystemClock()

    @cached_property
    def declared(self) -> TypeRules:
        """The rules in the lines of this kind."""
        return TypeRules(schema_of_resource(self.resource), **self.by_hand)

    def default(self, doc: Doc) -> None:
        """Fill in, in place, the defaults that upstream sets whenever it decodes this kind."""
        complete(schema_of_resource(self.resource.stored), doc)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        """Drop the fields whose gate is closed, unless the old object has them; `old` is empty at creation."""
        for field, gate in self.gated.items():
            if not self.gates.enabled(gate) and field not in old.get("spec", {}):
                new.get("spec", {}).pop(field, None)

    def prepare_create(self, doc: Doc) -> None:
        """Reset the fields that a client may not set at creation."""
        if self.new_status is not None:
            doc["status"] = copy(self.new_status)
        elif "status" in self.resource.subresources:
            doc.pop("status", None)

    def validate(self, doc: Doc) -> Errors:
        """The errors of a new object, metadata apart (the create verb has validated it)."""
        return self.declared(doc, "")

    def prepare_update(self, new: Doc, old: Doc) -> None:
        """Take from `old` the fields that a plain update may not change."""
        if "status" in self.resource.subresources:
            keep(new, old, "status")

    def validate_update(self, new: Doc, old: Doc, /) -> Errors:
        """The errors of a change; by default the new object's errors, and changed immutable fields."""
        return self.validate(new) + self.validate_immutable(new, old)

    def validate_immutable(self, new: Doc, old: Doc) -> Errors:
        errors: Errors = []
        for path, told in self.declared.immutable.items():
            now, before = (dig(each, *path.split(".")) for each in (new, old))
            errors += [forbidden(path, told)] if told and not same(now, before) else []
            errors += [] if told else rules.immutable(path, now, before)
        return errors

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """True if this update increments metadata.generation."""
        return not same(new.get("spec"), old.get("spec"))

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Only status and metadata are written here: spec and all other fields stay as they were."""
        for field in new.keys() | old.keys():
            if field not in ("apiVersion", "kind", "metadata", "status"):
                keep(new, old, field)
        new.setdefault("status", {})

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """The errors of a status that is written through `/status`."""
        return []

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """Texts for the `Warning` header of an accepted write."""
        return []

    def grace_period_s(self, doc: Doc, asked_s: int | None) -> int | None:
        """How long a deleted object stays, marked; None for a kind without graceful deletion."""
        return None

    def holds_back_deletion(self, doc: Doc) -> bool:
        """True if a deleted object must stay, finalizers and grace apart. (A namespace is emptied first.)"""
        return False

    def prepare_deletion(self, doc: Doc) -> None:
        """Record on a marked object, in place, that it is being deleted."""


def complete(struct: Struct, doc: Doc) -> None:
    """Fill in, in place, what the lines of a type ask for by `fill` and `round`, in all its parts."""
    for step in _asked(struct):
        step(doc)


@cache
def _asked(struct: Struct) -> list[Callable[[Doc], None]]:
    """A step for every line that fills in or rounds a field, or that has such lines below."""
    asked: list[Callable[[Doc], None]] = []
    for name in ("", *struct.fields):
        field = struct.fields.get(name)
        item = field.type.item if field is not None and isinstance(field.type, ListOf) else field and field.type
        below = item if isinstance(item, Struct) and _asked(item) else None
        if field is not None and (field.fill is not None or field.rounds or below is not None):
            asked.append(partial(_complete_field, field, below))
        filling = (rule for rule in struct.cross_rules.get(name, ()) if rule.rule.word == "fill")
        asked += [partial(_fill_if, rule, value_in(struct.type_at(rule.field), rule.rule.argument)) for rule in filling]
    return asked


def _complete_field(field: Field, below: Struct | None, doc: Doc) -> None:
    part = doc.get(field.name)
    if part is None:
        if field.fill is None:
            return
        part = doc[field.name] = copy(field.fill)
    if field.rounds:
        for key, amount in part.items():
            part[key] = str(Quantity.of(amount).round_up_to_milli())
    elif below is not None:
        for item in part if isinstance(part, list) else (part,):
            complete(below, item)


def _fill_if(rule: CrossFieldRule, value: Any, doc: Doc) -> None:
    if rule.applies(doc):
        *parents, name = rule.field.split(".")
        for parent in parents:
            doc = doc.setdefault(parent, {})
        if name not in doc or any(condition.field == rule.field for condition in rule.conditions):
            doc[name] = copy(value)


def fill(doc: Doc, defaults: Doc) -> None:
    """Set missing fields to their defaults, in place."""
    for field, value in defaults.items():
        doc.setdefault(field, copy(value))


def keep(new: Doc, old: Doc, field: str) -> None:
    """Give a top-level field of `new` its value in `old`, absence included."""
    if field in old:
        new[field] = copy(old[field])
    else:
        new.pop(field, None)


def set_condition(doc: Doc, condition: Doc, *, now: str) -> None:
    """Replace the condition of this type, as UpdatePodCondition; its time becomes `now` if its status changes."""
    conditions = doc.setdefault("status", {}).setdefault("conditions", [])
    for idx, was in enumerate(conditions):
        if was.get("type") == condition["type"]:
            is_same = was.get("status") == condition["status"]
            since = was.get("lastTransitionTime") if is_same else now
            conditions[idx] = {**condition, "lastTransitionTime": since} if since else dict(condition)
            return
    conditions.append({**condition, "lastTransitionTime": now})


def has_condition(doc: Doc, kind: str, status: str = "True") -> bool:
    conditions = doc.get("status", {}).get("conditions", ())
    return any(item.get("type") == kind and item.get("status") == status for item in conditions)


# -- the rules in the lines of a schema -------------------------------------------------------------------------------

FORMATS: dict[str, rules.ListRule] = {
    "absolutePath": rules.must_be(lambda path: path.startswith("/"), "must be an absolute path"),
    "atMost100Percent": rules.at_most_all,
    "configKey": rules.named(names.config_key),
    "countOrPercent": rules.count_or_percent,
    "csiDriverName": rules.named(names.csi_driver_name),
    "descendingPath": rules.descending_path,
    "dns1035Label": rules.dns1035_label,
    "dnsLabel": rules.named(names.dns_label),
    "dnsSubdomain": rules.named(names.dns_subdomain),
    "dnsSubdomainDot": lambda name, path: FORMATS["dnsSubdomain"](name.removesuffix("."), path),
    "dnsSubdomainPrefix": rules.named(lambda name: names.name_prefix(name, names.dns_subdomain)),
    "envVarName": rules.named(names.env_var_name),
    "fileMode": rules.file_mode,
    "ip": rules.validate_ip,
    "labelKey": rules.validate_label_name,
    "labelValue": rules.named(names.label_value),
    "labels": lambda labels, path: [*rules.validate_labels(labels, path)],
    "mixedCaseLabel": rules.mixed_case_label,
    "noBacksteps": rules.no_backsteps,
    "pathSegment": rules.named(names.path_segment),
    "portNumber": rules.named(names.port_number),
    "portNumberOrName": rules.port_number_or_name,
    "provisioner": lambda name, path: rules.sentences(path, name.lower(), names.qualified_name(name.lower())),
    "qualifiedName": rules.named(names.qualified_name),
    "noSlash": rules.must_be(lambda value: "/" not in value, "must not contain '/'"),
    "tokenLifetime": rules.token_lifetime,
    "unpadded": rules.must_be(lambda value: value == value.strip(), "must not be padded with whitespace"),
    "unreservedPath": lambda value, path: [*rules.unreserved_path(value, path)],
}


class TypeRules:
    """A rule for values of one type: those of its lines, and those that are written by hand for some fields."""

    def __init__(self, of: str | Struct, **by_hand: rules.Rule) -> None:
        self._of = of
        self._by_hand = by_hand
        self._tables: dict[tuple[str, ...], rules.Rules] = {}

    def __call__(self, value: Doc, path: str, *fields: str) -> Errors:
        """The errors of a value; with `fields`, only those of these lines. `a..d` is the lines from `a` to `d`."""
        table = self._tables.get(fields)
        if table is None:
            named = (name for field in fields for name in self._between(*field.split("..")))
            table = self._tables[fields] = {name: self.by_field[name] for name in (named if fields else self.by_field)}
        return rules.check(value, path, table)

    def _between(self, first: str, last: str = "") -> list[str]:
        fields = list(self.struct.fields)
        span = fields[fields.index(first) : fields.index(last or first) + 1]
        return [line for line in self.by_field if line.partition("+")[0] in span]

    @cached_property
    def struct(self) -> Struct:
        return type_named(self._of) if isinstance(self._of, str) else self._of

    @cached_property
    def by_field(self) -> rules.Rules:
        """Line -> its rule, for the lines that have one. `a+` are the rules of several fields behind the line of `a`.

        Raises SchemaError.
        """
        made: dict[str, rules.Rule | None] = {}
        for name in ("", *self.struct.fields):
            hand = self._hands.get(name, {}).get("")
            if name and (self.struct.fields[name].rules or name in self._hands):
                made[name] = self._rule(self.struct.fields[name])
            judging = (rule for rule in self.struct.cross_rules.get(name, ()) if rule.rule.word != "fill")
            crossing = (_crossing(rule, self.struct) for rule in judging)
            made |= {f"{name}+{idx}": rule for idx, rule in enumerate(crossing)}
            if isinstance(hand, rules.OfWhole):
                made[f"{name}+"] = hand
        return {name: rule for name, rule in made.items() if rule is not None}

    @cached_property
    def _hands(self) -> dict[str, dict[str, rules.Rule]]:
        """Field -> the rules by hand for it (its own has an empty name) and for fields below it."""
        hands: dict[str, dict[str, rules.Rule]] = {}
        for path, rule in self._by_hand.items():
            name, _, below = path.partition(".")
            hands.setdefault(name, {})[below] = rule
        return hands

    def _rule(self, field: Field) -> rules.Rule | None:
        item = field.type.item if isinstance(field.type, ListOf) else field.type
        words = {rule.word: rule for rule in field.rules}
        below = dict(self._hands.get(field.name, {}))
        own = below.pop("", None)
        try:
            found = [_made(rule, item, below) for rule in field.rules if rule.word in _OF_VALUES]
            most = int(words["maxItems"].argument) if "maxItems" in words else None
        except (KeyError, TypeError, ValueError) as exc:
            raise SchemaError(f"{self.struct.name}.{field.name} has a rule that does not suit its type: {exc}") from exc
        if own is not None and not isinstance(own, rules.OfWhole):
            found.append(own)
        elif isinstance(field.type, ListOf) and (found or words.keys() & {"unique", "maxItems"}):
            found = [_of_items(found, "unique" in words, most)]
        judge = rules.if_set(_all_of(found)) if "optional" in words else _all_of(found)
        if "nonempty" in words:
            return rules.needed(judge, words["nonempty"].told).rule
        if "required" in words:
            need = _given if isinstance(field.type, Struct) else rules.needed
            allowed = " ".join(f'"{word}"' for word in words["enum"].argument.split(",")) if "enum" in words else ""
            return need(judge, words["required"].told.replace("{enum}", f"[{allowed}]"))
        if "strict" in words:
            return rules.Asked(judge, _ZEROS[field.type.name] if isinstance(field.type, Scalar) else {})
        return judge if found else None

    @cached_property
    def immutable(self) -> dict[str, str]:
        """The fields that never change, as dotted paths, with the sentence of each line."""
        return dict(_immutable(self.struct))


def _immutable(struct: Struct) -> Iterator[tuple[str, str]]:
    for field in struct.fields.values():
        words = {rule.word: rule.told for rule in field.rules}
        if "immutable" in words:
            yield field.name, words["immutable"]
        elif "valid" in words and isinstance(field.type, Struct):
            yield from ((f"{field.name}.{below}", told) for below, told in _immutable(field.type))


def _given(rule: rules.Rule, told: str) -> rules.Asked:
    """A struct that must be there; it may be empty."""
    return rules.Asked(lambda value, path: [required(path, told)] if value is None else rule(value, path), None)


def _all_of(found: list[rules.Rule]) -> rules.Rule:
    if len(found) == 1:
        return found[0]
    return lambda value, path: [error for rule in found for error in rule(value, path)]


def _of_items(found: list[rules.Rule], is_unique: bool, most: int | None) -> rules.Rule:
    if not is_unique:
        return rules.each(_all_of(found), at_most=most)
    return lambda values, path: rules.each(_all_of([*found, rules.unique()]), at_most=most)(values, path)


def _crossing(rule: CrossFieldRule, struct: Struct) -> rules.OfWhole:
    steps, (word, argument, told), kind = rule.field.split("."), rule.rule, struct.type_at(rule.field)
    made = _made(rule.rule, kind, {}) if word in _OF_VALUES else None
    zero = "" if isinstance(kind, Scalar) and kind.name == "string" else None

    def judge(doc: Doc, path: str) -> Iterable[FieldError]:
        if not rule.applies(doc):
            return []
        at = path if rule.field == "." else f"{path}.{rule.field}" if path else rule.field
        value = dig(doc, *steps)
        value = zero if value is None else value
        if made is not None:
            return [] if value is None else made(value, at)
        sentence, shown = (text.format_map(defaultdict(str, doc)) if "{" in text else text for text in (told, argument))
        if word == "invalid":
            return [invalid(at, shown if argument else value, sentence)]
        return [(required if word == "required" else forbidden)(at, sentence)]

    return rules.OfWhole(judge)


def _made(rule: FieldRule, kind: Type, by_hand: Mapping[str, rules.Rule]) -> rules.Rule:
    """The rule for a single value. Raises KeyError, TypeError or ValueError if it does not suit the type."""
    if rule.word == "valid" and isinstance(kind, Struct):
        of_type = TypeRules(kind, **by_hand)
        if rule.argument != "required":
            return of_type
        return lambda value, path: [error for error in of_type(value, path) if error.reason == "FieldValueRequired"]
    kinds, make = _OF_VALUES[rule.word]
    if _kind_of(kind) in kinds:
        made, told = make(rule.argument, _kind_of(kind)), rule.told
        return (lambda value, path: [invalid(path, value, told)] if made(value, path) else []) if told else made
    raise TypeError(rule.word)


def _kind_of(kind: Type) -> str:
    return kind.name if isinstance(kind, Scalar) else "map" if isinstance(kind, MapOf) else ""


def _minimum(argument: str, kind: str) -> rules.ListRule:
    least = int(argument)
    if kind == "Quantity":
        return partial(rules.nonnegative_quantity, least=least)
    return rules.must_be(lambda value: value >= least, f"must be greater than or equal to {least}")


_ZEROS = {"string": "", "int32": 0, "int64": 0, "IntOrString": 0}
_FORMATTED = ("string", "int32", "int64", "IntOrString", "map")
# Words about single values: the scalars they are for, and (argument, kind of value) -> the rule.
_OF_VALUES: dict[str, tuple[Container[str], Callable[[str, str], rules.Rule]]] = {
    "enum": (("string",), lambda argument, _: rules.one_of(*argument.split(","))),
    "format": (_FORMATTED, lambda argument, _: _all_of([FORMATS[name] for name in argument.split(",")])),
    "maxBytes": (("string",), lambda argument, _: rules.at_most_bytes(int(argument))),
    "minimum": (("int32", "int64", "Quantity"), _minimum),
    "range": (("int32", "int64"), lambda argument, _: rules.within(*map(int, argument.split("..")))),
    "valid": ((), _minimum),
}
