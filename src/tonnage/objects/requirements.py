"""Requirements on labels: one, a matcher for many, and the rules that match nodes and keep pods off them.

A watch may have ten thousand requirements for every object that changes. `LabelMatcher` indexes them, and its cost
follows the object's labels or the required keys, whichever are fewer.

Nodes are matched by node selectors, a pod's required and preferred affinity, and allowed topologies. A `NodeSelector`
matches if any term matches, a term if all of its requirements hold. As upstream, an absent selector requires nothing, a
selector without terms matches no node, an invalid term matches no node, and `match_fields` knows `metadata.name` alone.
Taints keep pods off a node unless the pods tolerate them: mirrors Toleration.ToleratesTaint, with `Lt` and `Gt` off.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tonnage.errors import BadRequest
from tonnage.objects import names
from tonnage.objects.field_errors import Errors, go_value, invalid
from tonnage.objects.meta import Record, Time
from tonnage.quantity import whole_number

_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1
_is_integer = re.compile(r"[+-]?[0-9]+").fullmatch
_FEW_VALUES: Final = 8
"""Up to this many values a tuple is searched as fast as a set, and is smaller."""
EMPTY_SET = "for 'in', 'notin' operators, values set can't be empty"
NOT_EMPTY = "values set must be empty for exists and does not exist"
NOT_ONE = "for 'Gt', 'Lt' operators, exactly one value is required"
NOT_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"


class InvalidSelector(BadRequest):
    """A selector is invalid: 400 on the wire, in upstream's words."""


class Requirement(Record, dict=True, gc=True):
    """One label against `values`: In, NotIn, Exists, DoesNotExist; in node selectors and in text also Gt and Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """True if a label's value, None if the label is missing, meets it. Mirrors labels.Requirement.Matches.

        NotIn holds for a missing label. Gt and Lt compare integers and never hold for other texts. Raises
        InvalidSelector for an unknown operator, or values that do not suit it.
        """
        match self.operator:
            case "In" if self.values:
                return value in (self.values if len(self.values) <= _FEW_VALUES else self._many_values)
            case "NotIn" if self.values:
                return value not in (self.values if len(self.values) <= _FEW_VALUES else self._many_values)
            case "Exists" if not self.values:
                return value is not None
            case "DoesNotExist" if not self.values:
                return value is None
            case "Gt" | "Lt" if len(self.values) == 1 and (bound := integer(self.values[0])) is not None:
                found = integer(value)
                return found is not None and (found > bound if self.operator == "Gt" else found < bound)
        raise self._invalid()

    @cached_property
    def _many_values(self) -> frozenset[str]:
        return frozenset(self.values)

    def _invalid(self) -> InvalidSelector:
        match self.operator:
            case "In" | "NotIn":
                problem = EMPTY_SET
            case "Exists" | "DoesNotExist":
                problem = NOT_EMPTY
            case "Gt" | "Lt":
                problem = NOT_ONE if len(self.values) != 1 else NOT_INTEGER
            case _:
                return InvalidSelector(f"{go_value(self.operator)} is not a valid label selector operator")
        return InvalidSelector(f"values: Invalid value: {go_value(self.values)}: {problem}")

    def __str__(self) -> str:
        """The text form: `tier in (a,b)`, `!tier`, `size>3`."""
        values = ",".join(sorted(self.values))
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "Gt" | "Lt":
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{values}"
            case _:
                return f"{self.key} {self.operator.lower()} ({values})"


def integer(value: str | None) -> int | None:
    """The text as a 64-bit integer, else None; Python's laxer forms, such as `1_0`, are not accepted."""
    if value is None or not _is_integer(value):
        return None
    number = whole_number(value)
    return number if _MIN_INT64 <= number <= _MAX_INT64 else None


def requirement_errors(requirement: Requirement, path: str = "") -> Errors:
    """The errors of a requirement with a known operator. Mirrors labels.NewRequirement. `path` ends with a dot."""
    key, values = requirement.key, requirement.values
    errors: Errors = []
    if wrong := names.label_key(key):
        errors.append(invalid(f"{path}key", key, "; ".join(wrong)))
    match requirement.operator:
        case "In" | "NotIn" if not values:
            errors.append(invalid(f"{path}values", None, EMPTY_SET))
        case "Exists" | "DoesNotExist" if values:
            errors.append(invalid(f"{path}values", values, NOT_EMPTY))
        case "Gt" | "Lt":
            if len(values) != 1:
                errors.append(invalid(f"{path}values", values or None, NOT_ONE))
            for idx, value in enumerate(values):
                if integer(value) is None:
                    errors.append(invalid(f"{path}values[{idx}]", value, NOT_INTEGER))
    for idx, value in enumerate(values):
        if wrong := names.label_value(value):
            errors.append(invalid(f"{path}values[{idx}][{key}]", value, "; ".join(wrong)))
    return errors


FEW: Final = 16
"""Up to this many requirements are checked one by one."""
_SMALL: Final = 64
_ALL_INTEGERS: Final = (_MIN_INT64, _MAX_INT64)


class PackedTexts(Collection[str]):
    """A set of texts that takes little more memory than the texts: one string, in the order of their hashes."""

    __slots__ = ("_ends", "_hashes", "_text")

    def __init__(self, texts: Iterable[str]) -> None:
        ordered = sorted(set(texts), key=hash)
        self._hashes = array("q", map(hash, ordered))
        self._text = "".join(ordered)
        self._ends = array("I", [0])
        for text in ordered:
            self._ends.append(self._ends[-1] + len(text))

    def __len__(self) -> int:
        return len(self._hashes)

    def __iter__(self) -> Iterator[str]:
        return map(self._at, range(len(self)))

    def __contains__(self, text: object) -> bool:
        return self.position(text) is not None

    def position(self, text: object) -> int | None:
        """The position of a text in the order of iteration; None if it is missing."""
        hashed = hash(text)
        position = bisect_left(self._hashes, hashed)
        while position < len(self._hashes) and self._hashes[position] == hashed:
            if self._at(position) == text:
                return position
            position += 1
        return None

    def _at(self, position: int) -> str:
        return self._text[self._ends[position] : self._ends[position + 1]]


def packed(texts: Collection[str]) -> Collection[str]:
    """A set for membership tests that stays small even with many texts."""
    return PackedTexts(texts) if len(texts) > _SMALL else frozenset(texts)


class LabelMatcher:
    """True or false for labels against many requirements at once. Raises InvalidSelector for an invalid requirement."""

    __slots__ = ("_bounded", "_bounds", "_denied", "_is_never", "_keys", "_limited", "_pairs", "_required", "is_empty")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        allowed: dict[str, set[str]] = {}
        bounds: dict[str, tuple[int, int]] = {}
        denied: set[str] = set()
        required: set[str] = set()
        forbidden: set[str] = set()
        for requirement in requirements:
            requirement.holds(None)  # raises if it is invalid
            key, values = requirement.key, requirement.values
            match requirement.operator:
                case "In":
                    allowed[key] = allowed[key].intersection(values) if key in allowed else set(values)
                case "NotIn":
                    denied.update([f"{key}={value}" for value in values])
                    forbidden.add(key)
                case "DoesNotExist":
                    denied.add(key)
                    forbidden.add(key)
                case "Exists":
                    required.add(key)
                case operator:
                    (low, high), bound = bounds.get(key, _ALL_INTEGERS), integer(values[0]) or 0
                    bounds[key] = (max(low, bound + 1), high) if operator == "Gt" else (low, min(high, bound - 1))
        required |= allowed.keys() | bounds.keys()
        self.is_empty = not required and not forbidden
        self._is_never = not all(allowed.values()) or any(low > high for low, high in bounds.values())
        # Mostly both have the same keys, and then they share one set.
        self._required = packed(required)
        self._keys = self._required if forbidden <= required else packed(required | forbidden)
        self._limited = self._required if len(allowed) == len(required) else packed(allowed)
        self._pairs = packed([f"{key}={value}" for key, values in allowed.items() for value in values])
        self._denied = packed(denied)
        if len(bounds) == len(required) and isinstance(self._required, PackedTexts):
            self._bounded = self._required
        else:
            self._bounded = PackedTexts(bounds)
        self._bounds = array("q", [bound for key in self._bounded if not self._is_never for bound in bounds[key]])

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self._is_never or len(self._required) > len(labels):
            return False
        if len(self._keys) < len(labels):
            labels = {key: labels[key] for key in self._keys if key in labels}
        met = 0
        for key, value in labels.items():
            pair = f"{key}={value}"
            if pair in self._denied or key in self._denied:
                return False
            if key in self._required:
                met += 1
                if key in self._limited and pair not in self._pairs:
                    return False
                if (position := self._bounded.position(key)) is not None:
                    low, high = self._bounds[2 * position : 2 * position + 2]
                    number = integer(value)
                    if number is None or not low <= number <= high:
                        return False
        return met == len(self._required)


NODE_NAME_FIELD = "metadata.name"


class NodeSelectorTerm(Record):
    """All requirements on labels and on fields must hold; a term without requirements matches no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        if not self.match_expressions and not self.match_fields:
            return False
        try:
            return all(
                requirement.holds(labels.get(requirement.key)) for requirement in self.match_expressions
            ) and all(_field_holds(requirement, node_name) for requirement in self.match_fields)
        except InvalidSelector:
            return False


class NodeSelector(Record):
    """Any of the terms must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        return any(term.matches(node_name, labels) for term in self.node_selector_terms)


class PreferredSchedulingTerm(Record):
    """A node that matches gets `weight`, 1 to 100."""

    weight: int
    preference: NodeSelectorTerm


class TopologySelectorLabelRequirement(Record):
    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Record):
    """All requirements must hold; a term without requirements matches no node."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        expressions = self.match_label_expressions
        return bool(expressions) and all(labels.get(expression.key) in expression.values for expression in expressions)


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """A pod's requirements on its node: all labels of its `nodeSelector`, and its required affinity, if any."""

    labels: Mapping[str, str]
    affinity: NodeSelector | None

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        if any(labels.get(key) != value for key, value in self.labels.items()):
            return False
        return self.affinity is None or self.affinity.matches(node_name, labels)


def preference(terms: Iterable[PreferredSchedulingTerm], node_name: str, labels: Mapping[str, str]) -> int:
    """The sum of the weights of the terms that this node matches."""
    return sum(term.weight for term in terms if term.preference.matches(node_name, labels))


def allows_topology(terms: tuple[TopologySelectorTerm, ...], labels: Mapping[str, str]) -> bool:
    """True if a StorageClass with these `allowedTopologies` may create volumes there; without terms, anywhere."""
    return not terms or any(term.matches(labels) for term in terms)


def _field_holds(requirement: Requirement, node_name: str) -> bool:
    if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        return False
    # As upstream, an unknown field reads as empty.
    return requirement.holds(node_name if requirement.key == NODE_NAME_FIELD else "")


NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Keys of the taints for a node's state. A person sets the last one, and vouches that the node is down."""
HARD_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))
"""The effects that keep a new pod off a node."""


class Taint(Record):
    """A mark on a node that repels pods without a matching toleration."""

    key: str
    effect: str
    value: str = ""
    time_added: Time | None = None


class Toleration(Record):
    """The taints that a pod accepts: an empty `key` or `effect` means any.

    `toleration_seconds`: how long the pod stays after a NoExecute taint appears; absent is for ever, 0 or less no time.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Equal" | "":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def find_untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str] = HARD_EFFECTS
) -> Taint | None:
    """The first taint with one of `effects` that the pod does not tolerate; None if it tolerates all."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None
