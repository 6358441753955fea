"""The rules that stand in the fields' lines of the `.schema` files, as rules that can be called.

    _PORT = TypeRules("core.ServicePort")
    errors += _PORT(port, f"{path}[{idx}]")             # all lines, in their order
    errors += _PORT(port, f"{path}[{idx}]", "protocol")  # this line only; `port..targetPort` is these and all between

A rule that no word can say is written by hand and handed in, by the name of its field: it applies at the field's line,
after the line's other rules. Every type is compiled on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import cached_property, partial

from tonnage.documents.schema import Field, FieldRule, ListOf, Scalar, SchemaError, Struct, Type, type_named
from tonnage.documents.validation.resources import validate_nonnegative_quantity
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, invalid, required

FORMATS: dict[str, rules.ListRule] = {
    "atMost100Percent": rules.at_most_all,
    "configKey": rules.named(names.config_key),
    "countOrPercent": rules.count_or_percent,
    "csiDriverName": rules.named(names.csi_driver_name),
    "descendingPath": rules.descending_path,
    "dnsLabel": rules.named(names.dns_label),
    "dnsSubdomain": rules.named(names.dns_subdomain),
    "dnsSubdomainPrefix": rules.named(lambda name: names.name_prefix(name, names.dns_subdomain)),
    "envVarName": rules.named(names.env_var_name),
    "fileMode": rules.file_mode,
    "ip": rules.validate_ip,
    "noBacksteps": rules.no_backsteps,
    "pathSegment": rules.named(names.path_segment),
    "portNumber": rules.named(names.port_number),
    "portNumberOrName": rules.port_number_or_name,
    "qualifiedName": rules.named(names.qualified_name),
    "tokenLifetime": rules.token_lifetime,
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
        lines = list(self.by_field)
        return lines[lines.index(first) : lines.index(last or first) + 1]

    @cached_property
    def struct(self) -> Struct:
        return type_named(self._of) if isinstance(self._of, str) else self._of

    @cached_property
    def by_field(self) -> rules.Rules:
        """Field -> its rule, for the fields that have one. Raises SchemaError."""
        fields = self.struct.fields.values()
        made = ((field.name, self._rule(field)) for field in fields if field.rules or field.name in self._by_hand)
        return {name: rule for name, rule in made if rule is not None}

    def _rule(self, field: Field) -> rules.Rule | None:
        item = field.type.item if isinstance(field.type, ListOf) else field.type
        words = {rule.word: rule for rule in field.rules}
        try:
            found = [_made(rule, item) for rule in field.rules if rule.word in _OF_VALUES]
            most = int(words["maxItems"].argument) if "maxItems" in words else None
        except (KeyError, TypeError, ValueError) as exc:
            raise SchemaError(f"{self.struct.name}.{field.name} has a rule that does not suit its type: {exc}") from exc
        if field.name in self._by_hand:
            found.append(self._by_hand[field.name])
        elif isinstance(field.type, ListOf) and (found or words.keys() & {"unique", "maxItems"}):
            found = [_of_items(found, "unique" in words, most)]
        judge = rules.if_set(_all_of(found)) if "optional" in words else _all_of(found)
        if "nonempty" in words:
            return rules.needed(judge, words["nonempty"].told).rule
        if "required" in words:
            need = _given if isinstance(field.type, Struct) else rules.needed
            return need(judge, words["required"].told)
        if "strict" in words:
            return rules.Asked(judge, _ZEROS[field.type.name] if isinstance(field.type, Scalar) else {})
        return judge if found else None

    @cached_property
    def immutable(self) -> tuple[str, ...]:
        """The fields that never change, as dotted paths."""
        return tuple(_immutable(self.struct))


def _immutable(struct: Struct) -> Iterator[str]:
    for field in struct.fields.values():
        words = {rule.word for rule in field.rules}
        if "immutable" in words:
            yield field.name
        elif "valid" in words and isinstance(field.type, Struct):
            yield from (f"{field.name}.{below}" for below in _immutable(field.type))


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


def _made(rule: FieldRule, kind: Type) -> rules.Rule:
    """The rule for a single value. Raises KeyError, TypeError or ValueError if it does not suit the type."""
    if rule.word == "valid":
        if isinstance(kind, Struct):
            return TypeRules(kind)
    elif isinstance(kind, Scalar) and kind.name in _OF_VALUES[rule.word]:
        made = _MAKERS[rule.word](rule.argument, kind.name)
        told = rule.told
        return (lambda value, path: [invalid(path, value, told)] if made(value, path) else []) if told else made
    raise TypeError(rule.word)


def _minimum(argument: str, kind: str) -> rules.ListRule:
    least = int(argument)
    if kind == "Quantity":
        return partial(validate_nonnegative_quantity, least=least)
    return rules.must_be(lambda value: value >= least, f"must be greater than or equal to {least}")


_ZEROS = {"string": "", "int32": 0, "int64": 0, "IntOrString": 0}
# Words about single values, and the scalars they are for.
_OF_VALUES: dict[str, Container[str]] = {
    "enum": ("string",),
    "format": ("string", "int32", "int64", "IntOrString"),
    "maxBytes": ("string",),
    "minimum": ("int32", "int64", "Quantity"),
    "range": ("int32", "int64"),
    "valid": (),
}
_MAKERS: dict[str, Callable[[str, str], rules.Rule]] = {
    "enum": lambda argument, _: rules.one_of(*argument.split(",")),
    "format": lambda argument, _: _all_of([FORMATS[name] for name in argument.split(",")]),
    "maxBytes": lambda argument, _: rules.at_most_bytes(int(argument)),
    "minimum": _minimum,
    "range": lambda argument, _: rules.within(*map(int, argument.split(".."))),
}
