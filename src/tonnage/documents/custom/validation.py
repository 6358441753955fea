"""What a schema demands of a document: types, bounds, patterns, choices, and nothing twice in lists that are sets.

Upstream has three passes: values against the schema (`Rules`), metadata of embedded resources (`embedded_errors`), and
lists of type set and map (`list_errors`). They never raise; what is wrong comes back as field errors. Order and wording
of the first are those of upstream's validator (kube-openapi): `spec.size in body must be of type integer: "string"`.
Errors of `anyOf` and `oneOf` are those of the alternative that came furthest, which is counted as upstream counts it
(`SchemaOutcome.matches`), and stand at no field: `<nil>`.

An update may leave what was wrong before and did not change, so that a schema can be tightened while objects exist
(upstream calls this ratcheting).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tonnage.documents.admit import Findings, Malformed, Path, compile_check
from tonnage.documents.custom import scalar_rules
from tonnage.documents.custom.formats import format_check
from tonnage.documents.custom.scalar_rules import ABSENT, NOWHERE, Check, SchemaOutcome, at
from tonnage.documents.custom.structural import Structural, step
from tonnage.documents.patches.json_patch import equal
from tonnage.documents.schema import schema_of
from tonnage.documents.validation.metadata import validate_object_meta
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, encode
from tonnage.objects.field_errors import Errors, duplicate, go_value, invalid, required, too_many

Checks = dict[type, tuple[int, tuple[Check, ...]]]
"""By the type of a value: what upstream counts as looked at in any case, and what there is to look at."""
_COMBINING = ("allOf", "anyOf", "oneOf", "not")


class Rules:
    """The rules of one schema, compiled when a value first meets them: few objects have all that a schema allows."""

    __slots__ = ("_checks", "_schema")

    def __init__(self, schema: Doc) -> None:
        self._schema = schema
        self._checks: Checks | None = None

    def errors(self, value: Any, old: Any = ABSENT, base: str = "") -> Errors:
        """What is wrong with a value, paths told from `base`. With an old value, only where it changed."""
        outcome = SchemaOutcome([scalar_rules.MAX_TRIES])
        try:
            self.check(value, old, "", base, outcome)
        except scalar_rules.TooManyTries:
            told = "there are too many alternatives and patterns to try for so many values"
            return [*outcome.errors, invalid(base or NOWHERE, "", told)]
        return outcome.errors

    def check(self, value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        if old is not ABSENT and value == old and equal(value, old):  # Python's own equality is fast, and too generous
            return
        matches, checks = (self._checks or self._compiled())[type(value)]
        outcome.matches += matches
        for check in checks:
            check(value, old, path, base, outcome)

    def _compiled(self) -> Checks:
        schema = self._schema
        types = scalar_rules.types_of(schema)
        word = scalar_rules.format_of(schema, types)
        of_all: list[Check] = [scalar_rules.type_check(types, word)] if types else []
        if any(keyword in schema for keyword in _COMBINING):
            of_all.append(_combination_check(schema))
        choices: list[Check] = [scalar_rules.enum_check(schema["enum"])] if schema.get("enum") else []
        of_text: list[Check] = []
        if any(keyword in schema for keyword in ("maxLength", "minLength", "pattern")):
            of_text.append(scalar_rules.string_check(schema))
        if (matches_format := format_check(word)) is not None:
            of_text.append(scalar_rules.text_format_check(schema["format"], matches_format))
        of_null = scalar_rules.null_check(types, bool(schema.get("nullable")))
        bounds = "integer" in types or any(word in schema for word in ("format", "multipleOf", "minimum", "maximum"))
        of_number: list[Check] = [scalar_rules.number_check(schema, types)] if bounds else []
        self._checks = {
            type(None): (0, (of_null, *choices)),
            bool: (4, (*of_all, *choices)),
            int: (6, (*of_all, *of_number, *choices)),
            float: (6, (*of_all, *of_number, *choices)),
            str: (5, (*of_all, *of_text, *choices)),
            list: (6, (*of_all, _list_check(schema), *choices)),
            dict: (5, (*of_all, *choices, _object_check(schema))),
        }
        return self._checks


# -- lists and objects ------------------------------------------------------------------------------------------------


def _list_check(schema: Doc) -> Check:
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    items = Rules(schema["items"]) if isinstance(schema.get("items"), dict) else None
    keys = (
        tuple(schema.get("x-kubernetes-list-map-keys") or ()) if schema.get("x-kubernetes-list-type") == "map" else ()
    )

    def check(value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        if items is not None:
            # Only the items of a list of type map can be told apart.
            earlier = {_key_of(item, keys): item for item in old} if keys and isinstance(old, list) else {}
            for index, item in enumerate(value):
                before = earlier.get(_key_of(item, keys), ABSENT) if earlier else ABSENT
                items.check(item, before, f"{path}[{index}]", base, outcome)
        if fewest is not None and len(value) < fewest:
            told = f"{path} in body should have at least {fewest} items"
            outcome.errors.append(invalid(at(base, path), len(value), told))
        if most is not None and len(value) > most:
            outcome.errors.append(too_many(at(base, path), len(value), most))

    return check


def _key_of(item: Any, keys: tuple[str, ...]) -> str:
    return go_value([item.get(key) for key in keys]) if isinstance(item, dict) else ""


def _object_check(schema: Doc) -> Check:
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    properties: Doc = schema.get("properties") or {}
    met: dict[str, Rules] = {}
    additional = schema.get("additionalProperties")
    others = Rules(additional) if isinstance(additional, dict) else None
    needed: list[str] = schema.get("required") or []

    def check(value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        before = old if isinstance(old, dict) else {}
        if fewest is not None and len(value) < fewest:
            told = f"{path} in body should have at least {fewest} properties"
            outcome.errors.append(invalid(at(base, path), len(value), told))
        if most is not None and len(value) > most:
            outcome.errors.append(too_many(at(base, path), len(value), most))
        for name, item in value.items():
            rules = met.get(name, others)
            if rules is others and name in properties:
                rules = met[name] = Rules(properties[name])
            if rules is not None:
                told = step(name)
                where = f"{path}.{told}" if path or name not in properties else told
                rules.check(item, before.get(name, ABSENT), where, base, outcome)
        for name in needed:
            if name not in value:
                outcome.errors.append(required(at(base, f"{path}.{step(name)}")))

    return check


# -- allOf, anyOf, oneOf, not -----------------------------------------------------------------------------------------


def _combination_check(schema: Doc) -> Check:
    any_of, one_of, all_of = ([Rules(each) for each in schema.get(word) or ()] for word in ("anyOf", "oneOf", "allOf"))
    negated = Rules(schema["not"]) if isinstance(schema.get("not"), dict) else None

    def check(value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        def tried(rules: Rules) -> SchemaOutcome:
            outcome.tries()
            found = SchemaOutcome(outcome.work)
            rules.check(value, old, path, base, found)
            return found

        def refuse(told: str) -> None:
            outcome.errors.append(invalid(base or NOWHERE, "", f"{go_value(path)} must {told}"))

        if any_of:
            _alternatives(map(tried, any_of), outcome, refuse, is_one=False)
        if one_of:
            _alternatives(map(tried, one_of), outcome, refuse, is_one=True)
        if all_of:
            outcomes = [tried(rules) for rules in all_of]
            for found in outcomes:
                outcome.merge(found)
            if wrong := sum(1 for found in outcomes if found.errors):
                none = ". None validated" if wrong == len(outcomes) else ""
                refuse(f"validate all the schemas (allOf){none}")
        if negated is not None and not tried(negated).errors:
            refuse("not validate the schema (not)")

    return check


def _alternatives(
    tries: Iterable[SchemaOutcome], outcome: SchemaOutcome, refuse: Callable[[str], None], *, is_one: bool
) -> None:
    """`oneOf`, or `anyOf`, whose tries end with the first that is valid."""
    best: SchemaOutcome | None = None
    valid: list[SchemaOutcome] = []
    for found in tries:
        if not found.errors:
            valid.append(found)
            if not is_one:
                break
        elif best is None or found.matches > best.matches:
            best = found
    if len(valid) == 1:
        outcome.merge(valid[0])
        return
    told = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    refuse(f"validate one and only one schema (oneOf). {told}" if is_one else "validate at least one schema (anyOf)")
    if not valid and best is not None:
        outcome.merge(best)


def value_errors(schema: Structural, value: Any, path: str) -> Errors:
    """What is wrong with one value, such as a default, that stands at a path of a definition."""
    found = embedded_errors(schema, value, path)
    return found or Rules(schema.source).errors(value, ABSENT, path)


def _child(path: str, name: str) -> str:
    return f"{path}.{step(name)}" if path else step(name)


# -- embedded resources -----------------------------------------------------------------------------------------------


def embedded_errors(schema: Structural, value: Any, path: str) -> Errors:
    """What is wrong with resources inside a value."""
    return [
        error
        for node, item, where in _described(schema, value, path)
        if node.is_embedded and isinstance(item, dict)
        for error in resource_errors(item, where)
    ]


def _described(schema: Structural, value: Any, path: str) -> Iterator[tuple[Structural, Any, str]]:
    """Every map and list of a value that its schema describes, with that schema and its path, the outermost first."""
    pending: list[tuple[Structural | None, Any, str]] = [(schema, value, path)]
    while pending:
        node, value, path = pending.pop()
        if node is None or not isinstance(value, (dict, list)):
            continue
        yield node, value, path
        if isinstance(value, dict):
            below = [
                (node.field(name), item, _child(path, name) if name in node.properties else f"{path}[{step(name)}]")
                for name, item in value.items()
                if isinstance(item, (dict, list))
            ]
        else:
            below = [(node.items, item, f"{path}[{index}]") for index, item in enumerate(value)]
        pending += reversed(below)


def resource_errors(value: Doc, path: str) -> Errors:
    """What is wrong with apiVersion, kind and metadata of a resource inside a document."""
    errors: Errors = []
    for field in ("apiVersion", "kind"):
        where = _child(path, field)
        if field not in value:
            errors.append(required(where))
        elif not isinstance(value[field], str):
            errors.append(invalid(where, value[field], "must be a string"))
        elif not value[field]:
            errors.append(invalid(where, "", "must not be empty"))
        elif field == "apiVersion" and value[field].count("/") > 1:
            errors.append(invalid(where, value[field], f"unexpected GroupVersion string: {value[field]}"))
        elif field == "kind" and (wrong := names.dns1035_label(value[field].lower())):
            told = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            errors.append(invalid(where, value[field], told))
    if value.get("metadata") is not None:
        errors += _metadata_errors(value["metadata"], _child(path, "metadata"))
    return errors


def _metadata_errors(metadata: Any, path: str) -> Errors:
    """By the rules of all kinds; only the name is freer, and may be left out."""
    try:
        readable = copy(metadata)
        compile_check(schema_of("meta", "v1", "ObjectMeta"))(readable, Path(), "ObjectMeta", Findings())
    except Malformed as exc:
        return [invalid(path, metadata, exc.message)]
    readable.setdefault("name", "fakename")  # to avoid the error that there is none
    found = validate_object_meta(
        {"metadata": readable},
        namespaced=bool(readable.get("namespace")),
        name_rule=names.path_segment,
        are_finalizers_qualified=False,
    )
    return [
        type(error)(error.reason, path + error.field.removeprefix("metadata"), error.value, error.detail)
        for error in found
    ]


# -- lists that are sets or maps --------------------------------------------------------------------------------------


def list_errors(schema: Structural, value: Any, path: str) -> Errors:
    """Items that occur a second time in lists of type set, or whose keys do in lists of type map."""
    errors: Errors = []
    for node, items, where in _described(schema, value, path):
        if isinstance(items, list) and node.list_type == "set":
            errors += [duplicate(f"{where}[{index}]", items[index]) for index in _repeated(items)]
        elif isinstance(items, list) and node.list_type == "map":
            errors += _repeated_keys(items, node.list_map_keys, where)
    return errors


def _repeated_keys(items: list[Any], keys: tuple[str, ...], path: str) -> Errors:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            return [invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    named = [{key: item[key] for key in keys if key in item} if item is not None else {} for item in items]
    return [duplicate(f"{path}[{index}]", named[index]) for index in _repeated(named)]


def _repeated(items: list[Any]) -> list[int]:
    """Where items come for the second time; a third is not told."""
    times: dict[bytes, int] = {}
    found: list[int] = []
    for index, item in enumerate(items):
        key = encode(_sorted(item))
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            found.append(index)
    return found


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
