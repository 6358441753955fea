"""Nobody gives away rights that he does not have: checked whenever a role or a binding is written.

    a role       needs every right in it, or the verb `escalate` on the role; an aggregated role needs all rights
    a binding    needs every right of its role, or the verb `bind` on the role

Members of system:masters need nothing, nor does a write that only removes finalizers and owners, as the garbage
collector's. Mirrors pkg/registry/rbac: escalation_check.go and the policybased storages.

A rule is a box: groups × resources × names × verbs, or paths × verbs. Upstream splits rules into single rights, and a
rule of 700 bytes may hold a million of them. `uncovered` instead cuts every owned rule out of the wanted box; the rest
is boxes again, and the cost follows the bytes. `MAX_STEPS` bounds rules that cut a box into very many pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product
from math import prod
from operator import contains
from typing import Final, Protocol

from msgspec.structs import replace

from tonnage.documents import api_errors, go_text
from tonnage.documents.access.attributes import Attributes, Authorizer
from tonnage.documents.access.policy import RoleMissing, RoleRef, Sheet, aggregated, role_ref_of
from tonnage.documents.access.rules import GROUP, NAME, RESOURCE, UNNAMED, URL, VERB, Rule, RuleIndex, rules_of
from tonnage.errors import ApiError, BadRequest
from tonnage.objects.document import Doc
from tonnage.objects.resources import RBAC, Resource
from tonnage.objects.users import User

_FULL_AUTHORITY = RuleIndex((Rule(("*",), ("*",), ("*",)), Rule(("*",), non_resource_urls=("*",))))
_ROLES = frozenset({(RBAC, "roles"), (RBAC, "clusterroles")})
_BINDINGS = frozenset({(RBAC, "rolebindings"), (RBAC, "clusterrolebindings")})
_MAX_TOLD, _MAX_RULE_CHARS = 64, 512
"""Rules that a refusal lists, and characters of a rule that it shows. A role of 700 bytes may hold a million."""
_COLLECTED = ("ownerReferences", "finalizers", "managedFields")
MAX_STEPS: Final = 1_000_000
"""Values compared in one check: about a second of one thread."""
_MAX_LOOKED_UP: Final = 64
"""For longer lists of values, the rules that have one of the values are not looked up value by value."""
_MAX_VERBS: Final = 64
"""Verbs that a refusal shows for one resource; Kubernetes has eight, and a few that only rules use."""
_Values = Mapping[str | None, None]
"""An ordered set."""
Box = Mapping[int, _Values]
"""Rights by side: GROUP, RESOURCE, NAME and VERB, or URL, NAME and VERB. Boxes are cut in this order."""


class Rights(Authorizer, Protocol):
    """The rights of users, and the rules of roles."""

    def sheet(self, user: User, namespace: str) -> Sheet: ...

    def rules_of(self, role: RoleRef, namespace: str) -> RuleIndex:
        """Raises RoleMissing."""


def is_guarded(resource: Resource) -> bool:
    """True for the kinds whose writes give rights away."""
    return (resource.group, resource.plural) in _ROLES | _BINDINGS


def refuse_escalation(
    resource: Resource, namespace: str, name: str, new: Doc, old: Doc | None, user: User, rights: Rights
) -> None:
    """Raise Forbidden if the user writes a role or a binding beyond his rights. `name` is the URL's."""
    if user.is_master or (old is not None and _rest(new) == _rest(old)):  # a write of the garbage collector
        return
    about = partial(Attributes, user, version="*", namespace=namespace)
    is_role = (resource.group, resource.plural) in _ROLES
    if is_role:
        asked = about(verb="escalate", group=RBAC, resource=resource.plural, name=name)
        if rights.authorize(asked).allowed:
            return
        rules = RuleIndex(rules_of(new))
    else:
        role = role_ref_of(new)
        asked = about(verb="bind", group=role.group, resource=role.plural, name=role.name)
        if role.kind in ("Role", "ClusterRole") and rights.authorize(asked).allowed:
            return
        try:
            rules = rights.rules_of(role, namespace)
        except RoleMissing as exc:
            raise _missing(resource, exc) from exc
    problem = _not_held(resource, rules, user, namespace, rights)
    gathers = is_role and (_gathers(new) or _gathers(old or {}))
    if not problem and gathers and _not_held(resource, _FULL_AUTHORITY, user, namespace, rights):
        problem = "must have cluster-admin privileges to use the aggregationRule"
    if problem:
        raise api_errors.forbidden(resource, new["metadata"].get("name", ""), problem)


def _gathers(role: Doc) -> bool:
    return bool(role.get("aggregationRule", {}).get("clusterRoleSelectors"))


def _not_held(resource: Resource, wanted: RuleIndex, user: User, namespace: str, rights: Rights) -> str:
    """Upstream's sentence about rights that the user would give away and does not have; empty if he has them all."""
    sheet = rights.sheet(user, namespace)
    if wanted in sheet.roles:
        return ""
    who = f"user {go_text.quoted(user.name)} (groups={go_text.quoted_list(user.groups)})"
    try:
        missing = uncovered(sheet.roles, wanted.rules)
    except TooManySteps:
        return f"{who} is attempting to grant RBAC permissions in more rules than can be compared with those held"
    if not missing:
        return ""
    rules, more = compacted(missing, _MAX_TOLD)
    texts = (text if len(text := str(rule)) <= _MAX_RULE_CHARS else f"{text[:_MAX_RULE_CHARS]}..." for rule in rules)
    lines = "\n".join(sorted(texts))
    told = f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"
    if more:
        told += f"\nand {more} more"
    errors = aggregated(sheet.missing, lambda error: _missing(resource, error).message)
    return f"{told}; resolution errors: [{errors}]" if errors else told


def _missing(resource: Resource, error: RoleMissing) -> ApiError:
    """The error for a role that does not exist. As upstream, it names `resource`, the kind that is being written."""
    if error.role.kind not in ("Role", "ClusterRole"):
        return api_errors.UnknownReason(str(error))
    if error.role.kind == "Role" and not resource.namespaced:
        return BadRequest("Namespace parameter required.")  # a Role is in one, and a ClusterRoleBinding in none
    return api_errors.not_found(resource, error.role.name)


def _rest(doc: Doc) -> Doc:
    """A document without the fields that the garbage collector changes."""
    meta = {field: value for field, value in doc["metadata"].items() if field not in _COLLECTED}
    return {**doc, "metadata": meta}


class TooManySteps(Exception):
    """The check took more than `max_steps`."""


def boxes_of(rule: Rule) -> Iterator[Box]:
    """The rights in a rule. Before validation a rule may be about resources and paths at once."""
    names: _Values = dict.fromkeys(rule.resource_names or (UNNAMED,))
    verbs: _Values = dict.fromkeys(rule.verbs)
    about_resources: Box = {
        GROUP: dict.fromkeys(rule.api_groups), RESOURCE: dict.fromkeys(rule.resources), NAME: names, VERB: verbs
    }  # fmt: skip
    about_paths: Box = {URL: dict.fromkeys(rule.non_resource_urls), NAME: {UNNAMED: None}, VERB: verbs}
    for box in (about_resources, about_paths):
        if all(box.values()):
            yield box


def single_rights(box: Box) -> Iterator[Rule]:
    """Split a box into single rights. That may be a million rules, so it is not for roles that users wrote."""
    return (_rule(dict(zip(box, values, strict=True))) for values in product(*box.values()))


def _rule(values: Mapping[int, str | None]) -> Rule:
    of_side = (values.get(side) for side in (VERB, GROUP, RESOURCE, NAME, URL))
    return Rule(*(() if value is None else (value,) for value in of_side))


def uncovered(owned: Iterable[RuleIndex], wanted: Iterable[Rule], *, max_steps: int = MAX_STEPS) -> list[Box]:
    """The rights in `wanted` that no rule of `owned` has, as boxes. Raises TooManySteps."""
    indexes, cutting = list(dict.fromkeys(owned)), _Cutting(max_steps)
    return [left for rule in dict.fromkeys(wanted) for box in boxes_of(rule) for left in cutting.rest(box, indexes)]


class _Cutting:
    """One check, and the steps that it may still take."""

    def __init__(self, max_steps: int) -> None:
        self._steps_left = max_steps

    def rest(self, box: Box, indexes: Sequence[RuleIndex]) -> list[Box]:
        """The box without the rights in `indexes`. Wide rules cut first: they leave fewer pieces for narrow ones."""
        holders = [(index, position) for index in indexes for position in self._touching(index, box)]
        holders.sort(key=lambda holder: sum(holder[0].has_all(side, holder[1]) for side in box), reverse=True)
        pieces = [box]
        for index, position in holders:
            if not pieces:
                break
            self._spend(len(pieces))
            pieces = [left for piece in pieces for left in self._without(piece, index, position)]
        return pieces

    def _touching(self, index: RuleIndex, box: Box) -> list[int]:
        """Positions of the rules that may share a right with the box, by the side on which the fewest rules match."""
        touching: Sequence[int] = range(len(index.rules))
        for side, values in box.items():
            if len(values) > _MAX_LOOKED_UP:
                continue
            self._spend(len(values))
            having = [where for value in values for where in index.having(side, value)]
            if not having:
                return []
            if sum(map(len, having)) < len(touching):
                touching = list(dict.fromkeys(position for where in having for position in where))
        self._spend(len(touching))
        return sorted(touching)

    def _without(self, box: Box, index: RuleIndex, position: int) -> list[Box]:
        """The box without one rule's rights: one piece for every side that the rule covers only in part, verbs last."""
        within: dict[int, _Values] = {}
        for side, values in box.items():
            within[side] = self._within(values, index, side, position)
            if not within[side]:
                return [box]
        pieces: list[Box] = []
        inside = dict(box)
        for side, values in within.items():
            if len(values) < len(box[side]):
                self._spend(len(box[side]))
                pieces.append({**inside, side: {value: None for value in box[side] if value not in values}})
                inside[side] = values
        return pieces

    def _within(self, values: _Values, index: RuleIndex, side: int, position: int) -> _Values:
        if index.has_all(side, position):
            return values
        names = index.rules[position].resource_names
        if side == NAME and len(names) < len(values):
            self._spend(len(names))
            return {name: None for name in names if name in values}
        self._spend(len(values))
        return {value: None for value in values if any(position in where for where in index.having(side, value))}

    def _spend(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooManySteps


def compacted(boxes: Iterable[Box], most: int) -> tuple[list[Rule], int]:
    """At most `most` rules, about one group, resource and name or one path and verb each; and how many more exist."""
    rows: dict[tuple[str | None, ...], dict[str, None]] = {}
    sides, more = (GROUP, RESOURCE, NAME, URL), 0
    for box in boxes:
        about = [*(box.get(side, {None: None}) for side in sides), box[VERB] if URL in box else {None: None}]
        verbs = {str(verb): None for verb in islice(box[VERB], _MAX_VERBS)}
        known = [row for row in rows if all(map(contains, about, row))]
        for row in known:
            if URL not in box:
                rows[row] |= verbs
        new = [row for row in islice(product(*about), most) if row not in rows][: most - len(rows)]
        rows.update((row, {row[-1]: None} if row[-1] is not None else dict(verbs)) for row in new)
        more += prod(map(len, about)) - len(known) - len(new)
    shown = []
    for row, verbs in rows.items():
        told = (*islice(verbs, _MAX_VERBS - 1), "...") if len(verbs) >= _MAX_VERBS else tuple(verbs)
        shown.append(replace(_rule(dict(zip(sides, row, strict=False))), verbs=told))
    return shown, more
